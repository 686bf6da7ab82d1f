"""Dumps in which operators have ONNX's operands where they have attributes."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from compiler.ir.dataflow import ConstantOp, NoneOp, OperatorOp
from compiler.ir.uses import used_values
from compiler.ir.values import own_attributes, value_to_attribute
from compiler.net.attributes import Mismatch
from compiler.net.operators.canonical import canonical_use, is_onnx_form, onnx_entry
from compiler.net.spec import check_attributes


def operands_to_attributes(module: ModuleOp) -> None:
    """Bring operators into the canonical form: constants that decide shapes become attributes.

    What does not fit stays, and the verifier refuses it.
    """
    replaced: set[Operation] = set()
    for op in module.walk():
        if not isinstance(op, OperatorOp) or not is_onnx_form(op.type_name, op.attributes):
            continue
        try:
            check_attributes(onnx_entry(op.type_name), own_attributes(op))
            use = canonical_use(op.type_name, used_values(op), own_attributes(op), len(op.outputs))
        except Mismatch:
            continue
        omitted = [value for value in op.inputs if isinstance(value.owner, NoneOp)]
        replaced.update(v.owner for v in op.inputs if isinstance(v.owner, ConstantOp | NoneOp))
        op.operands = [omitted[0] if value is None else value.value for value in use.inputs]
        op.attributes = {name: value_to_attribute(v) for name, v in use.attributes.items()}
    for constant in replaced:
        if not any(result.first_use for result in constant.results):
            constant.detach()
            constant.erase()
