"""Models that onnxruntime refuses, or that end it, although ONNX allows them."""

import re

import onnx

LIMITS = {
    "NOT_IMPLEMENTED|Could not find an implementation": "it has no kernel for the type",
    "No Op registered|Batchwise recurrent operations": "it lacks the operator's variant",
    "exclude_outside can be set|in the Resize operator": "Resize of some dimensions and modes only",
    "anti-aliasing is set, Resize only": "antialias without interpolation, where it has no effect",
    "Axes input is null": "Squeeze whose axes are named by an empty text, which leaves them out",
    r"saturate is only used|GetAttr..hidden_size|clip_ > 0": "attributes of no effect, or left out",
    "input1? (scale|zero point) must be a scalar": "matrices are quantised by column, not by row",
    "Non per-tensor quantization": "ConvInteger takes no zero point for each output channel",
    "should be scalars .Tensor with only one": "Range takes constants that are scalars",
    "non-negative for OneHot opset": "indices of the old OneHot that are constants",
    "Only N can be zero": "pools over images without pixels or channels",
    "Dilation not supported for AutoPadType": "automatic pads of dilated windows",
    "Integer (division|modulo) by zero": "integers divided by zero, which ONNX does not define",
    "with zero effective input extent": "reflection where negative pads leave nothing",
    "min_ <= max_ was false": "bounds of the old Clip of which the lower one is larger",
    "ratio must be in the range": "a share for Dropout that only training needs",
    "padding values must be non-negative": "SAME of windows shorter than their strides",
    "Explicit output_shape is inconsistent": "an output_shape larger by less than a dilation",
    "SafeIntOnOverflow": "adaptive RoiAlign of a region that ends before it begins",
    r"IsPrimitiveDataType<T>": "Resize of bytes by cubics",
    "narrowing_error": "integers of Resize's antialiasing near the limits of their type",
    r"scale_ > 0 \|\| std::isnan": "Attention whose scale is 0, which gives means",
    r"attn_mask == nullptr \|\| attn_mask->Shape": "masks of Attention that all queries share",
    "beta_ > 0|alpha_ > 0|size_ % 2": "LRN takes positive alpha and beta, and odd sizes",
}
"""What onnxruntime refuses although ONNX allows it: a pattern of its message, and in words."""


def limit(refusal: str) -> str | None:
    """The limit of onnxruntime that a refusal is about, if it is one of them."""
    return next((why for pattern, why in LIMITS.items() if re.search(pattern, refusal)), None)


def ends_onnxruntime(model: onnx.ModelProto) -> bool:
    """Whether onnxruntime's process ends by a signal: at a DFT whose axis is an empty name."""
    nodes = (node for node in model.graph.node if node.op_type == "DFT")
    return any(len(node.input) > 2 and not node.input[2] for node in nodes)
