"""The passes, by name and in the order in which a pipeline uses them."""

from xdsl.passes import ModulePass

from compiler.passes.apply_constraints import ApplyConstraints
from compiler.passes.assign_layouts import AssignLayouts
from compiler.passes.assign_streams import AssignStreams
from compiler.passes.batch_products import BatchProducts
from compiler.passes.canonicalize import Canonicalize
from compiler.passes.elide_sync import ElideSync
from compiler.passes.embed_joins import EmbedJoins
from compiler.passes.fuse import Fuse
from compiler.passes.fuse_attention import FuseAttention
from compiler.passes.fuse_gathers import FuseGathers
from compiler.passes.fuse_separable import FuseSeparable
from compiler.passes.import_schedule import ImportSchedule
from compiler.passes.insert_sync import InsertSync
from compiler.passes.lower_to_taskflow import LowerToTaskflow
from compiler.passes.merge_branches import MergeBranches
from compiler.passes.multiply_patches import MultiplyPatches
from compiler.passes.order_launches import OrderLaunches
from compiler.passes.partition import Partition
from compiler.passes.plan_memory import PlanMemory
from compiler.passes.reduce_precision import ReducePrecision

_ALL: tuple[type[ModulePass], ...] = (
    MultiplyPatches,
    Canonicalize,
    BatchProducts,
    MergeBranches,
    FuseAttention,
    FuseGathers,
    Fuse,
    FuseSeparable,
    ReducePrecision,
    AssignLayouts,
    EmbedJoins,
    Partition,
    AssignStreams,
    OrderLaunches,
    LowerToTaskflow,
    ApplyConstraints,
    InsertSync,
    ElideSync,
    PlanMemory,
    ImportSchedule,
)

PASSES: dict[str, type[ModulePass]] = {each.name: each for each in _ALL}
"""Every pass of the project by its name in a pipeline."""
