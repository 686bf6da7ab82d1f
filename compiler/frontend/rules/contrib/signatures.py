"""The signatures of onnxruntime's operators: inputs, outputs, types and attributes.

onnx has no schemas of these; a test compares the table with onnxruntime's.
"""

from collections.abc import Mapping
from dataclasses import replace

from compiler.net.attributes import Attribute, Shape, flag, integer, integers, number, one_of
from compiler.net.node import TypedNode
from compiler.net.spec import Kind, OpSpec, operator
from compiler.tensors.dtypes import ALL, FLOATS

DOMAIN = "com.microsoft"


def _by_rewriting(node: TypedNode) -> list[Shape]:
    raise AssertionError(f"the shapes of {node.type} come from the operators that it becomes")


def _takes(
    signature: str, attributes: Mapping[str, Attribute] | None = None, **types: frozenset[str]
) -> OpSpec:
    return replace(operator(Kind.OPAQUE, signature, _by_rewriting, attributes), types=types)


def _dtypes(names: str) -> frozenset[str]:
    return frozenset(names.split())


_HALVES = _dtypes("float16 bfloat16 float32")
_HALF = _dtypes("float16 float32")
_STANDARD = _dtypes("float16 float32 float64")
_SINGLE = _dtypes("float32")
_BYTES = _dtypes("int8 uint8")
_INT32 = _dtypes("int32")
_SMALL = _dtypes("int8 uint8 int16 uint16")
_HALF_BYTES = _dtypes("int4 uint4")
_NUMBER = Attribute("float")
_OPTIONAL_FLAG = Attribute("int", allowed=(0, 1))
_COUNT = integer(required=True, least=1)

_TRANSPOSED_GEMM = {"transA": flag(0), "transB": flag(0), "alpha": number(1)}
_FUSED_MATMUL = {**_TRANSPOSED_GEMM, "transBatchA": flag(0), "transBatchB": flag(0)}
_ACTIVATION = {
    "activation": Attribute("string"),
    "activation_alpha": _NUMBER,
    "activation_beta": _NUMBER,
    "activation_gamma": _NUMBER,
}
_CONVOLUTION = {
    "auto_pad": one_of("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "dilations": integers(least=1),
    "group": integer(1, least=1),
    "kernel_shape": integers(least=1),
    "pads": integers(),
    "strides": integers(least=1),
}
_ATTENTION = {
    "mask_filter_value": _NUMBER,
    "num_heads": _COUNT,
    "scale": _NUMBER,
    "unidirectional": flag(0),
}
_SELF_ATTENTION = {
    **_ATTENTION,
    "do_rotary": _OPTIONAL_FLAG,
    "past_present_share_buffer": _OPTIONAL_FLAG,
}
_GROUPS = {
    "activation": Attribute("int", required=True, allowed=(0, 1)),
    "channels_last": flag(1),
    "epsilon": number(1e-5),
    "groups": _COUNT,
}
_LSTM = {
    "activation_alpha": Attribute("floats"),
    "activation_beta": Attribute("floats"),
    "activations": Attribute("strings"),
    "clip": _NUMBER,
    "direction": one_of("forward", "reverse", "bidirectional"),
    "hidden_size": integer(least=1),
    "input_forget": flag(0),
}
_POOL = {
    "auto_pad": one_of("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "ceil_mode": flag(0),
    "channels_last": flag(0),
    "count_include_pad": flag(0),
    "kernel_shape": Attribute("ints", required=True, least=1),
    "pads": integers(),
    "strides": integers(least=1),
}

_FLOATING: dict[str, OpSpec] = {
    "BiasAdd": _takes("T T T -> T", T=_HALF),
    "BiasGelu": _takes("T T -> T", T=FLOATS),
    "BiasSoftmax": _takes(
        "T T -> T",
        {"axis": integer(1), "is_inner_broadcast": Attribute("int", required=True)},
        T=_STANDARD,
    ),
    "BiasSplitGelu": _takes("T T -> T", T=_HALF),
    "EmbedLayerNormalization": _takes(
        "int32 int32? T T T? T T int32? int32? -> T int32? T?",
        {"epsilon": number(1e-12), "mask_index_type": integer()},
        T=_HALF,
    ),
    "ExpandDims": _takes("T int32 -> T", T=ALL - {"bfloat16"}),
    "FastGelu": _takes("T T? -> T", T=FLOATS),
    "FusedConv": _takes(
        "T T T? T? -> T",
        {
            **_CONVOLUTION,
            "activation": Attribute("string"),
            "activation_params": Attribute("floats"),
        },
        T=_STANDARD,
    ),
    "FusedGemm": _takes(
        "T T T? -> T",
        {**_TRANSPOSED_GEMM, **_ACTIVATION, "beta": number(1)},
        T=_STANDARD | _dtypes("uint32 uint64 int32 int64"),
    ),
    "FusedMatMul": _takes("T T -> T", _FUSED_MATMUL, T=FLOATS),
    "FusedMatMulActivation": _takes(
        "T T -> T",
        {
            **_FUSED_MATMUL,
            **_ACTIVATION,
            "activation": Attribute("string", required=True),
            "activation_axis": integer(),
        },
        T=FLOATS,
    ),
    "GatherND": _takes("T I -> T", T=ALL - {"bfloat16"}, I=_dtypes("int32 int64")),
    "Gelu": _takes("T -> T", T=FLOATS),
    "GemmFastGelu": _takes("T T T? -> T", T=_HALVES),
    "GroupNorm": _takes("T M M -> T", _GROUPS, T=_HALF, M=_HALF),
    "Inverse": _takes("T -> T", T=_STANDARD),
    "NhwcConv": _takes("T T T? -> T", _CONVOLUTION, T=_STANDARD),
    "Pad": _takes("T int64 T? -> T", {"mode": one_of("constant", "reflect", "edge")}, T=_STANDARD),
    "QuickGelu": _takes("T -> T", {"alpha": number(1.702)}, T=FLOATS),
    "SkipGroupNorm": _takes("T M M T T? -> T T?", _GROUPS, T=_HALF, M=_HALF),
    "SkipLayerNormalization": _takes(
        "T T T T? T? -> T float32? float32? T?", {"epsilon": number(1e-12)}, T=_HALVES
    ),
    "SkipSimplifiedLayerNormalization": _takes(
        "T T T T? -> T float32? float32? T?", {"epsilon": number(1e-12)}, T=_HALVES
    ),
    "Trilu": _takes("T int64? -> T", {"upper": flag(1)}, T=ALL),
}

_ATTENTIONS: dict[str, OpSpec] = {
    "Attention": _takes(
        "T T T? int32? T? T? int32? -> T T?",
        {
            **_SELF_ATTENTION,
            "qkv_hidden_sizes": integers(least=1),
            "rotary_embedding_dim": integer(least=0),
        },
        T=_HALVES,
    ),
    "GroupQueryAttention": _takes(
        "T T? T? C? C? int32 int32 T? T? int64? T? T? float32? float32? T? T? int32? -> T C? C? T?",
        {
            "causal": flag(1),
            "do_rotary": _OPTIONAL_FLAG,
            "k_norm_epsilon": _NUMBER,
            "k_quant_type": Attribute("string", "NONE"),
            "kv_cache_bit_width": integer(),
            "kv_num_heads": _COUNT,
            "local_window_size": integer(-1),
            "num_heads": _COUNT,
            "q_norm_epsilon": _NUMBER,
            "qk_norm_epsilon": number(1e-6),
            "qk_output": integer(0),
            "rotary_interleaved": _OPTIONAL_FLAG,
            "scale": _NUMBER,
            "sliding_window_cache": flag(0),
            "smooth_softmax": integer(-1),
            "softcap": _NUMBER,
            "v_quant_type": Attribute("string", "NONE"),
        },
        T=_HALVES,
        C=_HALVES | _BYTES,
    ),
    "MultiHeadAttention": _takes(
        "T T? T? T? int32? T? T? T? int32? int32? -> T T? T? T?", _ATTENTION, T=_HALVES
    ),
    "RotaryEmbedding": _takes(
        "T int64 T T -> T",
        {
            "interleaved": _OPTIONAL_FLAG,
            "is_packed_batching": _OPTIONAL_FLAG,
            "num_heads": integer(least=0),
            "rotary_embedding_dim": integer(least=0),
            "scale": _NUMBER,
        },
        T=_HALVES,
    ),
}

_QUANTISED: dict[str, OpSpec] = {
    "DequantizeLinear": _takes(
        "T1 T2 T1? -> T2", {"axis": integer()}, T1=_SMALL | _INT32 | _HALF_BYTES, T2=_HALF
    ),
    "DynamicQuantizeLSTM": _takes(
        "T T2 T2 T? int32? T? T? T? T T2 T T2 -> T? T? T?", _LSTM, T=_SINGLE, T2=_BYTES
    ),
    "DynamicQuantizeMatMul": _takes("T1 T2 T1 T2? T1? -> T1", T1=_SINGLE, T2=_BYTES),
    "MatMulIntegerToFloat": _takes("T1 T2 T3 T3 T1? T2? T3? -> T3", T1=_BYTES, T2=_BYTES, T3=_HALF),
    "GatherBlockQuantized": _takes(
        "T1 I T2 T1? -> T2",
        {
            "bits": Attribute("int", 4, allowed=(2, 4, 8)),
            "block_size": integer(128, least=16),
            "gather_axis": integer(0),
            "quantize_axis": integer(1),
        },
        T1=_HALF_BYTES | {"uint8"},
        T2=_HALVES,
        I=_dtypes("int32 int64"),
    ),
    "MatMulNBits": _takes(
        "T1 uint8 T1 T3? int32? T1? -> T1",
        {
            "K": _COUNT,
            "N": _COUNT,
            "accuracy_level": integer(0),
            "bits": Attribute("int", 4, allowed=(2, 4, 8)),
            "block_size": _COUNT,
            "weight_prepacked": integer(0),
        },
        T1=_HALVES,
        T3=_HALVES | _dtypes("uint8"),
    ),
    "QAttention": _takes(
        "T1 T2 T3 T3 T3 int32? T1? T2? T3? -> T3 T3?",
        _SELF_ATTENTION,
        T1=_BYTES,
        T2=_BYTES,
        T3=_HALF,
    ),
    "QGemm": _takes(
        "A float32 A B float32 B int32? float32? Y? -> Y",
        _TRANSPOSED_GEMM,
        A=_BYTES,
        B=_BYTES,
        Y=_BYTES,
    ),
    "QLinearAdd": _takes("T float32 T? T float32 T? float32 T? -> T", T=_BYTES),
    "QLinearAveragePool": _takes("T float32 T? float32 T? -> T", _POOL, T=_BYTES),
    "QLinearConcat": _takes(
        "float32 T V* -> T",
        {"axis": Attribute("int", required=True)},
        T=_BYTES,
        V=_BYTES | _SINGLE,
    ),
    "QLinearConv": _takes(
        "T1 float32 T1 T2 float32 T2 float32 T3 int32? -> T3",
        {**_CONVOLUTION, "channels_last": flag(0)},
        T1=_BYTES,
        T2=_BYTES,
        T3=_BYTES,
    ),
    "QLinearGlobalAveragePool": _takes(
        "T float32 T float32 T -> T", {"channels_last": flag(0)}, T=_BYTES
    ),
    "QLinearLeakyRelu": _takes("T float32 T? float32 T? -> T", {"alpha": number(0.01)}, T=_BYTES),
    "QLinearMul": _takes("T float32 T? T float32 T? float32 T? -> T", T=_BYTES),
    "QLinearReduceMean": _takes(
        "T float32 T? float32 T? -> T",
        {
            "axes": Attribute("ints", required=True),
            "keepdims": Attribute("int", required=True, allowed=(0, 1)),
        },
        T=_BYTES,
    ),
    "QLinearSigmoid": _takes("T float32 T? float32 T? -> T", T=_BYTES),
    "QLinearSoftmax": _takes(
        "T float32 T? float32 T -> T", {"axis": integer(-1), "opset": _COUNT}, T=_BYTES
    ),
    "QLinearWhere": _takes("bool T float32 T T float32 T float32 T -> T", T=_BYTES),
    "QuantizeLinear": _takes(
        "T1 T1 T2? -> T2", {"axis": integer()}, T1=_HALF, T2=_SMALL | _HALF_BYTES
    ),
}

SIGNATURES: dict[tuple[str, str], OpSpec] = {
    **{(DOMAIN, name): entry for name, entry in _FLOATING.items()},
    **{(DOMAIN, name): entry for name, entry in _ATTENTIONS.items()},
    **{(DOMAIN, name): entry for name, entry in _QUANTISED.items()},
    ("", "SimplifiedLayerNormalization"): _takes(
        "T V -> V U?",
        {"axis": integer(-1), "epsilon": number(1e-5), "stash_type": integer(1)},
        T=FLOATS,
        V=FLOATS,
        U=_dtypes("float32 float64"),
    ),
}
"""By domain and operator; onnxruntime writes the last one in the default domain."""
