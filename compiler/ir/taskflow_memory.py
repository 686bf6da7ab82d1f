"""The operations of the `taskflow` dialect that are memory: arenas, weights, extents, and views."""

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, ArrayAttr, IntegerAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from compiler.ir.types import dtype_of, example_bytes, int64, memref_type
from compiler.ir.verify_cache import verified_once
from compiler.schedule.symbolic import EXTENTS
from compiler.tensors.dtypes import NARROW_FLOATS
from compiler.tensors.extents import at_hints

Buffer = MemRefType[Attribute]


@verified_once
@irdl_op_definition
class ArenaOp(IRDLOperation):
    """Memory for everything that lives within one run."""

    name = "taskflow.arena"
    result = result_def(Buffer)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type: Attribute):
        super().__init__(result_types=[type])


@verified_once
@irdl_op_definition
class WeightOp(IRDLOperation):
    """A tensor of the store, converted to the type's elements and laid out beforehand as `packing`
    says; no task writes it."""

    name = "taskflow.weight"
    key = prop_def(StringAttr)
    packing = opt_prop_def(StringAttr)
    result = result_def(Buffer)
    traits = traits_def(Pure())
    assembly_format = "$key (`packing` $packing^)? attr-dict `:` type($result)"

    def __init__(self, key: str, packing: str, type: Attribute):
        super().__init__(
            properties={
                "key": StringAttr(key),
                "packing": StringAttr(packing) if packing else None,
            },
            result_types=[type],
        )

    @property
    def allocation_name(self) -> str:
        """The name of the laid-out tensor: the key, with the packing and a 16-bit type if any."""
        packing = [self.packing.data] if self.packing is not None else []
        dtype = dtype_of(self.result.type)
        return "|".join([self.key.data, *packing, *([dtype] if dtype in NARROW_FLOATS else [])])


@irdl_op_definition
class ExtentsOp(IRDLOperation):
    """The sizes of symbols, for the kernels that read them; a run decides them before its tasks."""

    name = "taskflow.extents"
    symbols = prop_def(ArrayAttr[StringAttr])
    result = result_def(Buffer)
    traits = traits_def(Pure())
    assembly_format = "$symbols attr-dict `:` type($result)"

    def __init__(self, symbols: Sequence[str]):
        super().__init__(
            properties={"symbols": ArrayAttr([StringAttr(name) for name in symbols])},
            result_types=[memref_type("int64", (len(symbols),))],
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the symbols, in order."""
        return tuple(name.data for name in self.symbols)

    @property
    def allocation_name(self) -> str:
        """The name of the tensor in a schedule."""
        return EXTENTS + ",".join(self.names)


@irdl_op_definition
class ViewOp(IRDLOperation):
    """A row-major tensor at a byte offset of an arena, an input or an output."""

    name = "taskflow.view"
    source = operand_def(Buffer)
    offset = prop_def(IntegerAttr[I64])
    result = result_def(Buffer)
    traits = traits_def(Pure())
    assembly_format = "$source `[` $offset `]` attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, offset: int, type: Attribute):
        Operation.__init__(
            self,
            operands=[source],
            properties={"offset": int64(offset)},
            result_types=[type],
        )

    def verify_(self) -> None:
        # for the example sizes: each schedule of other sizes is verified when it is made
        offset = at_hints(self.offset.value.data)
        end = offset + example_bytes(self.result.type)
        if offset < 0 or end > example_bytes(self.source.type):
            raise VerifyException(f"the view ends at byte {end}, outside its source")
        if isinstance(self.source.owner, ViewOp):
            raise VerifyException("a view's source is an allocation, not another view")
