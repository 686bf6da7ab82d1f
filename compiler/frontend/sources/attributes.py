"""Attributes of nodes that are rewritten, or that rewriting removes from an operator."""

from compiler.net.attributes import Attribute, flag, integer, integers, one_of
from compiler.net.operators.elementwise import ONNX_DTYPES
from compiler.net.operators.pooling import WINDOW_POOLS
from compiler.net.operators.recurrence import GATES
from compiler.net.operators.resize import COORDINATE_MODES
from compiler.net.operators.windows import WINDOW_ATTRIBUTES

_AUTO_PAD = one_of("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")
_WINDOW: dict[str, Attribute] = {**WINDOW_ATTRIBUTES, "auto_pad": _AUTO_PAD}
_CONVOLUTION = {**_WINDOW, "group": integer(1, least=1)}
_RECURRENT = {
    "clip": Attribute("float", least=0),
    "direction": one_of("forward", "reverse", "bidirectional"),
    "hidden_size": integer(least=1),
    "input_forget": flag(0),
    "layout": flag(0),
    "linear_before_reset": flag(0),
    "output_sequence": flag(0),
}
_ROUND_MODE = {"round_mode": one_of("up", "down", "nearest"), "saturate": flag(1)}
_CUMULATIVE = {"exclusive": flag(0), "reverse": flag(0)}
_ELEMENT_TYPE = Attribute("int", allowed=tuple(ONNX_DTYPES))
_WINDOW_FUNCTION = {"output_datatype": _ELEMENT_TYPE, "periodic": flag(1)}
_LOSS = {"reduction": one_of("mean", "none", "sum")}

SOURCE_ATTRIBUTES: dict[str, dict[str, Attribute]] = {
    "DFT": {"inverse": flag(0), "onesided": flag(0)},
    "STFT": {"onesided": flag(1)},
    "TensorScatter": {"mode": one_of("linear", "circular")},
    "AffineGrid": {"align_corners": flag(0)},
    "Attention": {
        "is_causal": flag(0),
        "kv_num_heads": integer(least=1),
        "q_num_heads": integer(least=1),
        "qk_matmul_output_mode": Attribute("int", 0, allowed=(0, 1, 2, 3)),
        "softmax_precision": Attribute("int", allowed=(1, 10, 11, 16)),
    },
    **dict.fromkeys((*WINDOW_POOLS, "Conv"), _WINDOW),
    "MaxPool": {**_WINDOW, "storage_order": flag(0)},
    "BatchNormalization": {"is_test": flag(0), "spatial": flag(1)},
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _WINDOW_FUNCTION),
    **dict.fromkeys(("Cast", "CastLike"), _ROUND_MODE),
    "Clip": {"max": Attribute("float"), "min": Attribute("float")},
    "ConcatFromSequence": {"new_axis": flag(0)},
    **dict.fromkeys(("ConvInteger", "QLinearConv"), _CONVOLUTION),
    "ConvTranspose": {**_CONVOLUTION, "output_shape": integers(least=0)},
    "CumProd": _CUMULATIVE,
    "EyeLike": {"dtype": _ELEMENT_TYPE},
    **dict.fromkeys(GATES, _RECURRENT),
    "GridSample": {
        "align_corners": flag(0),
        "mode": one_of("linear", "bilinear", "cubic", "bicubic", "nearest"),
        "padding_mode": one_of("zeros", "border", "reflection"),
    },
    "Col2Im": WINDOW_ATTRIBUTES,
    "DeformConv": {
        **WINDOW_ATTRIBUTES,
        "group": integer(1, least=1),
        "offset_group": integer(1, least=1),
    },
    "MaxUnpool": WINDOW_ATTRIBUTES,
    "RoiAlign": {
        "coordinate_transformation_mode": one_of("half_pixel", "output_half_pixel"),
        "mode": one_of("avg", "max"),
        "output_height": integer(1, least=1),
        "output_width": integer(1, least=1),
        "sampling_ratio": integer(0, least=0),
    },
    "MelWeightMatrix": {"output_datatype": _ELEMENT_TYPE},
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _LOSS),
    "Resize": {"coordinate_transformation_mode": one_of(*COORDINATE_MODES, "tf_half_pixel_for_nn")},
    "RotaryEmbedding": {"interleaved": flag(0)},
    "SequenceEmpty": {"dtype": _ELEMENT_TYPE},
    "SpaceToDepth": {"mode": one_of("DCR", "CRD")},
    "SplitToSequence": {"keepdims": flag(1)},
    "Unique": {"sorted": flag(1)},
    "Upsample": {"mode": one_of("nearest", "linear", "bilinear")},
}
"""By operator: attributes that are not in the table, or with values that rewriting resolves."""
