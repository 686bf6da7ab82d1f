"""The kernel templates, a folder each: problem, configs, estimate, CUDA text and headers."""

from typing import Any

from compiler.kernels.gpu.templates.attention.template import FusedAttention
from compiler.kernels.gpu.templates.byte_gemm.template import ByteGemm
from compiler.kernels.gpu.templates.channels_last_conv.template import ChannelsLastConv
from compiler.kernels.gpu.templates.cumulative.template import ScanRows
from compiler.kernels.gpu.templates.depthwise_conv.template import DepthwiseConv
from compiler.kernels.gpu.templates.depthwise_pointwise.template import DepthwisePointwise
from compiler.kernels.gpu.templates.fourier.template import TransformRows
from compiler.kernels.gpu.templates.gemm.template import Gemm
from compiler.kernels.gpu.templates.gemv.four_bits import FourBitGemv
from compiler.kernels.gpu.templates.gemv.template import Gemv
from compiler.kernels.gpu.templates.generic.template import Generic
from compiler.kernels.gpu.templates.group_norm.template import GroupNorm
from compiler.kernels.gpu.templates.grouped_conv.template import GroupedConv
from compiler.kernels.gpu.templates.max_pool.template import MaxPool
from compiler.kernels.gpu.templates.pointwise.template import Pointwise
from compiler.kernels.gpu.templates.recurrence.template import PersistentRecurrence
from compiler.kernels.gpu.templates.row_norm.template import RowNorm
from compiler.kernels.gpu.templates.scatter.template import Scatter
from compiler.kernels.gpu.templates.scatter_order.template import SortUpdates
from compiler.kernels.gpu.templates.segment_reduce.template import ReduceSegments
from compiler.kernels.gpu.templates.select.template import SelectRows
from compiler.kernels.gpu.templates.selected_gemv.template import SelectedGemv
from compiler.kernels.gpu.templates.skinny_gemm.four_bits import FourBitGemm
from compiler.kernels.gpu.templates.skinny_gemm.template import SkinnyGemm
from compiler.kernels.gpu.templates.softmax.template import SoftmaxRows
from compiler.kernels.gpu.templates.squeeze_excite.template import SqueezeExcite
from compiler.kernels.gpu.templates.stem_conv.template import StemConv
from compiler.kernels.gpu.templates.tensor_range.template import TensorRange
from compiler.kernels.gpu.templates.top_k.template import SortRows
from compiler.kernels.template import Template
from compiler.target.target import GpuTarget

TEMPLATES: tuple[Template[Any, Any, GpuTarget], ...] = (
    FusedAttention(),
    DepthwisePointwise(),
    SqueezeExcite(),
    ChannelsLastConv(),
    DepthwiseConv(),
    GroupedConv(),
    StemConv(),
    SkinnyGemm(),
    Gemv(),
    FourBitGemm(),
    FourBitGemv(),
    Gemm(),
    ByteGemm(),
    RowNorm(),
    GroupNorm(),
    SoftmaxRows(),
    TensorRange(),
    PersistentRecurrence(),
    MaxPool(),
    Pointwise(),
    Scatter(),
    SortUpdates(),
    ReduceSegments(),
    SelectedGemv(),
    SelectRows(),
    SortRows(),
    ScanRows(),
    TransformRows(),
    Generic(),
)
"""All templates; of equally fast ones the first takes a group, the last what no other matches."""

SIZED_TEMPLATES = tuple(
    own for own in TEMPLATES if own.name in ("attention", "gemm", "row_norm", "generic")
)
"""The templates that take groups with symbols."""
