"""Operators that PyTorch's exporter writes as ONNX operators which compute something else.

The exporter raises no error and onnxruntime computes the same of its file: docs/exported.md has how
this is searched. Nothing here needs PyTorch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Fault = Callable[[Mapping[str, Any], Sequence[Any]], str | None]
"""The part of a use that is lost, if any, by its arguments and the sizes of its first tensor."""


def _scattered(arguments: Mapping[str, Any], sizes: Sequence[Any]) -> str | None:
    del sizes
    return "its mean" if arguments["reduce"] == "mean" else None


def _averaged(arguments: Mapping[str, Any], sizes: Sequence[Any]) -> str | None:
    del sizes
    return "its divisor" if arguments.get("divisor_override") is not None else None


def _resized(arguments: Mapping[str, Any], sizes: Sequence[Any]) -> str | None:
    """ONNX gets the result's sizes alone, which imply other scales and corners."""
    if arguments.get("align_corners"):
        return "what align_corners means with antialias"
    scales = [arguments.get("scales_h"), arguments.get("scales_w")]
    pairs = zip(scales, arguments["output_size"], sizes[-2:], strict=True)
    exact = all(scale is None or _is_scaled(size, scale, old) for scale, size, old in pairs)
    return None if exact else "its scales"


def _is_scaled(size: Any, scale: float, old: Any) -> bool:
    """Whether a scale is the one that sizes have; not where a size varies."""
    return type(size) is type(old) is int and size == old * scale


def _computed_in_parts(arguments: Mapping[str, Any], sizes: Sequence[Any]) -> str | None:
    del arguments, sizes
    return "its results where exp overflows or erfc vanishes"


FAULTS: Mapping[str, Fault] = {
    "aten.scatter_reduce": _scattered,
    "aten.avg_pool2d": _averaged,
    "aten.avg_pool3d": _averaged,
    "aten._upsample_bilinear2d_aa": _resized,
    "aten._upsample_bicubic2d_aa": _resized,
    "aten.special_erfcx": _computed_in_parts,
}
"""By the operator, without its overload."""


def fault_of(operator: str, arguments: Mapping[str, Any], sizes: Sequence[Any]) -> str | None:
    """The part of a use of an operator such as `aten.scatter_reduce.two` that is lost, if any.

    `arguments` are by name, `sizes` are those of its first tensor. An argument that is
    left out has its default.
    """
    fault = FAULTS.get(operator.rpartition(".")[0])
    return None if fault is None else fault(arguments, sizes)
