"""The prologue and epilogue of a group's anchor, as code on flat buffers.

The operators before and after the anchor are lowered to tensor expressions as everywhere; a
template writes its own loops and asks here for the value of one element.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import tvm_ffi
from tvm import te, tirx
from tvm.ir import Var
from tvm.tirx import Stmt
from tvm.tirx.stmt import Bind

from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.ops.layout import stored_index
from compiler.kernels.ops.lowering import Emitter
from compiler.kernels.sizes import is_pinned, tensor_extents
from compiler.kernels.tir.expand import Leaf, expand, identity, inputs_first
from compiler.kernels.tir.loops import buffer, sequence, variable
from compiler.tensors.row_major import flatten_index, squeezed_shape

_ROW = variable("row")
_COLUMN = variable("column")


class FusionContext:
    """The group around one anchor, or without one.

    `buffers` are the kernel's parameters, each flat: the reads, then the writes.
    """

    def __init__(self, group: Group, anchor: Node[int] | None):
        emitter = Emitter(group)
        self.symbols = group.symbols
        self.shape = group.writes[0].shape
        self.dtype = "float32"
        self.operands = []
        self.stored_operands: list[int | None] = []
        if anchor is not None:
            emitter.lower_before(anchor)
            self.operands = [None if i is None else emitter.tensor(i) for i in anchor.inputs]
            stored = [i if i is None else group.stored(i) for i in anchor.inputs]
            self.stored_operands = [
                None if old == new else new for old, new in zip(anchor.inputs, stored, strict=True)
            ]
            first = group.values[anchor.output]
            self.shape = first.shape
            self.dtype = first.dtype
        self.sum = te.placeholder(self.shape, self.dtype, name="anchor")
        if anchor is not None:
            emitter.values[anchor.output] = self.sum
        self.results = emitter.lower_all()
        self.values = emitter.values
        self.placeholders = emitter.placeholders
        self.reads = [buffer(f"read{i}", t.elements, t.dtype) for i, t in enumerate(group.reads)]
        self.writes = [buffer(f"write{i}", t.elements, t.dtype) for i, t in enumerate(group.writes)]
        self.stored = group.writes

    @property
    def buffers(self) -> list[Var]:
        """The parameters of the kernel."""
        return [*self.reads, *self.writes]

    @property
    def rank(self) -> int:
        """The number of axes of the anchor's result."""
        return len(self.shape)

    @property
    def spatial(self) -> int:
        """The number of axes after the batch and channel axes of a convolution."""
        return self.rank - 2

    @property
    def elementwise(self) -> bool:
        """Whether every result has the anchor's shape and all the rest can be computed in place.

        A row-major one may have other axes of one element.
        """
        return all(map(self._is_alike, self.stored)) and not self.reduces

    @property
    def reduces(self) -> bool:
        """Whether anything but the anchor is a reduction."""
        known = [tensor for tensor in self.operands if tensor is not None]
        return any(
            isinstance(tensor.op.body[0], tirx.Reduce)
            for tensor in inputs_first([*self.results, *known])
        )

    def _is_alike(self, result: TensorInfo) -> bool:
        in_order = not result.block and squeezed_shape(result.shape) == squeezed_shape(self.shape)
        return in_order or result.shape == self.shape

    def _index_of(self, result: te.Tensor, indices: Sequence[Any]) -> Sequence[Any]:
        """Where a result is that follows from an element of the anchor's."""
        shape = tensor_extents(result)
        if shape == self.shape:
            return indices
        rest = iter([i for i, extent in zip(indices, self.shape, strict=True) if extent != 1])
        return [0 if extent == 1 else next(rest) for extent in shape]

    def read_number(self, position: int) -> int | None:
        """Which of the group's reads an operand of the anchor is; None if it is computed."""
        tensor = self.operands[position]
        return next((i for i, t in enumerate(self.placeholders) if t.same_as(tensor)), None)

    def stored_number(self, position: int) -> int | None:
        """As `read_number`, also of a read in 16 bits that the operand is as float32."""
        stored = self.stored_operands[position]
        return self.read_number(position) if stored is None else stored

    def is_converted(self, position: int) -> bool:
        """Whether an operand is a read in 16 bits as float32."""
        return self.stored_operands[position] is not None

    def operand(self, position: int, indices: Sequence[Any]) -> Any:
        """An element of an operand, computed by what comes before the anchor."""
        tensor = self.operands[position]
        assert tensor is not None
        return self._value(tensor, indices, None, None)

    def element(self, value: int, indices: Sequence[Any], total: Any) -> Any:
        """An element of a value of the group that follows from the anchor's element `total`."""
        tensor = self.values[value]
        assert isinstance(tensor, te.Tensor)
        return self._value(tensor, indices, total, None)

    def bias(self, indices: Sequence[Any]) -> Any:
        """An element of the anchor's operand 2; None if that is left out."""
        present = len(self.operands) > 2 and self.operands[2] is not None
        return self.operand(2, indices) if present else None

    def broadcast(self, position: int, indices: Sequence[Any]) -> Any:
        """The element of an operand that broadcasts to the anchor's; None if that is left out."""
        if position >= len(self.operands) or self.operands[position] is None:
            return None
        shape = tensor_extents(self.operands[position])
        missing = self.rank - len(shape)
        pairs = zip(shape, self.shape[missing:], indices[missing:], strict=True)
        return self.operand(position, [0 if is_pinned(n, all_) else i for n, all_, i in pairs])

    def result(self, value: Any, indices: Sequence[Any]) -> Any:
        """The element of the first result that follows from an element of the anchor's."""
        result = self.results[0]
        return self._value(result, self._index_of(result, indices), value, None)

    def store(self, value: Any, indices: Sequence[Any]) -> Stmt:
        """Store the element of every result that follows from an element of the anchor's."""
        return self._store(value, list(indices), None)

    def store_flat(self, value: Any, lead: Sequence[Any], place: Any) -> Stmt:
        """As `store` for a convolution, its spatial indices given as one position; see `flat`."""
        if self.spatial == 1:
            return self.store(value, [*lead, place])
        return self._store(value, [*lead, _ROW, _COLUMN], place)

    @property
    def flat(self) -> bool:
        """Whether results depend on the spatial indices by their row-major position only."""
        indices: list[Var] = []
        zero = tirx.const(0, "int32")
        lead = [zero] * max(2, self.rank - 2)
        statement = self.store_flat(tirx.const(0, self.dtype), lead, zero)

        def visit(variable: Var) -> None:
            if variable.same_as(_ROW) or variable.same_as(_COLUMN):
                indices.append(variable)

        tvm_ffi.structural_walk(statement, (Var, visit))
        return not indices

    def store_each(self, value: Any, places: Sequence[Sequence[Any] | None]) -> Stmt:
        """Store the element of each result at its index in `places`, given one of the anchor's.

        It may follow from that element or not, as in a Concat. Of a result without a place no
        element is stored.
        """
        return self._store_each(value, places, None)

    def _store(self, value: Any, indices: list[Any], place: Any) -> Stmt:
        places = [self._index_of(tensor, indices) for tensor in self.results]
        return self._store_each(value, places, place)

    def _store_each(self, value: Any, places: Sequence[Sequence[Any] | None], place: Any) -> Stmt:
        """Store an element of each result that has a place."""
        results = zip(self.results, self.writes, self.stored, places, strict=True)
        stores = [(own, to, info, at) for own, to, info, at in results if at is not None]
        code = expand([own(*at) for own, _, _, at in stores], self._leaf(value, place))
        statements: list[Stmt] = [Bind(variable, bound) for variable, bound in code.steps]
        for (_, target, info, at), element in zip(stores, code.results, strict=True):
            if info.folded:
                statements += _fold(target, element, info.folded)
                continue
            position = self._position(info.stored_shape, stored_index(info, at), place)
            statements.append(tirx.BufferStore(target, element, [position]))
        return sequence(statements)

    def _position(self, shape: Sequence[int], indices: Sequence[Any], place: Any) -> Any:
        """The position in memory of an index; `place` is that of its row and column together."""
        at = _flat_axes(indices) if place is not None else -1
        if at < 0 or tuple(shape[at : at + 2]) != self.shape[-2:]:
            return flatten_index(indices, shape)
        pixels = shape[at] * shape[at + 1]
        indices = [*indices[:at], place, *indices[at + 2 :]]
        return flatten_index(indices, [*shape[:at], pixels, *shape[at + 2 :]])

    def _value(self, tensor: te.Tensor, indices: Sequence[Any], value: Any, place: Any) -> Any:
        return expand([tensor(*indices)], self._leaf(value, place)).nested()

    def _leaf(self, value: Any, place: Any) -> Leaf:
        """The known elements: the anchor's and those that are read."""
        reads = dict(zip(map(identity, self.placeholders), self.reads, strict=True))

        def leaf(tensor: te.Tensor, indices: Sequence[Any]) -> Any:
            if tensor.same_as(self.sum):
                return value
            read = reads.get(identity(tensor))
            if read is None:
                return None
            shape = tensor_extents(tensor)
            return tirx.BufferLoad(read, [self._position(shape, indices, place)])

        return leaf


def _fold(total: Var, element: Any, kind: str) -> list[Stmt]:
    """Fold an element into what a thread keeps of a result."""
    before = tirx.BufferLoad(total, [0])
    if kind == "sum":
        return [tirx.BufferStore(total, before + element, [0])]
    after = tirx.call_pure_extern("float32", f"flowloom_{kind}", before, element)
    return [tirx.BufferStore(total, after, [0])]


def _flat_axes(indices: Sequence[Any]) -> int:
    """Which axis the row's index is, followed by the column's; -1 where they are not together."""
    pairs = enumerate(pairwise(indices))
    return next((i for i, (a, b) in pairs if _ROW.same_as(a) and _COLUMN.same_as(b)), -1)
