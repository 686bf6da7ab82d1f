"""Rules for normalisations: of rows with a residual, of groups of channels, of embeddings."""

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.gemm import channels_first, channels_last
from compiler.frontend.rules.contrib.registry import contrib, standard
from compiler.frontend.rules.types import in_type
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Value
from compiler.net.operators import Mismatch
from compiler.tensors.dtypes import element_type


def _sum(call: Call, *values: Value | None) -> Value:
    """The sum of the values that are given."""
    given = [value for value in values if value is not None]
    result = given[0]
    for value in given[1:]:
        result = call.one("Add", result, value)
    return result


@contrib("SkipLayerNormalization")
def rewrite_skip_layer_normalization(call: Call) -> list[Value]:
    """LayerNormalization of a sum, which is an output too."""
    x, skip, gamma, beta, bias = (call.input(i) for i in range(5))
    total = _sum(call, x, bias, skip)
    used = [*call.used, False, False][:3]
    attributes = {"axis": -1, "epsilon": call.attributes["epsilon"]}
    inputs = [total, gamma, beta][: 2 if beta is None else 3]
    results = call.builder.emit_used("LayerNormalization", inputs, attributes, used)
    return [*results, total][: len(call.used)]


def _root_mean_square(call: Call, x: Value, scale: Value, axis: int) -> Value:
    attributes = {"axis": axis, "epsilon": call.attributes["epsilon"]}
    return standard(call, "RMSNormalization", [x, scale], attributes)


@contrib("SkipSimplifiedLayerNormalization")
def rewrite_skip_simplified(call: Call) -> list[Value]:
    """RMSNormalization of a sum, which is an output too."""
    if any(call.used[1:3]):
        raise Unsupported("its statistics are not computed", "export the model for inference")
    total = _sum(call, call.data, call.input(3), call.operand(1))
    result = _root_mean_square(call, total, call.operand(2), -1)
    return [result, Value(""), Value(""), total][: len(call.used)]


@contrib("SimplifiedLayerNormalization", domain="")
def rewrite_simplified(call: Call) -> list[Value]:
    """RMSNormalization."""
    call.only_first_output()
    axis = call.attributes["axis"]
    return [_root_mean_square(call, call.data, call.operand(1), axis), Value("")][: len(call.used)]


def _rows(call: Call, table: Value, ids: Value) -> Value:
    return call.one("Gather", table, ids, axis=0)


def _positions(call: Call, table: Value, ids: Value) -> Value:
    """The embeddings of the positions, which count up unless they are given."""
    given = call.input(8)
    if given is not None:
        return _rows(call, table, given)
    length = ids.shape[1]
    if length > table.shape[0]:
        raise Mismatch(f"{length} positions need as many rows of {list(table.shape)}")
    return _rows(call, table, call.vector(range(length)))


def _lengths(call: Call, ids: Value) -> Value:
    """How many ones each row of the mask has; 0 without a mask."""
    mask = call.input(7)
    if mask is None:
        return call.builder.constant([0] * ids.shape[0], "int32")
    one = call.builder.constant(1, "int32")
    ones = call.one("Cast", call.one("Equal", mask, one), to=element_type("int32"))
    return call.one("ReduceSum", ones, axes=[1], keepdims=0)


@contrib("EmbedLayerNormalization")
def rewrite_embed_layer_normalization(call: Call) -> list[Value]:
    """LayerNormalization of the sum of embeddings; the sum and the masks' lengths are outputs."""
    ids, words, positions, gamma, beta = (call.operand(i) for i in (0, 2, 3, 5, 6))
    segments, of_segment = call.input(1), call.input(4)
    for index, table in ((0, words), (1, of_segment), (8, positions)):
        if table is not None:
            call.check_indices(index, 0, table.shape[0] - 1)
    if (segments is None) != (of_segment is None):
        raise Mismatch("it has segment_ids or segment_embedding without the other")
    total = _sum(call, _rows(call, words, ids), _positions(call, positions, ids))
    if segments is not None and of_segment is not None:
        total = call.one("Add", total, _rows(call, of_segment, segments))
    attributes = {"axis": -1, "epsilon": call.attributes["epsilon"]}
    result = standard(call, "LayerNormalization", [total, gamma, beta], attributes)
    lengths = _lengths(call, ids) if any(call.used[1:2]) else Value("")
    return [result, lengths, total][: len(call.used)]


def _group_norm(call: Call, x: Value) -> Value:
    """GroupNormalization, with SiLU if the node asks for it."""
    nhwc = call.attributes["channels_last"]
    gamma, beta = (in_type(call, call.operand(index), x.dtype) for index in (1, 2))
    attributes = {
        "epsilon": call.attributes["epsilon"],
        "num_groups": call.attributes["groups"],
    }
    first = channels_first(call, x) if nhwc else x
    result = standard(call, "GroupNormalization", [first, gamma, beta], attributes)
    result = channels_last(call, result) if nhwc else result
    if not call.attributes["activation"]:
        return result
    return call.one("Mul", result, call.one("Sigmoid", result))


@contrib("GroupNorm")
def rewrite_group_norm(call: Call) -> list[Value]:
    """GroupNormalization of channels that are last by default."""
    return [_group_norm(call, call.data)]


@contrib("SkipGroupNorm")
def rewrite_skip_group_norm(call: Call) -> list[Value]:
    """GroupNormalization of a sum, which is an output too; a skip may broadcast over pixels."""
    skip = call.operand(3)
    if skip.rank == 2:
        rows, channels = skip.shape
        skip = call.reshaped(skip, [rows, 1, 1, channels])
    total = _sum(call, call.data, skip, call.input(4))
    return [_group_norm(call, total), total][: len(call.used)]
