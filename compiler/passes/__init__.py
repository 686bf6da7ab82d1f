"""The passes, by name and in the order in which a pipeline uses them."""

from xdsl.passes import ModulePass

from compiler.passes.graph.assign_layouts import AssignLayouts
from compiler.passes.graph.batch_products import BatchProducts
from compiler.passes.graph.canonicalize import Canonicalize
from compiler.passes.graph.embed_joins import EmbedJoins
from compiler.passes.graph.fuse import Fuse
from compiler.passes.graph.fuse_attention import FuseAttention
from compiler.passes.graph.fuse_gathers import FuseGathers
from compiler.passes.graph.fuse_separable import FuseSeparable
from compiler.passes.graph.merge_branches import MergeBranches
from compiler.passes.graph.multiply_patches import MultiplyPatches
from compiler.passes.graph.reduce_precision import ReducePrecision
from compiler.passes.schedule.apply_constraints import ApplyConstraints
from compiler.passes.schedule.assign_streams import AssignStreams
from compiler.passes.schedule.elide_sync import ElideSync
from compiler.passes.schedule.import_schedule import ImportSchedule
from compiler.passes.schedule.insert_sync import InsertSync
from compiler.passes.schedule.lower_to_taskflow import LowerToTaskflow
from compiler.passes.schedule.order_launches import OrderLaunches
from compiler.passes.schedule.partition import Partition
from compiler.passes.schedule.plan_memory import PlanMemory

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
