"""PyTorch's tensors in and out of a run, without a copy where they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from compiler.errors import ModelError, ShapeError
from compiler.tensors.dtypes import numpy_dtype

NARROW_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
}
"""PyTorch's dtypes for the ones that numpy has only through ml_dtypes."""


def as_array(tensor: torch.Tensor) -> Any:
    """A tensor as a run takes it: the host's as numpy, which shares its memory, others as they are.

    Raises ShapeError for a layout that is not dense.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise ShapeError(f"a tensor has the layout {tensor.layout}: pass a dense one")
    # PyTorch conjugates and negates lazily: a flag says what the memory does not have yet
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.device.type != "cpu":
        return plain.contiguous()
    if plain.dtype in NARROW_DTYPES.values():
        name = next(n for n, dtype in NARROW_DTYPES.items() if dtype is plain.dtype)
        same_size = torch.uint8 if plain.dtype.itemsize == 1 else torch.int16
        return plain.view(same_size).numpy().view(numpy_dtype(name))
    return plain.numpy()


def as_tensor(value: Any) -> torch.Tensor:
    """A result of a run as a tensor that shares its memory."""
    if isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, np.ndarray | np.generic):
        return torch.from_dlpack(value)
    array = np.asarray(value)
    if array.dtype.name in NARROW_DTYPES:
        same_size = np.uint8 if array.dtype.itemsize == 1 else np.int16
        return torch.from_numpy(array.view(same_size)).view(NARROW_DTYPES[array.dtype.name])
    return torch.from_numpy(array)


def torch_dtype(name: str) -> torch.dtype:
    """PyTorch's dtype of a schedule's."""
    if name in NARROW_DTYPES:
        return NARROW_DTYPES[name]
    return torch.from_numpy(np.empty(0, numpy_dtype(name))).dtype


def tensors_target(tensors: Sequence[torch.Tensor]) -> str:
    """The target for the device that tensors are on; raises ShapeError if they are on several."""
    kinds = {tensor.device.type for tensor in tensors} or {"cpu"}
    if len(kinds) > 1 or not kinds <= {"cpu", "cuda"}:
        raise ShapeError(f"tensors are on {', '.join(sorted(kinds))}: move them to cpu or to cuda")
    if kinds == {"cpu"}:
        return "cpu"
    return "hip" if torch.version.hip else "cuda"


def refuse_gradients(tensors: Sequence[torch.Tensor]) -> None:
    """Raise ModelError if a caller expects to differentiate with respect to tensors."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise ModelError(
            "gradients are asked for, and Flowloom is for inference: call the model under"
            " torch.no_grad() or torch.inference_mode(), or call model.requires_grad_(False) first"
        )
