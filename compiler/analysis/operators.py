"""What each ONNX operator is to the compiler: its kind, and the inputs whose values must be known.

An operator that is not in this table cannot be compiled; the frontend folds it, expands it into
operators of the table, or reports it. The kernel builder has a lowering for each but the views.
"""

from enum import Enum


class Kind(Enum):
    """How an operator computes, which is what decides whether it can be fused."""

    ELEMENTWISE = "elementwise"  # one output element from the same element of each input
    INJECTIVE = "injective"  # one output element from one input element somewhere else
    REDUCTION = "reduction"  # one output element from many input elements
    CONTRACTION = "contraction"  # a reduction over products: convolutions and matrix products
    VIEW = "view"  # the same bytes under another shape
    OPAQUE = "opaque"  # never fused: sorts, scatters, scans


def _table(kind: Kind, names: str) -> dict[str, Kind]:
    return dict.fromkeys(names.split(), kind)


KINDS: dict[str, Kind] = {
    **_table(
        Kind.ELEMENTWISE,
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr"
        " BitwiseXor Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Expand Floor Gelu Greater"
        " GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max"
        " Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign"
        " Sin Sinh Softplus Softsign Sqrt Sub Tan Tanh ThresholdedRelu Where Xor"
        " BatchNormalization",
    ),
    **_table(
        Kind.INJECTIVE,
        "Concat DepthToSpace Gather GatherElements GatherND OneHot Pad Resize"
        " ReverseSequence Slice SpaceToDepth Split Tile Transpose Trilu",
    ),
    **_table(
        Kind.REDUCTION,
        "ArgMax ArgMin AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool"
        " GroupNormalization InstanceNormalization LRN LayerNormalization LogSoftmax"
        " LpNormalization LpPool MaxPool MeanVarianceNormalization RMSNormalization ReduceL1"
        " ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd"
        " ReduceSum ReduceSumSquare Softmax",
    ),
    **_table(Kind.CONTRACTION, "Conv ConvTranspose Einsum Gemm MatMul"),
    **_table(Kind.VIEW, "Flatten Identity Reshape Squeeze Unsqueeze"),
    **_table(Kind.OPAQUE, "CumSum ScatterElements ScatterND TopK"),
}
"""Kind of every operator that can be compiled (ONNX default domain)."""

STRUCTURAL_INPUTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin"
        " ReduceProd ReduceSum ReduceSumSquare Squeeze Unsqueeze Reshape Expand Tile Split"
        " CumSum TopK Trilu".split(),
        (1,),
    ),
    "OneHot": (1, 2),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
}
"""Inputs that must be constants, as they decide shapes or loops; they become `dataflow.constant`.

Constants of one element become `dataflow.constant` wherever they are used.
"""
