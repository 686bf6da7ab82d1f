"""Builder of graphs of the normalised opset; folds operators whose inputs are known."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from onnx import TensorProto, TypeProto

from compiler.frontend.evaluate import check_types, dtype_name, element_type, evaluate
from compiler.frontend.expansion import Expansion
from compiler.frontend.index_ranges import IndexRanges
from compiler.frontend.interpreter.evaluation import operations_of
from compiler.frontend.interpreter.extents import check_in_kernels, evaluate_extents, settled
from compiler.frontend.unsupported import NeedsHost, NeedsValue
from compiler.graph.fusion.whole import Whole, no_kernels
from compiler.ir.values import numpy_dtype
from compiler.net.attributes import Mismatch, Shape
from compiler.net.graph import Attributes, Graph, Inputs, Value, constant
from compiler.net.node import Node
from compiler.net.operators import OPERATORS, POSITIONS, infer, infer_node
from compiler.net.operators.canonical import from_front, onnx_operands
from compiler.net.operators.elementwise import ONNX_DTYPES
from compiler.net.operators.indices import Bounds
from compiler.net.spec import KnownTensor, check_attributes, to_infer
from compiler.support.memory import require
from compiler.tensors.dtypes import ELEMENT_BYTES
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

NORMALISED_OPSET = 23
"""The opset of every imported graph: the newest that every supported onnxruntime executes, and
the first that has every operator of the table (RMSNormalization is the last)."""


def supported(value: Value | None) -> None:
    """Raise NeedsHost unless kernels support the value's dtype."""
    if value is not None and value.dtype not in ELEMENT_BYTES:
        dtype = "strings" if value.dtype == "str_" else f"{value.dtype} tensors"
        if value.items is not None:
            dtype = "sequences of tensors"
        raise NeedsHost(f"{dtype} cannot be compiled", "export the model with another type")


def is_known(inputs: Inputs) -> bool:
    """Whether every input that is not omitted is a constant."""
    return all(value is None or value.array is not None for value in inputs)


def byte_count(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor; of text, of the pointers to it."""
    return prod(shape) * (8 if dtype == "str_" else numpy_dtype(dtype).itemsize)


def input_bytes(inputs: Inputs) -> int:
    """Bytes of an operator's inputs, with those of texts."""
    return sum(
        byte_count(value.dtype, value.shape) + prod(value.shape) * _text_bytes(value)
        for value in inputs
        if value is not None
    )


def _text_bytes(value: Value) -> int:
    """Bytes of the longest of a constant's texts, as numpy computes with it; 0 for numbers."""
    if value.dtype != "str_" or value.array is None:
        return 0
    return 4 * max(map(len, value.array.reshape(-1).tolist()), default=0)


def _declared_bytes(result: TypeProto, inputs: Inputs) -> int:
    """Bytes of a result of an inferred type; texts may be as long as those of all inputs.

    Unknown dimensions count as 1: data decide them, which bound them.
    """
    tensor = result.tensor_type
    shape = [d.dim_value or 1 for d in tensor.shape.dim]
    if tensor.elem_type == TensorProto.STRING:
        length = sum(_text_bytes(value) for value in inputs if value is not None)
        return prod(shape) * (8 + length)
    return byte_count(dtype_name(tensor.elem_type) or "float32", shape)


MOST_SIZES = 64
"""Most sizes of a tensor that a run computes of them, one by one."""

LONGEST_VECTOR = 1 << 24
"""Most integers of a constant that a rule writes, such as the indices of an axis."""


class Builder:
    """Appends operators for the ONNX node named `node` to `graph`, within the bound `expansion`.

    `has_kernel` says which recurrences and transforms stay one operator. Unless it is
    `bounded`, constants of any size are folded. `watch_indices` gets the inputs of nodes that
    are indices of run time, where these are to be checked. Unless it `checks_indices`, known
    ones are clamped, too: they are data of a run. `measured` has the tensor int64[1] with the size
    of each symbol that a run measures.
    """

    def __init__(self, graph: Graph, expansion: Expansion):
        self.graph = graph
        self.expansion = expansion
        self.index_ranges = IndexRanges()
        self.node = ""
        self.bounded = True
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
        return constant(
            f"{self.node}.constant", np.asarray(array, numpy_dtype(dtype) if dtype else None)
        )

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

    def emit(
        self,
        op_type: str,
        inputs: Inputs,
        attributes: Mapping[str, Any] = MappingProxyType({}),
        outputs: int = 1,
    ) -> list[Value]:
        """The outputs of an operator: constants if its inputs are, else run-time tensors."""
        return self.emit_used(op_type, inputs, attributes, [True] * outputs)

    def one(self, op_type: str, *inputs: Value | None, **attributes: object) -> Value:
        """The only output of an operator."""
        return self.emit(op_type, list(inputs), attributes)[0]

    def cast(self, value: Value, dtype: str) -> Value:
        """A value in a type."""
        return value if value.dtype == dtype else self.one("Cast", value, to=element_type(dtype))

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """A value in another shape."""
        return self.one("Reshape", value, shape=[as_extent(size) for size in shape])

    def emit_used(
        self, op_type: str, inputs: Inputs, attributes: Mapping[str, Any], used: Sequence[bool]
    ) -> list[Value]:
        """Like `emit`, if some outputs are omitted; those are unknown values.

        An attribute that is None, which a node's own schema does not have, has the table's
        default.
        """
        self.expansion.count(f"{op_type} {self.node!r}")
        shapes = [value and value.shape for value in inputs]
        named = {name: value for name, value in attributes.items() if value is not None}
        attributes = from_front(op_type, named, shapes)
        if any(value is not None and value.symbolic for value in inputs):
            results = self._folded_extents(op_type, inputs, attributes, used)
            if results is not None:
                return results
            inputs = [value and self.at_run_time(value) for value in inputs]
        if is_known(inputs) and self._folds(op_type, inputs, attributes, used):
            arrays = evaluate(op_type, inputs, attributes, used)
            return [Value("") if a is None else constant(self.node, a) for a in arrays]
        self._check(op_type, inputs)
        check_attributes(OPERATORS[op_type], attributes)
        node = OPERATORS[op_type].node(op_type, inputs, attributes, len(used))
        types = infer_node(node)
        shapes = [type.shape for type in types]
        for extent in extents_in(shapes):
            _ = extent > 0  # kernels of what has elements are others than those of what has none
        for extent in extents_in([*shapes, *attributes.values()]):
            check_in_kernels(extent)
        self._check_few(node, shapes)
        self.index_ranges.check(node)
        outputs = [
            Value("", type.dtype, type.shape) if is_used else Value("")
            for is_used, type in zip(used, types, strict=True)
        ]
        node = Node(op_type, node.attributes, inputs, tuple(outputs), self.node)
        self.index_ranges.note(node)
        self.graph.operators.append(node)
        return outputs

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

    def _folds(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> bool:
        """Whether an operator on constants becomes a constant, if it fits them.

        One whose result, or its shape, depends on symbols does not.
        Raises NeedsHost for a large one of types that no kernel supports: it has no other form.
        """
        if not _in_table(op_type, inputs, attributes):
            names = [f"o{i}" if use else "" for i, use in enumerate(used)]
            operands, written = onnx_operands(op_type, inputs, attributes, len(used))
            values = [constant("", v) if isinstance(v, np.ndarray) else v for v in operands]
            types = check_types(op_type, values, written, names, NORMALISED_OPSET)
            self.check_folding(op_type, inputs, attributes, types)
            return True
        results = infer(op_type, inputs, attributes, len(used))
        if has_symbols(attributes.values()) or any(has_symbols(r.shape) for r in results):
            return False
        size = sum(byte_count(result.dtype, result.shape) for result in results)
        bytes_fit = self.folds(size * _taps(op_type, inputs, attributes), input_bytes(inputs))
        shapes = [result.shape for result in results]
        return bytes_fit and self._spares(_operations(op_type, inputs, attributes, shapes))

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
        work = _operations(op_type, inputs, attributes, shapes)
        if not self._spares(work):
            reason = f"its {work:,} operations take too long for a constant of the model"
            raise NeedsHost(reason, "compute it from an input, or shorten it")
        size = sum(_declared_bytes(result, inputs) for result in results)
        if not self.folds(size, input_bytes(inputs)):
            reason = f"its result of {size:,} bytes is too large for a constant of the model"
            raise NeedsHost(reason, "compute it from an input, or shorten it")

    def folds(self, result_bytes: int, operand_bytes: int) -> bool:
        """Whether an operator on constants becomes a constant; see `Expansion.folds`.

        Raises DeviceError where a run computes it and there is too little memory for it.
        """
        if self.bounded:
            return self.expansion.folds(result_bytes, operand_bytes)
        require(result_bytes, f"the result of {self.node!r}")
        return True

    def _spares(self, work: int) -> bool:
        """Whether operations are done while a model is imported; see `Expansion.spares`."""
        return not self.bounded or self.expansion.spares(work)

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


def _operations(
    op_type: str, inputs: Inputs, attributes: Attributes, results: Sequence[Shape]
) -> int:
    """The operations of an operator on constants, where they grow faster than its tensors."""
    arrays = [None if value is None else value.array for value in inputs]
    return operations_of(op_type, arrays, attributes, results)


def _taps(op_type: str, inputs: Inputs, attributes: Attributes) -> int:
    """The elements that an operator on windows reads for each of its result, else 1.

    The interpreter holds that many at once: long windows may be the square of a constant.
    """
    weight = inputs[1] if op_type in ("Conv", "ConvTranspose") else None
    kernel = attributes.get("kernel_shape") if weight is None else weight.shape[1:]
    return max(1, prod(kernel or ()))


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
