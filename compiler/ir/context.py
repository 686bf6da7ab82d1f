"""An xDSL context that knows the project's dialects."""

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser

from compiler.ir.canonical_text import canonicalise_operators
from compiler.ir.dataflow_control import Dataflow
from compiler.ir.taskflow_control import Taskflow


def make_context() -> Context:
    """A context with `builtin`, `dataflow` and `taskflow` loaded."""
    context = Context()
    load_dialects(context)
    return context


def load_dialects(context: Context) -> None:
    """Load `builtin`, `dataflow` and `taskflow` into a context."""
    for dialect in (Builtin, Dataflow, Taskflow):
        context.load_dialect(dialect)


def parse_module(text: str, name: str = "<input>") -> ModuleOp:
    """Parse a module from its text; raises xDSL's ParseError with a position.

    Operators in other forms, as older dumps have them, become canonical.
    """
    module = Parser(make_context(), text, name).parse_module()
    canonicalise_operators(module)
    return module
