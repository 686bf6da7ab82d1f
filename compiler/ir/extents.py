"""Extents that depend on symbols in types and attributes of the IR."""

from collections.abc import Iterable
from typing import cast

from xdsl.dialects.builtin import I64, IntAttr, IntegerAttr, i64
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from compiler.tensors.assumptions import assuming
from compiler.tensors.exact import exactly
from compiler.tensors.extents import Expression, Extent


@irdl_attr_definition
class ExtentAttr(Data[Expression]):
    """An integer attribute of an operator that depends on symbols: `#dataflow.extent<8*n>`."""

    name = "dataflow.extent"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Expression:
        """Refused: a text does not have the bounds of symbols."""
        parser.raise_error("sizes that depend on symbols cannot be parsed: compile the model again")

    def print_parameter(self, printer: Printer) -> None:
        """Print `<8*n>`."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


def integer_attribute(extent: Extent) -> IntegerAttr[I64]:
    """The integer attribute of a number, or of an extent."""
    if not isinstance(extent, Expression):
        return IntegerAttr(extent, i64)
    with assuming():  # it is compared with the range of 64 bits, which holds all tensors
        return IntegerAttr(IntAttr(cast(int, exactly(extent))), i64)


def dimensions(shape: Iterable[Extent]) -> list[IntAttr]:
    """The sizes of a type; those that depend on symbols are printed in brackets.

    They are exact, so that passes find types equal that are for all sizes.
    """
    return [IntAttr(cast(int, exactly(extent))) for extent in shape]
