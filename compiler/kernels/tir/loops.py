"""Building blocks of templates: loops over flat buffers, and the register tile all of them share.

A register tile holds `rows` x `vectors` accumulators, each a vector register. Every step of the
reduction loads `vectors` vectors, broadcasts `rows` scalars, and multiplies and adds them all.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Op, PrimType, Var
from tvm.tirx import ForKind, Stmt
from tvm.tirx.expr import Shuffle

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.long_sums import run_of
from compiler.kernels.ops import wrapping
from compiler.kernels.ops.vector_functions import with_operators
from compiler.kernels.sizes import expression, is_number
from compiler.kernels.tir.narrow import as_float32
from compiler.tensors.dtypes import NARROW_FLOATS

Body = Callable[[Any], Stmt]

Places = Callable[[int, int], Any]
"""Where the accumulator of a row and a vector is kept."""


def variable(name: str) -> Var:
    """A new int32 variable."""
    return Var(name, PrimType("int32"))


def sequence(statements: Sequence[Stmt]) -> Stmt:
    """Statements one after another."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def loop_over(name: str, extent: Any, body: Body, kind: ForKind = ForKind.SERIAL) -> Stmt:
    """A loop from 0; none if the extent is 1."""
    if isinstance(extent, int) and extent == 1 and kind != ForKind.PARALLEL:
        return body(0)
    index = variable(name)
    return tirx.For(index, 0, extent, kind, body(index))


def run_length(number: Any, run: int, total: Any) -> Any:
    """The length of a run: `run`, or what is left of `total` for the last one."""
    if not is_number(total):
        return tirx.min(tirx.const(run, "int32"), total - number * run)
    if total % run == 0 or isinstance(number, int):
        return min(run, total - number * run) if isinstance(number, int) else run
    return tirx.min(tirx.const(run, "int32"), total - number * run)


def scratch(name: str, elements: int, dtype: str = "float32") -> tuple[Var, Stmt]:
    """A buffer on the stack, and the statement that allocates it."""
    tile = buffer(name, elements, dtype)
    return tile, tirx.AllocBuffer(tile, {"disable_lower_builtin": tirx.const(True, "bool")})


def vector_loop(extent: Any, lanes: int, body: Body) -> Stmt:
    """A loop in steps of whole vectors; the rest is one shorter vector.

    One over symbols has a vector of each power of two for its rest, all without a mask: LLVM's
    vectoriser would leave most of a short row to single elements.
    """
    if not is_number(extent):
        return _sized_vector_loop(extent, lanes, body)
    return loop_over_lanes(extent, lanes, lambda lane, index: body(index))


def _sized_vector_loop(extent: Any, lanes: int, body: Body) -> Stmt:
    """As `vector_loop`, of an extent over symbols; none if that is below zero."""
    count = variable("count")

    def vector(first: Any, length: int) -> Stmt:
        return lane_loop(length, lambda lane: body(first + lane))

    def part(length: int) -> Stmt:
        first = tirx.floordiv(count, 2 * length) * (2 * length)
        return tirx.IfThenElse(first + length <= count, vector(first, length), None)

    least = tirx.max(tirx.const(0, "int32"), expression(extent))
    whole = tirx.floordiv(count, lanes)
    steps = tirx.For(
        index := variable("step"), 0, whole, ForKind.SERIAL, vector(index * lanes, lanes)
    )
    lengths = [1 << i for i in reversed(range(lanes.bit_length() - 1))]
    return sequence([tirx.Bind(count, least), steps, *map(part, lengths)])


def loop_over_lanes(extent: int, lanes: int, body: Callable[[Any, Any], Stmt]) -> Stmt:
    """As `vector_loop`, of a number of elements; `body` gets an element's lane and index."""

    def vector(first: Any, length: int) -> Stmt:
        return lane_loop(length, lambda lane: body(lane, first + lane))

    whole, rest = divmod(extent, lanes)
    parts = [loop_over("step", whole, lambda s: vector(s * lanes, lanes))] if whole else []
    parts += [vector(whole * lanes, rest)] if rest else []
    return sequence(parts)


def lane_loop(lanes: int, body: Body) -> Stmt:
    """One vector's elements: as a vector, or one after another where TVM cannot.

    TVM splits a statement with a call that has no vector form into one per lane, alone: a variable
    bound there would keep the last lane's value, and one bound before it would be unknown to it.
    """
    if lanes == 1:
        return body(0)
    lane = variable("lane")
    inner = with_operators(body(lane))
    binds: list[tirx.stmt.Bind] = []
    tvm_ffi.structural_walk(inner, (tirx.stmt.Bind, binds.append), order="pre")
    kind = ForKind.SERIAL if bool(binds) and _has_scalar_call(inner) else ForKind.VECTORIZED
    return tirx.For(lane, 0, lanes, kind, inner)


def _has_scalar_call(statement: Stmt) -> bool:
    """Whether a statement calls what TVM has no vector form of."""
    calls: list[Call] = []

    def visit(call: Call) -> None:
        if not (isinstance(call.op, Op) and call.op.get_attr("TVectorizable")):
            calls.append(call)

    tvm_ffi.structural_walk(statement, (Call, visit), order="pre")
    return bool(calls)


def buffer(name: str, elements: Any, dtype: str = "float32") -> Var:
    """A flat buffer."""
    return tirx.decl_buffer((expression(elements),), dtype, name=name)


def element_at(source: Var, position: Any) -> Any:
    """The element at a position; those of 16 bits become float32."""
    return _loaded(tirx.BufferLoad(source, [position]))


def vector_at(source: Var, start: Any, lanes: int) -> Any:
    """The vector of consecutive elements from a position; those of 16 bits become float32."""
    if lanes == 1:
        return element_at(source, start)
    return _loaded(tirx.BufferLoad(source, [tirx.Ramp(start, 1, lanes)]))


def _loaded(value: Any) -> Any:
    return as_float32(value) if str(value.ty.dtype).partition("x")[0] in NARROW_FLOATS else value


def store_vector(target: Var, start: Any, value: Any, lanes: int) -> Stmt:
    """Store a vector to consecutive elements from a position."""
    if lanes == 1:
        return tirx.BufferStore(target, value, [start])
    return tirx.BufferStore(target, value, [tirx.Ramp(start, 1, lanes)])


def spread(vector: Any, lanes: int, step: int) -> Callable[[int], Any]:
    """The vectors of every `step`-th element of a vector of `lanes` times as many."""
    return lambda first: Shuffle([vector], _numbers(range(first, lanes * step, step)))


def interleaved(vectors: Sequence[Any], lanes: int) -> Any:
    """The elements of vectors by turns."""
    order = [j * lanes + i for i in range(lanes) for j in range(len(vectors))]
    return Shuffle(list(vectors), _numbers(order))


def _numbers(numbers: Iterable[int]) -> list[Any]:
    return [tirx.const(number, "int32") for number in numbers]


class Arithmetic(Protocol):
    """The arithmetic of a register tile on vectors of a dtype."""

    @property
    def dtype(self) -> str:
        """The type of operands and sums."""
        ...

    def multiply_add(self, total: Any, row: Any, vector: Any, lanes: int) -> Any:
        """The sums after one step of a broadcast scalar and a vector."""
        ...


class _FloatArithmetic:
    dtype = "float32"

    def multiply_add(self, total: Any, row: Any, vector: Any, lanes: int) -> Any:
        """A multiplication and an addition, which LLVM contracts."""
        return total + row * vector


FLOAT32 = _FloatArithmetic()
"""Arithmetic of float32."""


@dataclass(frozen=True)
class RegisterTile:
    """Accumulators of `rows` x `vectors` vectors of `lanes` elements."""

    rows: int
    vectors: int
    lanes: int
    arithmetic: Arithmetic = FLOAT32
    accumulators: list[list[Var]] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        accumulators = [
            [tirx.decl_buffer((1,), self._kind, name=f"sum{i}_{j}") for j in range(self.vectors)]
            for i in range(self.rows)
        ]
        object.__setattr__(self, "accumulators", accumulators)

    @property
    def _kind(self) -> str:
        dtype = self.arithmetic.dtype
        return f"{dtype}x{self.lanes}" if self.lanes > 1 else dtype

    def _zero(self) -> Any:
        zero = tirx.const(0, self.arithmetic.dtype)
        return tirx.Broadcast(zero, self.lanes) if self.lanes > 1 else zero

    def start(self) -> list[Stmt]:
        """Allocate the accumulators and clear them."""
        flat = [a for row in self.accumulators for a in row]
        return [*[tirx.AllocBuffer(a) for a in flat], *self._clear()]

    def _clear(self) -> list[Stmt]:
        return [tirx.BufferStore(a, self._zero(), [0]) for row in self.accumulators for a in row]

    def step(
        self,
        scalar: Callable[[int], Any],
        vector: Callable[[int], Any],
        rows: Sequence[int] | None = None,
    ) -> Stmt:
        """Multiply and add in one reduction step, of some rows or all.

        The fewer operands stay in registers.
        """
        rows = range(self.rows) if rows is None else rows
        columns = range(self.vectors)
        vectors_stay = self.vectors <= len(rows)
        if vectors_stay:
            outer, inner = (columns, vector), (rows, self._broadcast(scalar))
        else:
            outer, inner = (rows, self._broadcast(scalar)), (columns, vector)
        held = {j: self._bind(f"held{j}", outer[1](j)) for j in outer[0]}
        parts: list[Stmt] = list(held.values())
        for i in inner[0]:
            passing = self._bind(f"passing{i}", inner[1](i))
            parts.append(passing)
            for j, other in held.items():
                if vectors_stay:
                    total = self.accumulators[i][j]
                    row = passing.var
                    column = other.var
                else:
                    total = self.accumulators[j][i]
                    row = other.var
                    column = passing.var
                before = tirx.BufferLoad(total, [0])
                sum = self.arithmetic.multiply_add(before, row, column, self.lanes)
                parts.append(tirx.BufferStore(total, sum, [0]))
        return sequence(parts)

    def sum_up(self, name: str, steps: int, step: Body, target: Var, at: Places) -> Stmt:
        """The sums of all steps at their places; those of many floats are added up in runs."""
        run = steps
        kept = self.store(target, at)
        if self.arithmetic is FLOAT32:
            run = run_of(steps)
        if run == steps:
            return sequence([*self.start(), loop_over(name, steps, step), kept])
        return sequence([*self.start(), kept, self.add_runs(name, steps, run, step, target, at)])

    def add_runs(
        self, name: str, steps: int, run: int, step: Body, target: Var, at: Places
    ) -> Stmt:
        """Add the sums of steps, run after run, to those at their places."""

        def one(number: Any) -> Stmt:
            length = run_length(number, run, steps)
            summed = loop_over(name, length, lambda k: step(number * run + k))
            added = self.add(target, at)
            return sequence([*self._clear(), summed, *added, self.store(target, at)])

        return loop_over("run", ceil_div(steps, run), one)

    def subtract(self, vector: Callable[[int], Any]) -> list[Stmt]:
        """Subtract a vector from the integer sums of each column of vectors."""
        parts: list[Stmt] = []
        for j in range(self.vectors):
            shift = self._bind(f"shift{j}", vector(j))
            parts.append(shift)
            for row in self.accumulators:
                rest = wrapping.subtract(tirx.BufferLoad(row[j], [0]), shift.var)
                parts.append(tirx.BufferStore(row[j], rest, [0]))
        return parts

    def _bind(self, name: str, value: Any) -> tirx.Bind:
        return tirx.Bind(Var(name, PrimType(self._kind)), value)

    def _broadcast(self, scalar: Callable[[int], Any]) -> Callable[[int], Any]:
        if self.lanes == 1:
            return scalar
        return lambda i: tirx.Broadcast(scalar(i), self.lanes)

    def add(self, target: Var, place: Callable[[int, int], Any]) -> list[Stmt]:
        """Add the vector at its place to each accumulator."""
        return [
            tirx.BufferStore(
                a, tirx.BufferLoad(a, [0]) + vector_at(target, place(i, j), self.lanes), [0]
            )
            for i, row in enumerate(self.accumulators)
            for j, a in enumerate(row)
        ]

    def store(self, target: Var, place: Callable[[int, int], Any]) -> Stmt:
        """Store each accumulator to its place."""
        return sequence(
            [
                store_vector(target, place(i, j), tirx.BufferLoad(a, [0]), self.lanes)
                for i, row in enumerate(self.accumulators)
                for j, a in enumerate(row)
            ]
        )
