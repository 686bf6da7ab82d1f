"""Conversion of operators of old opsets to the form of the table, whose rules check them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from compiler.frontend.sources.source import Source, vector
from compiler.net.attributes import Mismatch
from compiler.net.operators import OPERATORS
from compiler.net.operators.elementwise import ONNX_DTYPES
from compiler.net.operators.injective import split_sizes
from compiler.net.operators.pooling import WINDOW_POOLS
from compiler.net.operators.reductions import LISTED_REDUCTIONS
from compiler.net.operators.shapes import axis_in
from compiler.net.spec import KnownTensor, OperatorInput

Form = tuple[str, Sequence[OperatorInput | None], Mapping[str, Any]]
"""An operator of the table, its inputs and attributes."""

_RENAMED = {"Mean": "Max", "Scatter": "ScatterElements", "Sum": "Max"}
"""Operators with the same shape rules as another one."""

_FROM_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(LISTED_REDUCTIONS, ("axes",)),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), ("axes",)),
    "Pad": ("pads",),
    "Slice": ("starts", "ends", "axes"),
    "Split": ("split",),
    "TopK": ("k",),
}
"""Attributes of old opsets that became inputs, from the second on."""


def _whole(source: Source) -> Form | None:
    return _RENAMED.get(source.op_type, source.op_type), source.inputs, source.attributes


def _with_inputs(source: Source) -> Form | None:
    """Attributes of old opsets as inputs."""
    names = _FROM_ATTRIBUTES[source.op_type]
    if len(source.inputs) > 1 or not any(name in source.attributes for name in names):
        return _whole(source)
    given = [source.attributes.get(name) for name in names]
    inputs = [source.inputs[0], *(None if v is None else vector(v) for v in given)]
    return source.op_type, inputs, source.attributes


def _split(source: Source) -> Form | None:
    """Parts are of equal size before opset 18; since then `num_outputs` is their number."""
    if source.attributes.get("num_outputs", source.outputs) != source.outputs:
        wanted = source.attributes["num_outputs"]
        raise Mismatch(f"its num_outputs is {wanted}, it has {source.outputs} outputs")
    form = _with_inputs(source)
    if form is None or len(form[1]) > 1 or not source.shape():
        return form
    shape = source.shape()
    size = shape[axis_in(source["axis"], len(shape))]
    equal = source.version < 18
    parts = source.outputs
    sizes = [-(-size // parts)] * parts if equal else split_sizes(size, parts)
    attributes = {"axis": source["axis"]}
    return "Split", [source.inputs[0], vector(sizes)], attributes


def _cast(source: Source) -> Form | None:
    """Rewriting reports a target type that kernels do not support."""
    return _whole(source) if source.attributes["to"] in ONNX_DTYPES else None


def _clip(source: Source) -> Form | None:
    return "Clip", source.inputs, {}


def _softmax(source: Source) -> Form | None:
    axis = source["axis"]
    if source.version < 13 and "axis" not in source.attributes and len(source.shape()) < 2:
        axis = 0
    return source.op_type, source.inputs, {"axis": axis}


def _resize(source: Source) -> Form | None:
    """The first Resize has no region; an empty tensor once meant an omitted input."""
    if source.version == 10:
        x, scales = source.inputs
        return "Resize", [x, None, scales], _without_modes(source)
    inputs = [None if v is not None and v.shape == (0,) else v for v in source.inputs]
    crop = source.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if len(inputs) > 1 and not crop:
        inputs[1] = None
    return "Resize", inputs, _without_modes(source)


def _without_modes(source: Source) -> dict[str, Any]:
    """The attributes without a mode that only the first version had."""
    gone = source.attributes.get("coordinate_transformation_mode") == "tf_half_pixel_for_nn"
    hidden = "coordinate_transformation_mode" if gone else ""
    return {name: value for name, value in source.attributes.items() if name != hidden}


def _upsample(source: Source) -> Form | None:
    scales = source.attributes.get("scales")
    if scales is None:
        return "Resize", [source.inputs[0], None, source.input(1)], {}
    array = np.asarray(scales, np.float32)
    return "Resize", [source.inputs[0], None, KnownTensor("float32", array.shape, array)], {}


def _batch_normalization(source: Source) -> Form | None:
    """Old forms have up to five results, or statistics of each activation."""
    old = source.outputs > 1 or not source["spatial"]
    return None if old else _whole(source)


def _group_normalization(source: Source) -> Form | None:
    return _whole(source) if source.version >= 21 else None


def _reshape(source: Source) -> Form | None:
    target = source.input(1)
    return None if target is None else _whole(source)


def _convolution(source: Source) -> Form:
    """An empty `auto_pad` is the default."""
    kept = {n: v for n, v in source.attributes.items() if n != "auto_pad" or v}
    return source.op_type, source.inputs, kept


def _integers(source: Source) -> Form | None:
    """Zero points do not change the type; the table has only that of a whole operand 0."""
    op_type, _, attributes = _convolution(source)
    return op_type, source.inputs[:2], attributes


def _transposed(source: Source) -> Form | None:
    """Pads that follow from a result's shape are left to rewriting."""
    mode = source["auto_pad"]
    if mode not in ("NOTSET", "") or source.attributes.get("output_shape"):
        return None
    return _convolution(source)


_FORMS: dict[str, Callable[[Source], Form | None]] = {
    **dict.fromkeys(_FROM_ATTRIBUTES, _with_inputs),
    **dict.fromkeys(_RENAMED, _whole),
    **dict.fromkeys((*WINDOW_POOLS, "Conv"), _convolution),
    **dict.fromkeys(("ConvInteger", "MatMulInteger"), _integers),
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Clip": _clip,
    "ConvTranspose": _transposed,
    "GroupNormalization": _group_normalization,
    "LogSoftmax": _softmax,
    "Reshape": _reshape,
    "Resize": _resize,
    "Softmax": _softmax,
    "Split": _split,
    "Upsample": _upsample,
}


def newest_form(source: Source) -> Form | None:
    """A node in the form of the table; None for an operator that the table does not describe."""
    form = _FORMS.get(source.op_type)
    if form is not None:
        return form(source)
    return _whole(source) if source.op_type in OPERATORS else None
