"""Tensors with their channels in blocks, as tensor expressions over the stored tensors."""

from collections.abc import Sequence
from typing import Any

from tvm import te

from compiler.ir.layouts import blocks_first
from compiler.kernels.group import TensorInfo

BLOCK_MARK = "channels"
"""The annotation of a block that stores a result: how many channels are next to each other."""


def stored_index(info: TensorInfo, indices: Sequence[Any]) -> list[Any]:
    """The index in `info.stored_shape` of the element at a logical index."""
    if not info.block:
        return list(indices)
    outer, channel, *spatial = indices
    lead = [outer, channel // info.block]
    return [*(lead[::-1] if blocks_first(info.shape) else lead), *spatial, channel % info.block]


def logical_tensor(stored: te.Tensor, info: TensorInfo) -> te.Tensor:
    """The tensor that a kernel's operators see of a stored one."""
    if not info.block:
        return stored
    return te.compute(info.shape, lambda *i: stored(*stored_index(info, i)), name="logical")


def stored_tensor(tensor: te.Tensor, info: TensorInfo) -> te.Tensor:
    """The tensor that is written to memory for a result."""
    if not info.block:
        return tensor

    def body(*indices: Any) -> Any:
        *lead, channel = indices
        first, second, *spatial = lead
        outer, block = (second, first) if blocks_first(info.shape) else (first, second)
        return tensor(outer, block * info.block + channel, *spatial)

    return te.compute(info.stored_shape, body, name="stored", attrs={BLOCK_MARK: info.block})
