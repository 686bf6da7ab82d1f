"""An xDSL context that knows the project's dialects."""

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser

from compiler.ir.dataflow import ConstantOp, NoneOp, OperatorOp
from compiler.ir.dataflow_control import Dataflow
from compiler.ir.nodes import used_values
from compiler.ir.taskflow_control import Taskflow
from compiler.ir.values import own_attributes, value_to_attribute
from compiler.net.attributes import Mismatch
from compiler.net.operators.canonical import canonical_node, is_onnx_form, onnx_entry
from compiler.net.spec import check_attributes


def canonicalise_operators(module: ModuleOp) -> None:
    """Bring the operators of a text, as an older dump, into the canonical form.

    Constants that decide shapes become attributes, and axes count from the front. What does not fit
    stays, and the verifier refuses it.
    """
    replaced: set[Operation] = set()
    for op in module.walk():
        if not isinstance(op, OperatorOp):
            continue
        written = own_attributes(op)
        by_operands = is_onnx_form(op.type_name, written)
        try:
            if by_operands:
                check_attributes(onnx_entry(op.type_name), written)
            node = canonical_node(op.type_name, used_values(op), written, len(op.outputs))
        # The verifier says what is wrong, with the operation's position.
        except Mismatch:
            continue
        if by_operands:
            omitted = [value for value in op.inputs if isinstance(value.owner, NoneOp)]
            replaced.update(v.owner for v in op.inputs if isinstance(v.owner, ConstantOp | NoneOp))
            op.operands = [omitted[0] if value is None else value.value for value in node.inputs]
        if node.attributes != written:
            op.attributes = {name: value_to_attribute(v) for name, v in node.attributes.items()}
    for constant in replaced:
        if not any(result.first_use for result in constant.results):
            constant.detach()
            constant.erase()


def make_context() -> Context:
    """A context with `builtin`, `dataflow` and `taskflow` loaded."""
    context = Context()
    load_dialects(context)
    return context


def load_dialects(context: Context) -> None:
    """Load `builtin`, `dataflow` and `taskflow` into a context."""
    for dialect in (Builtin, Dataflow, Taskflow):
        context.load_dialect(dialect)


class _TextParser(Parser):
    """Reads texts beyond ASCII, which the printer escapes and xDSL's parser takes for bytes."""

    def parse_optional_str_literal(self) -> str | None:
        literal = super().parse_optional_str_literal()
        if literal is not None:
            return literal
        encoded = self.parse_optional_bytes_literal()
        try:
            return None if encoded is None else encoded.decode()
        except UnicodeDecodeError:
            self.raise_error("a text is not UTF-8")


def parse_module(text: str, name: str = "<input>") -> ModuleOp:
    """Parse a module from its text; raises xDSL's ParseError with a position.

    Operators in other forms, as older dumps have them, become canonical.
    """
    module = _TextParser(make_context(), text, name).parse_module()
    canonicalise_operators(module)
    return module
