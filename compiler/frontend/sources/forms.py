"""Conversion of operators of old opsets to the form of the table, whose rules check them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from compiler.frontend.node import ModelNode
from compiler.net.attributes import Mismatch
from compiler.net.graph import constant
from compiler.net.operators import OPERATORS
from compiler.net.operators.elementwise import ONNX_DTYPES
from compiler.net.operators.injective import split_sizes
from compiler.net.operators.pooling import WINDOW_POOLS
from compiler.support.registry import Registrar

_RENAMED = {"Mean": "Max", "Scatter": "ScatterElements", "Sum": "Max"}
"""Operators with the same shape rules as another one."""

_FORMS: dict[str, Callable[[ModelNode], ModelNode | None]] = {}
_forms = Registrar(_FORMS)


@_forms(*_RENAMED)
def _renamed(node: ModelNode) -> ModelNode:
    return replace(node, op_type=_RENAMED[node.op_type])


@_forms("Split")
def _split(node: ModelNode) -> ModelNode:
    """Parts are of equal size before opset 18; since then `num_outputs` is their number."""
    shape = node.shape()
    parts = len(node.used)
    if node.attributes.get("num_outputs", parts) != parts:
        wanted = node.attributes["num_outputs"]
        raise Mismatch(f"its num_outputs is {wanted}, it has {parts} outputs")
    if "split" in node.attributes or node.input(1) is not None or not shape:
        return node
    size = shape[node.axis()]
    equal = node.version < 18
    sizes = [-(-size // parts)] * parts if equal else split_sizes(size, parts)
    return replace(node, attributes={"axis": node["axis"], "split": sizes})


@_forms("Cast")
def _cast(node: ModelNode) -> ModelNode | None:
    """Rewriting reports a target type that kernels do not support."""
    return node if node.attributes["to"] in ONNX_DTYPES else None


@_forms("Clip")
def _clip(node: ModelNode) -> ModelNode:
    return replace(node, attributes={})


@_forms("LogSoftmax", "Softmax")
def _softmax(node: ModelNode) -> ModelNode:
    axis = node["axis"]
    if node.version < 13 and "axis" not in node.attributes and len(node.shape()) < 2:
        axis = 0
    return replace(node, attributes={"axis": axis})


def resize_form(node: ModelNode) -> ModelNode:
    """A Resize with the inputs of the newest opset, of which those that are not read are left out.

    The first one has no region; an empty tensor once meant an omitted input.
    """
    mode = node.attributes.get("coordinate_transformation_mode")
    inputs = [None if v is not None and v.shape == (0,) else v for v in node.inputs]
    if node.version == 10:
        inputs.insert(1, None)
    elif len(inputs) > 1 and mode != "tf_crop_and_resize":
        inputs[1] = None
    attributes = dict(node.attributes)
    if mode == "tf_half_pixel_for_nn":  # only the first version with a region has that mode
        del attributes["coordinate_transformation_mode"]
    return replace(node, inputs=inputs, attributes=attributes)


_forms("Resize")(resize_form)


@_forms("Upsample")
def _upsample(node: ModelNode) -> ModelNode:
    scales = node.attributes.get("scales")
    factors = node.input(1) if scales is None else constant("", np.asarray(scales, np.float32))
    return replace(node, op_type="Resize", inputs=[node.data, None, factors], attributes={})


@_forms("BatchNormalization")
def _batch_normalization(node: ModelNode) -> ModelNode | None:
    """Old forms have up to five results, or statistics of each activation."""
    old = len(node.used) > 1 or not node["spatial"]
    return None if old else node


@_forms("GroupNormalization")
def _group_normalization(node: ModelNode) -> ModelNode | None:
    return node if node.version >= 21 else None


def _convolution(node: ModelNode) -> ModelNode:
    """An empty `auto_pad` is the default."""
    if node.attributes.get("auto_pad") != "":
        return node
    return replace(node, attributes={n: v for n, v in node.attributes.items() if n != "auto_pad"})


_forms(*WINDOW_POOLS, "Conv")(_convolution)


@_forms("ConvInteger", "MatMulInteger")
def _integers(node: ModelNode) -> ModelNode:
    """Zero points do not change the type; the table has only that of a whole operand 0."""
    return replace(_convolution(node), inputs=node.inputs[:2])


@_forms("ConvTranspose")
def _transposed(node: ModelNode) -> ModelNode | None:
    """Pads that follow from a result's shape are left to rewriting."""
    mode = node["auto_pad"]
    if mode not in ("NOTSET", "") or node.attributes.get("output_shape"):
        return None
    return _convolution(node)


def newest_form(node: ModelNode) -> ModelNode | None:
    """A node in the form of the table; None for an operator that the table does not describe."""
    form = _FORMS.get(node.op_type)
    if form is not None:
        return form(node)
    return node if node.op_type in OPERATORS else None
