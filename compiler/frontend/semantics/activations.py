"""The parameters of recurrent activation functions, by the ONNX text and by onnxruntime."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compiler.net.operators.recurrence import ACTIVATION_PARAMETERS, ZERO_IN_ONNXRUNTIME

_BY_LOWER_NAME = {name.lower(): name for name in ACTIVATION_PARAMETERS}


def standard_activation(name: str) -> str | None:
    """The ONNX text's spelling of an activation function; None for an unknown one."""
    return _BY_LOWER_NAME.get(name.lower())


def activation_parameters(
    names: Sequence[str], attributes: Mapping[str, Any], *, as_onnxruntime: bool = False
) -> list[Mapping[str, float]]:
    """The parameters, by name, of each of some standard activation functions of a node.

    Functions take the values of `activation_alpha` and `activation_beta` in their order, and
    defaults after the last: those of the operators by the ONNX text (Affine, ScaledTanh and
    ThresholdedRelu are of opset 1).
    """
    lists: dict[str, Sequence[float]] = {
        key: attributes.get(f"activation_{key}") or () for key in ("alpha", "beta")
    }
    listed = {key: iter(values) for key, values in lists.items()}
    return [_taken(name, listed, as_onnxruntime) for name in names]


def _taken(
    name: str, listed: Mapping[str, Iterator[float]], as_onnxruntime: bool
) -> Mapping[str, float]:
    defaults = ACTIVATION_PARAMETERS[name]
    if as_onnxruntime and name in ZERO_IN_ONNXRUNTIME:
        defaults = dict.fromkeys(defaults, 0.0)
    return {key: next(listed[key], default) for key, default in defaults.items()}
