"""The passes, by name and in the order in which a pipeline uses them."""

from xdsl.passes import ModulePass

from compiler.passes.graph.assign_layouts import AssignLayouts
from compiler.passes.graph.batch_gemv import BatchGemv
from compiler.passes.graph.canonicalize import Canonicalize
from compiler.passes.graph.conv_to_gemm import ConvToGemm
from compiler.passes.graph.emplace_concats import EmplaceConcats
from compiler.passes.graph.fold_ranges import FoldRanges
from compiler.passes.graph.fuse_attention import FuseAttention
from compiler.passes.graph.fuse_channels_last import FuseChannelsLast
from compiler.passes.graph.fuse_depthwise_pointwise import FuseDepthwisePointwise
from compiler.passes.graph.fuse_gathers import FuseGathers
from compiler.passes.graph.fuse_group_norm import FuseGroupNorm
from compiler.passes.graph.fuse_operators import FuseOperators
from compiler.passes.graph.fuse_ranges import FuseRanges
from compiler.passes.graph.fuse_siblings import FuseSiblings
from compiler.passes.graph.fuse_squeeze_excite import FuseSqueezeExcite
from compiler.passes.graph.lower_quantised import LowerQuantised
from compiler.passes.graph.order_scatters import OrderScatters
from compiler.passes.graph.reduce_precision import ReducePrecision
from compiler.passes.graph.share_kernels import ShareKernels
from compiler.passes.graph.substitute import Substitute
from compiler.passes.schedule.apply_constraints import ApplyConstraints
from compiler.passes.schedule.assign_streams import AssignStreams
from compiler.passes.schedule.elide_sync import ElideSync
from compiler.passes.schedule.import_placement import ImportPlacement
from compiler.passes.schedule.import_schedule import ImportSchedule
from compiler.passes.schedule.insert_sync import InsertSync
from compiler.passes.schedule.keep_weights import KeepWeights
from compiler.passes.schedule.lower_to_taskflow import LowerToTaskflow
from compiler.passes.schedule.order_launches import OrderLaunches
from compiler.passes.schedule.partition_graph import PartitionGraph
from compiler.passes.schedule.plan_memory import PlanMemory

_ALL: tuple[type[ModulePass], ...] = (
    LowerQuantised,
    ConvToGemm,
    Canonicalize,
    FuseGroupNorm,
    OrderScatters,
    Substitute,
    BatchGemv,
    FuseSiblings,
    FuseAttention,
    FuseSqueezeExcite,
    FuseRanges,
    FuseGathers,
    FuseOperators,
    FuseChannelsLast,
    FuseDepthwisePointwise,
    ReducePrecision,
    AssignLayouts,
    EmplaceConcats,
    FoldRanges,
    ShareKernels,
    PartitionGraph,
    AssignStreams,
    OrderLaunches,
    KeepWeights,
    ImportPlacement,
    LowerToTaskflow,
    ApplyConstraints,
    InsertSync,
    ElideSync,
    PlanMemory,
    ImportSchedule,
)

PASSES: dict[str, type[ModulePass]] = {kind.name: kind for kind in _ALL}
"""Every pass of the project by its name in a pipeline."""
