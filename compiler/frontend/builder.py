"""Builder of the graphs of models: of the normalised opset, whose sizes may depend on symbols."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import cast

import numpy as np
from onnx import TensorProto, TypeProto

from compiler.frontend.evaluate import check_types, dtype_name, evaluate
from compiler.frontend.index_ranges import IndexRanges
from compiler.frontend.interpreter.constants import constant_operator
from compiler.frontend.interpreter.extents import check_in_kernels, evaluate_extents, settled
from compiler.frontend.unsupported import NeedsHost, NeedsValue
from compiler.graph.fusion.whole import Whole, no_kernels
from compiler.ir.emit import NORMALISED_OPSET
from compiler.net.attributes import Mismatch, Shape
from compiler.net.building.builder import (
    NetBuilder,
    byte_count,
    input_bytes,
    is_known,
    text_bytes,
)
from compiler.net.building.expansion import Expansion
from compiler.net.graph import Attributes, Graph, Inputs, Value, constant
from compiler.net.node import Node
from compiler.net.operators import OPERATORS, POSITIONS, infer, infer_node
from compiler.net.operators.canonical import onnx_operands, operations_of
from compiler.net.operators.elementwise import ONNX_DTYPES
from compiler.net.operators.indices import Bounds
from compiler.net.spec import KnownTensor, to_infer
from compiler.tensors.dtypes import ELEMENT_BYTES, element_type
from compiler.tensors.exact import same_extents
from compiler.tensors.extents import Extent, NotForAllSizes, Undecided, extent_of, symbols_of
from compiler.tensors.substitution import (
    Array,
    as_extent,
    extent_array,
    extents_in,
    has_symbols,
    holds_extents,
    is_symbolic,
    mapped_extents,
    substituted,
    substituted_shape,
)
from compiler.tensors.symbols import Symbol


def supported(value: Value | None) -> None:
    """Raise NeedsHost unless kernels support the value's dtype."""
    if value is not None and value.dtype not in ELEMENT_BYTES:
        dtype = "strings" if value.dtype == "str_" else f"{value.dtype} tensors"
        if value.items is not None:
            dtype = "sequences of tensors"
        raise NeedsHost(f"{dtype} cannot be compiled", "export the model with another type")


def _declared_bytes(result: TypeProto, inputs: Inputs) -> int:
    """Bytes of a result of an inferred type; texts may be as long as those of all inputs.

    Unknown dimensions count as 1: data decide them, which bound them.
    """
    tensor = result.tensor_type
    shape = [d.dim_value or 1 for d in tensor.shape.dim]
    if tensor.elem_type == TensorProto.STRING:
        length = sum(text_bytes(value) for value in inputs if value is not None)
        return prod(shape) * (8 + length)
    return byte_count(dtype_name(tensor.elem_type) or "float32", shape)


MOST_SIZES = 64
"""Most sizes of a tensor that a run computes of them, one by one."""

LONGEST_VECTOR = 1 << 24
"""Most integers of a constant that a rule writes, such as the indices of an axis."""


class Builder(NetBuilder):
    """Appends operators for an ONNX node, whose sizes may depend on symbols.

    `has_kernel` says which recurrences and transforms stay one operator. `watch_indices` gets the
    inputs of nodes that are indices of run time, where these are to be checked. Unless it
    `checks_indices`, known ones are clamped, too: they are data of a run. `measured` has the tensor
    int64[1] with the size of each symbol that a run measures.
    """

    def __init__(self, graph: Graph, expansion: Expansion):
        super().__init__(graph, expansion)
        self.index_ranges = IndexRanges()
        self.has_kernel: Callable[[Whole], bool] = no_kernels
        self.checks_indices = True
        self.watch_indices: Callable[[str, Bounds, Value], None] | None = None
        self.measured: dict[str, Value] = {}

    def constant(self, array: object, dtype: str | None = None) -> Value:
        """A known value; Python integers become int64. Sizes as floats are computed by a run."""
        if has_symbols([array]) or (
            isinstance(array, np.ndarray) and holds_extents(cast(Array, array))
        ):
            return self._sizes(np.array(array, object), dtype or "int64")
        return super().constant(cast(object, array), dtype)

    def integers(self, values: Sequence[int]) -> Value:
        """A known vector of int64; raises NeedsHost if it is too long to be written down."""
        if self.bounded and len(values) > LONGEST_VECTOR:
            raise NeedsHost(f"it needs {len(values):,} indices", "shorten its axis")
        if has_symbols(values):
            return self._sizes(extent_array(values), "int64")
        return self.constant(list(values), "int64")

    def _sizes(self, sizes: Array, dtype: str) -> Value:
        """A tensor of sizes in a type."""
        known = dtype if dtype in ("int32", "int64") else "int64"
        value = Value(f"{self.node}.constant", known, sizes.shape, sizes)
        if known == dtype:
            return value
        return self.one("Cast", self.at_run_time(value), to=element_type(dtype))

    def new_measured(self, most: int) -> Extent:
        """The extent of a symbol whose size, up to a number, a run measures at the builder's node.

        Raises NotForAllSizes where other sizes bound it, and where it is hardly one.
        """
        if is_symbolic(most) or most < 2:
            raise NotForAllSizes(f"data decide how many of {most} elements {self.node!r} gives")
        name = f"count of {self.node}"
        while name in self.measured:
            name += "'"
        return extent_of(Symbol(name, high=most, hint=most, measured=True))

    def known_results(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> list[Value] | None:
        """The results of an operator on constants and sizes, if they are known."""
        if any(value is not None and value.symbolic for value in inputs):
            return self._folded_extents(op_type, inputs, attributes, used)
        return super().known_results(op_type, inputs, attributes, used)

    def evaluated(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> Sequence[np.ndarray | None]:
        """The results of an operator on constants, which need not be in the table."""
        return evaluate(op_type, inputs, attributes, used)

    def new_node(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> Node[Value]:
        """An operator that kernels compute; sizes among its inputs are tensors of a run."""
        inputs = [value and self.at_run_time(value) for value in inputs]
        self._check(op_type, inputs)
        node = super().new_node(op_type, inputs, attributes, used)
        self.index_ranges.note(node)
        return node

    def check_shapes(self, node: Node[Value], shapes: Sequence[Shape]) -> None:
        """Refuse a node that kernels do not compute right for all sizes."""
        for extent in extents_in(shapes):
            _ = extent > 0  # kernels of what has elements are others than those of what has none
        for extent in extents_in([*shapes, *node.attributes.values()]):
            check_in_kernels(extent)
        self._check_few(node, shapes)
        self.index_ranges.check(node)

    def _check_few(self, node: Node[Value], shapes: Sequence[Shape]) -> None:
        """Raise NotForAllSizes unless results have these shapes for few elements, too.

        Comparisons of what a run measures are decided as if it were more than one. Nothing is
        picked from a tensor of no elements.
        """
        tensors = [value for value in node.inputs if value is not None]
        extents = extents_in([*(value.shape for value in tensors), *node.attributes.values()])
        measured = {s for extent in extents for s in symbols_of(extent) if s.measured}
        for symbol, few in product(sorted(measured, key=str), (0, 1)):
            few_elements = {symbol: few}
            wanted = [substituted_shape(shape, few_elements) for shape in shapes]
            own = _at_sizes(node, few_elements)
            try:
                inferred = [type.shape for type in infer_node(own)]
                valid = all(map(same_extents, inferred, wanted))
            except Mismatch:
                valid = False
            none = OPERATORS[node.type].picks and prod(own.operand(0).shape) == 0
            if not valid or (none and any(prod(shape) for shape in wanted)):
                raise NotForAllSizes(f"{node.label} is not the same for {symbol} of {few}")

    def _folded_extents(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> list[Value] | None:
        """The results of an operator on sizes, known but for what symbols stand for, if they are.

        None if only kernels can compute it.
        """
        types = infer(op_type, inputs, attributes, len(used))
        if not is_known(inputs) or any(map(has_symbols, (type.shape for type in types))):
            return None
        try:
            arrays = evaluate_extents(op_type, inputs, attributes, len(used))
            return [
                Value(self.node, type.dtype, type.shape, settled(array, type.dtype))
                for type, array in zip(types, arrays, strict=True)
            ]
        except Undecided:
            return None

    def at_run_time(self, value: Value) -> Value:
        """A tensor of sizes as one that a run computes; any other value as it is.

        Raises Undecided if there are many sizes, or they or their type are not those of indices.
        """
        if not value.symbolic:
            return value
        sizes = [as_extent(size) for size in value.content.reshape(-1)]
        if len(sizes) > MOST_SIZES or value.dtype not in ("int32", "int64"):
            raise Undecided(f"{len(sizes)} sizes in a tensor of {value.dtype}")
        for size in sizes:
            check_in_kernels(size)
        zero = self.constant(0, value.dtype)
        each = [self.one(POSITIONS, zero, first=size, step=0, count=1) for size in sizes]
        vector = self.one("Concat", *each, axis=0) if len(each) > 1 else each[0]
        return self.one("Reshape", vector, shape=list(value.shape))

    def folds_operator(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> bool:
        """Whether an operator on constants becomes a constant, if it fits them.

        Raises NeedsHost for a large one of types that no kernel supports: it has no other form.
        """
        if _in_table(op_type, inputs, attributes):
            return super().folds_operator(op_type, inputs, attributes, used)
        names = [f"o{i}" if use else "" for i, use in enumerate(used)]
        operands, written = onnx_operands(op_type, inputs, attributes, len(used))
        values = [constant("", v) if isinstance(v, np.ndarray) else v for v in operands]
        types = check_types(op_type, values, written, names, NORMALISED_OPSET)
        self.check_folding(op_type, inputs, attributes, types)
        return True

    def check_folding(
        self,
        op_type: str,
        inputs: Inputs,
        attributes: Attributes,
        results: Sequence[TypeProto],
    ) -> None:
        """Raise NeedsHost for constants that take too long, or whose result is too large.

        They have no other form.
        """
        shapes = [tuple(d.dim_value or 1 for d in r.tensor_type.shape.dim) for r in results]
        arrays = [None if value is None else value.array for value in inputs]
        entry = OPERATORS.get(op_type) or constant_operator(op_type)
        work = operations_of(op_type, arrays, attributes, shapes, entry)
        if not self.spares(work):
            reason = f"its {work:,} operations take too long for a constant of the model"
            raise NeedsHost(reason, "compute it from an input, or shorten it")
        size = sum(_declared_bytes(result, inputs) for result in results)
        if not self.folds(size, input_bytes(inputs)):
            reason = f"its result of {size:,} bytes is too large for a constant of the model"
            raise NeedsHost(reason, "compute it from an input, or shorten it")

    def _check(self, op_type: str, inputs: Inputs) -> None:
        """Raise Unsupported for dtypes without kernels, and for inputs that must be constants."""
        entry = OPERATORS[op_type]
        for i, value in enumerate(inputs):
            if value is None:
                continue
            supported(value)
            if value.array is None and i in entry.structural:
                raise run_time_input(i, value)
            if value.dtype not in entry.dtypes(i) and not entry.domain:
                reason = f"{op_type} of {value.dtype} tensors came after opset {NORMALISED_OPSET}"
                raise NeedsHost(reason, "cast its inputs to another type")


def _at_sizes(node: Node[Value], sizes: Mapping[Symbol, int]) -> Node[KnownTensor]:
    """A node whose inputs and attributes have numbers for some symbols."""
    inputs = [
        value and KnownTensor(value.dtype, substituted_shape(value.shape, sizes), value.array)
        for value in node.inputs
    ]
    attributes = {
        name: mapped_extents(value, partial(substituted, values=sizes))
        for name, value in node.attributes.items()
    }
    return Node(node.type, attributes, inputs, to_infer(len(node.outputs)), node.node)


def _in_table(op_type: str, inputs: Inputs, attributes: Attributes) -> bool:
    """Whether the table has the element types of an operator's inputs and of what it casts to.

    No one else has those of an operator of another domain.
    """
    entry = OPERATORS[op_type]
    if entry.domain:
        return True
    known = all(value is None or value.dtype in entry.dtypes(i) for i, value in enumerate(inputs))
    return known and (op_type != "Cast" or attributes["to"] in ONNX_DTYPES)


def run_time_input(index: int, value: Value) -> NeedsValue:
    """The error for an input that must be a constant, but is computed at run time."""
    return NeedsValue(
        value,
        f"its input {index} ({value.name!r}) is computed at run time, and must be a constant",
        "make it one, or export the model with fixed shapes",
    )
