"""Attributes of nodes that are rewritten, or that rewriting removes from an operator."""

from compiler.ir.operators.definition import Attribute, integer, integers, one_of
from compiler.ir.operators.windows import WINDOW_ATTRIBUTES

_AUTO_PAD = one_of("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")
_WINDOW: dict[str, Attribute] = {**WINDOW_ATTRIBUTES, "auto_pad": _AUTO_PAD}
_CONVOLUTION = {**_WINDOW, "group": integer(1, least=1)}
_RECURRENT = {
    "direction": one_of("forward", "reverse", "bidirectional"),
    "hidden_size": integer(least=1),
    "layout": Attribute("int", 0, allowed=(0, 1)),
}

SOURCE_ATTRIBUTES: dict[str, dict[str, Attribute]] = {
    **dict.fromkeys(("AveragePool", "Conv", "LpPool", "MaxPool"), _WINDOW),
    **dict.fromkeys(("ConvInteger", "QLinearConv"), _CONVOLUTION),
    "ConvTranspose": {**_CONVOLUTION, "output_shape": integers(least=0)},
    "DequantizeLinear": {"block_size": integer(0, least=0)},
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _RECURRENT),
    "QuantizeLinear": {"block_size": integer(0, least=0)},
    "Resize": {
        "coordinate_transformation_mode": one_of(
            "half_pixel",
            "half_pixel_symmetric",
            "pytorch_half_pixel",
            "align_corners",
            "asymmetric",
            "tf_half_pixel_for_nn",
            "tf_crop_and_resize",
        )
    },
    "SpaceToDepth": {"mode": one_of("DCR", "CRD")},
    "Upsample": {"mode": one_of("nearest", "linear", "bilinear")},
}
"""By operator: attributes that the table has not, or with values that rewriting resolves."""
