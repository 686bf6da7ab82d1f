"""Tensors with their channels in blocks, as tensor expressions over what lies in memory."""

from collections.abc import Sequence
from typing import Any

from tvm import te

from compiler.kernels.group import TensorInfo

BLOCK_MARK = "channels"
"""The annotation of a block that stores a result: how many channels lie together."""


def stored_index(info: TensorInfo, indices: Sequence[Any]) -> list[Any]:
    """Where the element at a logical index lies: its index in `info.stored_shape`."""
    if not info.block:
        return list(indices)
    outer, channel, *spatial = indices
    return [outer, channel // info.block, *spatial, channel % info.block]


def logical_tensor(stored: te.Tensor, info: TensorInfo) -> te.Tensor:
    """The tensor that a kernel's operators see of what lies in memory."""
    if not info.block:
        return stored
    return te.compute(info.shape, lambda *i: stored(*stored_index(info, i)), name="logical")


def stored_tensor(tensor: te.Tensor, info: TensorInfo) -> te.Tensor:
    """What is written to memory of a result."""
    if not info.block:
        return tensor

    def body(outer: Any, channels: Any, *rest: Any) -> Any:
        return tensor(outer, channels * info.block + rest[-1], *rest[:-1])

    return te.compute(info.stored_shape, body, name="stored", attrs={BLOCK_MARK: info.block})
