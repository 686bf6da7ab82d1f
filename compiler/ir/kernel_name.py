"""The text form of a group's kernel."""

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer


@irdl_custom_directive
class KernelName(CustomDirective):
    """A group's kernel, if it has one: xDSL would read the operands in its place as a type."""

    kernel: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Read a string, if there is one."""
        if (name := parser.parse_optional_str_literal()) is not None:
            self.kernel.set(state, StringAttr(name))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the string, if there is one."""
        if self.kernel.get(op) is not None:
            self.kernel.print(printer, state, op)
