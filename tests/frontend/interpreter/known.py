"""Known differences between onnxruntime and the interpreter, with the interpreter's reasons."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.operator_cases import Array, Case


@dataclass(frozen=True)
class Known:
    """A difference from onnxruntime: where it can occur, and the reason."""

    op_type: str
    condition: Callable[[Case], bool]
    reason: str


def _first(case: Case) -> Array:
    array = case.inputs[0]
    assert array is not None
    return array


def _is(*names: str) -> Callable[[Case], bool]:
    return lambda case: _first(case).dtype.name in names


def _integers(case: Case) -> bool:
    return _first(case).dtype.kind in "iu"


def _backwards_from_the_end(case: Case) -> bool:
    ends, steps = case.inputs[2], case.inputs[4]
    assert ends is not None
    assert steps is not None
    return bool((steps < 0).any() and np.isin(ends, (2**31 - 1, 2**63 - 1)).any())


KNOWN = (
    Known("Gelu", _is("float64"), "onnxruntime's constants for tanh have 32 bits"),
    Known("GroupNormalization", _is("float64"), "onnxruntime computes float64 in float32"),
    Known(
        "InstanceNormalization",
        lambda case: _first(case).size == int(np.prod(_first(case).shape[:2])),
        "onnxruntime cancels badly where a channel has one element",
    ),
    Known(
        "MeanVarianceNormalization",
        lambda _: True,
        "onnxruntime subtracts squares: NaN, or few bits, where the variance is near 0",
    ),
    Known("ReduceLogSumExp", _integers, "onnxruntime truncates a result that was rounded below"),
    Known("ReduceProd", _integers, "onnxruntime multiplies integers as floats, and does not wrap"),
    Known("Resize", _integers, "onnxruntime truncates, or rounds in fixed point"),
    Known(
        "Resize",
        lambda case: case.attributes.get("coordinate_transformation_mode") == "align_corners",
        "onnxruntime counts whole elements where a scale gives none, the text does not round",
    ),
    Known("Shrink", lambda case: not _is("float32")(case), "onnxruntime computes it in float32"),
    Known(
        "Slice",
        _backwards_from_the_end,
        "onnxruntime takes INT_MAX for the first element when it steps backwards",
    ),
    Known("Sign", _is("float16"), "onnxruntime's sign of NaN is 0 in float16"),
)
"""The known differences that random cases can meet."""


def is_known(case: Case) -> bool:
    """Whether a case may differ from onnxruntime."""
    return any(k.op_type == case.op_type and k.condition(case) for k in KNOWN)
