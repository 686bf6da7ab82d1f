"""Let kernels of models in 16 bits compute in float32, as those of other models do."""

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.graph.precision import LARGEST
from compiler.graph.signature import signature
from compiler.ir.dataflow import ConstantOp, GraphOp, GroupOp, OperatorOp, YieldOp
from compiler.ir.edit import insert_before, replace
from compiler.ir.types import dtype_of, int64, shape_of, tensor_type
from compiler.ir.values import array_to_attribute, attribute_to_array
from compiler.net.operators import KINDS, OPERATORS, Kind, facts_of

ONNX_TYPES = {"float32": 1, "float16": 10, "bfloat16": 16}
"""ONNX's numbers of the element types."""

WIDENED = (Kind.CONTRACTION, Kind.REDUCTION)


def widen_groups(graph: GraphOp) -> None:
    """Convert tensors of 16 bits where contractions and reductions load and store them.

    Templates compute in float32; a tensor keeps its type in memory, and the result of each operator
    is rounded to its type, as if it were stored.
    """
    for group in graph.groups:
        if _has_short_anchor(group):
            _widen(group)


def cast_of(value: SSAValue, dtype: str) -> OperatorOp:
    """A Cast of a value."""
    to = {"to": int64(ONNX_TYPES[dtype])}
    return OperatorOp("Cast", [value], [tensor_type(dtype, shape_of(value.type))], to)


def widen_reads(group: GroupOp) -> None:
    """Convert the arguments whose type is not that of the input, or the rows gathered from them."""
    block = group.body.block
    first = block.first_op
    assert first is not None
    for argument, value in zip(block.args, group.inputs, strict=True):
        if argument.type != value.type:
            narrow = Rewriter.replace_value_with_new_type(argument, value.type)
            # The Gather that alone reads a table: of its elements it needs few.
            user = narrow.get_user_of_unique_use()
            if not isinstance(user, OperatorOp) or user.type_name != "Gather":
                gather = None
            else:
                gather = user if user.inputs[0] is narrow else None
            if gather is not None:
                rows = gather.outputs[0]
                in_table_type = tensor_type(dtype_of(value.type), shape_of(rows.type))
                narrow = Rewriter.replace_value_with_new_type(rows, in_table_type)
            anchor = first if gather is None else gather.next_op
            assert anchor is not None
            insert_before(anchor, wide := cast_of(narrow, "float32"))
            narrow.replace_uses_with_if(wide.outputs[0], lambda use, c=wide: use.operation is not c)


def narrow_results(group: GroupOp) -> None:
    """Convert the yielded values whose type is not that of the result."""
    last = group.body.block.last_op
    assert last is not None
    for i, (value, result) in enumerate(zip(group.results_yielded, group.outputs, strict=True)):
        if value.type != result.type:
            insert_before(last, narrow := cast_of(value, dtype_of(result.type)))
            last.operands[i] = narrow.outputs[0]


def _has_short_anchor(group: GroupOp) -> bool:
    """Whether the only contraction or reduction of a group has a result in 16 bits."""
    kinds = [KINDS[op.type_name] for op in group.operators]
    anchors = [op for op, kind in zip(group.operators, kinds, strict=True) if kind in WIDENED]
    if Kind.OPAQUE in kinds or len(anchors) != 1 or group.control is not None:
        return False
    return all(_is_short(result) for result in anchors[0].outputs)


def _is_short(value: SSAValue) -> bool:
    return dtype_of(value.type) in LARGEST


def _widen(group: GroupOp) -> None:
    for argument in group.body.block.args:
        if _is_short(argument):
            type = tensor_type("float32", shape_of(argument.type))
            Rewriter.replace_value_with_new_type(argument, type)
    for op in list(group.body.block.ops):
        if isinstance(op, ConstantOp) and _is_short(op.output):
            array = attribute_to_array(op.value).astype("float32")
            insert_before(op, wide := ConstantOp(array_to_attribute(array)))
            replace(op, [wide.output])
        elif isinstance(op, OperatorOp):
            _widen_results(op)
    widen_reads(group)
    narrow_results(group)
    if group.kernel is not None:
        group.kernel = StringAttr(signature(group))


def _widen_results(op: OperatorOp) -> None:
    """Give results of 16 bits the type float32, rounded unless that is done where they leave."""
    for result in [result for result in op.outputs if _is_short(result)]:
        dtype = dtype_of(result.type)
        entry = OPERATORS[op.type_name]
        exact = entry.facts.exact or entry.maps is not None
        if entry.facts.converts:
            exact = dtype_of(op.inputs[0].type) == "bool"
            op.attributes["to"] = int64(ONNX_TYPES["float32"])
        result = Rewriter.replace_value_with_new_type(
            result, tensor_type("float32", shape_of(result.type))
        )
        readers = [use.operation for use in result.uses]
        if exact or all(isinstance(reader, YieldOp) for reader in readers):
            continue
        following = op.next_op
        assert following is not None
        insert_before(following, short := cast_of(result, dtype))
        insert_before(following, wide := cast_of(short.outputs[0], "float32"))
        result.replace_uses_with_if(wide.outputs[0], lambda use, c=short: use.operation is not c)
    if facts_of(op.type_name).converts and op.inputs[0].type == op.outputs[0].type:
        replace(op, [op.inputs[0]])
