"""The kernel templates of CPUs: each writes the loops around one operator, the group's anchor.

What is fused with the anchor is computed element by element, so that at most one template matches a
group besides the last one.
"""

from typing import Any

from compiler.kernels.cpu.templates.attention import FusedAttention
from compiler.kernels.cpu.templates.byte_conv2d import ByteConvolution
from compiler.kernels.cpu.templates.byte_matmul import ByteMatmul
from compiler.kernels.cpu.templates.conv2d import FloatConvolution
from compiler.kernels.cpu.templates.conv_transpose import TransposedConvolution
from compiler.kernels.cpu.templates.four_bit_matmul import FourBitMatmul
from compiler.kernels.cpu.templates.generic import Generic
from compiler.kernels.cpu.templates.matmul import FloatMatmul
from compiler.kernels.template import Template
from compiler.target.target import CpuTarget

TEMPLATES: tuple[Template[Any, Any, CpuTarget], ...] = (
    FloatConvolution(),
    TransposedConvolution(),
    FloatMatmul(),
    ByteConvolution(),
    ByteMatmul(),
    FourBitMatmul(),
    FusedAttention(),
    Generic(),
)
"""All templates; of equally fast ones the first takes a group, the last what no other matches."""
