"""A fused group as plain data: what a kernel is built from, cheap to hash and to send."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, NoneType
from xdsl.ir import SSAValue

from compiler.errors import KernelError
from compiler.graph.packing import packed_dtype, packed_shape
from compiler.ir.dataflow import GroupOp, WeightOp
from compiler.ir.groups import kernel_symbols, symbols_of_group
from compiler.ir.layouts import block_of, blocks_first
from compiler.ir.nodes import numbered_nodes
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array
from compiler.net.node import Node
from compiler.net.operators import KINDS, OPERATORS, Kind, facts_of
from compiler.net.operators.canonical import complete_attributes
from compiler.net.operators.contractions import FLOAT_CONTRACTIONS
from compiler.schedule.kernels import Operand
from compiler.tensors.dtypes import ELEMENT_BYTES, FLOAT8, NARROW_FLOATS
from compiler.tensors.extents import Expression, Extent, extent_of, symbols_of, value_at
from compiler.tensors.substitution import extents_in, mapped_extents, substituted, substituted_shape
from compiler.tensors.symbols import Symbol


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """The dtype name and logical shape of one value, whose extents may be over symbols.

    A read or write with a `block` is stored as (C / block, N, *spatial, block), one of a
    single pixel as (N, C / block, 1, block), others row-major. Kernels see float8 as its bytes:
    uint8, with the `code` that they stand for. Of a `folded` result a thread
    keeps what is named: their "minimum", "maximum" or "sum".
    """

    dtype: str
    shape: tuple[int, ...]
    block: int = 0
    code: str = ""
    folded: str = ""

    def __post_init__(self) -> None:
        if self.dtype in FLOAT8:
            object.__setattr__(self, "code", self.dtype)
            object.__setattr__(self, "dtype", "uint8")

    @property
    def element(self) -> str:
        """The dtype name of the elements, of which kernels see the bytes."""
        return self.code or self.dtype

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in memory."""
        if not self.block:
            return self.shape
        outer, channels, *spatial = self.shape
        lead = (outer, channels // self.block)
        return (*(lead[::-1] if blocks_first(self.shape) else lead), *spatial, self.block)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Group:
    """A group's values are its inputs first, then constants and results in order.

    Its operators have all attributes, with axes from the front, whatever it was made with.

    `weights` says for each input whether it is a weight, which may be packed beforehand.
    Kernels at the `boundary` touch a caller's memory, which may move between runs. `packed` has the
    packings in which memory has each input already, for other modules of a program; or nothing.
    """

    name: str
    values: tuple[TensorInfo, ...]
    inputs: int
    weights: tuple[bool, ...]
    constants: Mapping[int, numpy.ndarray]
    operators: tuple[Node[int], ...]
    outputs: tuple[int, ...]
    boundary: bool = False
    packed: tuple[frozenset[str], ...] = ()

    def __post_init__(self) -> None:
        operators = tuple(self._complete(op) for op in self.operators)
        object.__setattr__(self, "operators", operators)

    def _complete(self, op: Node[int]) -> Node[int]:
        shapes = [None if i is None else self.values[i].shape for i in op.inputs]
        full = complete_attributes(op.type, op.attributes, shapes)
        return op if full == op.attributes else replace(op, attributes=full)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of its extents, in the order in which values have them, then attributes.

        The kernel reads their values, as int64, from one more operand after the others.
        """
        extents = [extent for info in self.values for extent in extents_in(info.shape)]
        attributes = [sorted(op.attributes.items()) for op in self.operators]
        extents += [n for own in attributes for _, value in own for n in extents_in(value)]
        symbols = (sorted(symbols_of(extent), key=str) for extent in extents)
        return tuple(dict.fromkeys(symbol for own in symbols for symbol in own))

    @property
    def is_empty(self) -> bool:
        """Whether its results have no elements, so that there is nothing to compute."""
        return all(info.elements == 0 for info in self.writes)

    def at(self, sizes: Mapping[str, int]) -> "Group":
        """The group for sizes by symbol, as numbers."""
        return self.mapped(lambda extent: value_at(extent, sizes))

    def mapped(self, function: Callable[[Expression], Any]) -> "Group":
        """The group with another extent for each one over symbols."""
        if not self.symbols:
            return self
        values = tuple(
            replace(info, shape=mapped_extents(info.shape, function)) for info in self.values
        )
        operators = tuple(
            replace(
                op, attributes={k: mapped_extents(v, function) for k, v in op.attributes.items()}
            )
            for op in self.operators
        )
        return replace(self, values=values, operators=operators)

    @property
    def reads(self) -> tuple[TensorInfo, ...]:
        """The tensors that the kernel reads, in order."""
        return self.values[: self.inputs]

    @property
    def writes(self) -> tuple[TensorInfo, ...]:
        """The results, in order."""
        return tuple(self.values[i] for i in self.outputs)

    @property
    def traffic_bytes(self) -> int:
        """Bytes of all inputs and results."""
        return sum(t.nbytes for t in (*self.reads, *self.writes))

    @property
    def operations(self) -> int:
        """A rough count of arithmetic operations: one for each element read or made by each."""
        return sum(
            max(self.values[i].elements for i in (*op.inputs, *op.outputs) if i is not None)
            for op in self.operators
        )

    def describe(self) -> str:
        """The kernel's name with its operators and nodes, for messages."""
        return f"kernel {self.name} ({', '.join(op.label for op in self.operators)})"

    def only(self, *types: str) -> Node[int] | None:
        """The only operator of some types; None if there are several, or none."""
        operators = [op for op in self.operators if op.type in types]
        return operators[0] if len(operators) == 1 else None

    def users(self, value: int) -> list[Node[int]]:
        """The operators that use a value."""
        return [op for op in self.operators if value in op.inputs]

    def is_read_once(self, value: int) -> bool:
        """Whether one operand of one operator is all that reads a value."""
        return sum(op.inputs.count(value) for op in self.operators) == 1

    def stored(self, value: int) -> int:
        """The input of 16 bits whose elements a Cast makes a value of float32; else the value."""
        if self.values[value].dtype != "float32":
            return value
        makers = (op for op in self.operators if op.outputs == (value,))
        casts = (op for op in makers if facts_of(op.type).converts)
        source = next((op.operand(0) for op in casts), value)
        return (
            source if source < self.inputs and self.values[source].dtype in NARROW_FLOATS else value
        )

    def is_packable(self, value: int) -> bool:
        """Whether a value may be packed: a weight that only one operand reads."""
        return value < self.inputs and self.weights[value] and self.is_read_once(value)

    def packable(self, value: int) -> int | None:
        """The input that may be packed as a value is read, which may be cast; None if none may."""
        stored = self.stored(value)
        return stored if self.is_packable(stored) and self.is_read_once(value) else None

    def is_packed(self, value: int, packing: str) -> bool:
        """Whether memory has an input with a packing already."""
        return value < len(self.packed) and packing in self.packed[value]

    def content_hash(self) -> str:
        """SHA-256 of everything that decides the code: names of nodes and kernels are left out."""
        operators = [
            (op.type, sorted(op.attributes.items(), key=lambda a: a[0]), op.inputs, op.outputs)
            for op in self.operators
        ]
        constants = sorted((i, c.dtype.str, c.tobytes()) for i, c in self.constants.items())
        values = [(t.element, t.shape, t.block) for t in self.values]
        content = (self.name, values, self.inputs, self.weights, constants, operators, self.outputs)
        content += ("boundary",) * self.boundary
        content += tuple((s.name, s.low, s.high, s.hint) for s in self.symbols)
        content += tuple(tuple(sorted(packings)) for packings in self.packed)
        return hashlib.sha256(_plain(content).encode()).hexdigest()


def takes_symbols(operator: str, gpu: bool) -> bool:
    """Whether kernels of an operator, on a CPU or a GPU, may have extents that depend on symbols.

    Most kernels that are written by hand have numbers, and so have those of contractions of
    bytes, which the generic schedule would make many times slower. On GPUs two have templates.
    """
    kind = KINDS.get(operator)
    if kind is Kind.CONTRACTION and operator in (("MatMul", "Gemm") if gpu else FLOAT_CONTRACTIONS):
        return True
    by_hand = kind in (Kind.CONTRACTION, Kind.OPAQUE)
    return not by_hand or (not gpu and OPERATORS[operator].facts.sized)


def needed(operators: Sequence[Node[int]], outputs: Sequence[int]) -> tuple[Node[int], ...]:
    """The operators that results depend on, in order."""
    wanted = set(outputs)
    kept = list[Node[int]]()
    for op in reversed(operators):
        if wanted.intersection(op.outputs):
            wanted.update(i for i in op.inputs if i is not None)
            kept.append(op)
    return tuple(reversed(kept))


def _plain(content: NDArray[Any] | list[Any] | tuple[Any, ...] | str | float | None) -> str:
    """A text of plain data that is the same in every process."""
    if isinstance(content, numpy.ndarray):
        return f"{content.dtype}{content.shape}{content.tobytes().hex()}"
    if isinstance(content, list | tuple):
        return "(" + ",".join(map(_plain, content)) + ")"
    return repr(content)


def dense_array(attribute: DenseIntOrFPElementsAttr) -> numpy.ndarray:
    """The value of a dense attribute as a numpy array: bfloat16 as float32, float8 as bytes."""
    array = attribute_to_array(attribute)
    if str(array.dtype) in FLOAT8:
        return array.view("uint8")
    return array.astype("float32") if str(array.dtype) == "bfloat16" else array


def extract_group(group: GroupOp) -> Group:
    """The plain form of a group in the IR; it must have a kernel name.

    Where sizes depend on symbols they are extents of the kernel's symbols, `s0` and on.
    """
    block = numbered_nodes(group.body.block)
    values = [_info(value) for value in block.values]
    constants = {number: dense_array(value) for number, value in block.constants.items()}
    operators = block.nodes
    name = group.kernel.data if group.kernel is not None else "kernel"
    weights = tuple(isinstance(v.owner, WeightOp) for v in group.inputs)
    outputs = tuple(block.numbers[v] for v in group.results_yielded)
    stored = [*enumerate(group.inputs), *zip(outputs, group.outputs, strict=True)]
    infos = {number: _info(value) for number, value in stored}
    if any(infos[number] != _info(value) for number, value in stored):
        raise KernelError(f"the kernel {name} keeps one value in two layouts: copy it first")
    values = [infos.get(number, info) for number, info in enumerate(values)]
    symbols = {old: extent_of(s) for old, s in kernel_symbols(symbols_of_group(group)).items()}
    if symbols:
        values = [replace(v, shape=substituted_shape(v.shape, symbols)) for v in values]
        operators = [replace(op, attributes=_of_kernel(op, symbols)) for op in operators]
    return Group(
        name=name,
        values=tuple(values),
        inputs=len(weights),
        weights=weights,
        constants=constants,
        operators=tuple(operators),
        outputs=outputs,
    )


def _of_kernel(op: Node[int], symbols: Mapping[Symbol, Extent]) -> dict[str, Any]:
    """The attributes of an operator, of which sizes depend on a kernel's symbols."""
    return {
        name: mapped_extents(value, lambda extent: substituted(extent, symbols))
        for name, value in op.attributes.items()
    }


def _info(value: SSAValue) -> TensorInfo:
    if isinstance(value.type, NoneType):
        return TensorInfo("", ())
    dtype = dtype_of(value.type)
    shape = tuple(shape_of(value.type))
    block = block_of(value.type)
    return TensorInfo(dtype, shape, block)


def operand_types(
    group: Group, packings: Sequence[str]
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The tensors that a group's kernel reads and writes, of which reads are packed.

    The last read of a group with symbols are their values.
    """
    packed = zip(group.reads, packings[: group.inputs], strict=True)
    reads = [
        Operand(packed_dtype(info.element, packing), packed_shape(info.shape, packing))
        for info, packing in packed
    ]
    if group.symbols:
        reads.append(Operand("int64", (len(group.symbols),)))
    writes = (Operand(info.element, info.shape) for info in group.writes)
    return tuple(reads), tuple(writes)
