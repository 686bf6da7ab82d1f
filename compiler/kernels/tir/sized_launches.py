"""Launches of kernels with symbols: reading the sizes, runs of a grid, and memory by sizes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import PointerType, PrimType, TensorLoad, Var
from tvm.tirx import BufferStore, For, ForKind, IntImm, SeqStmt, Stmt
from tvm.tirx.stmt import AllocBuffer, Bind, DeclBuffer

from compiler.kernels.sizes import (
    RUN_ATTRIBUTE,
    at_hint,
    expression,
    extent_from,
    is_number,
    symbol_of,
    variable_of,
)
from compiler.kernels.tir.memory import buffer_elements
from compiler.tensors.arithmetic import ceil_div
from compiler.tensors.extents import NotForAllSizes, bounds
from compiler.tensors.symbols import Symbol

SIZED_LOOP = "sized"
"""The end of names of loops over symbols, before their turns for the example sizes."""


@dataclass(frozen=True)
class SizesOperand:
    """The operand that holds the values of a kernel's symbols, the task's buffer `number`."""

    number: int
    symbols: tuple[Symbol, ...]

    def read(self) -> tuple[Var, list[Stmt]]:
        """A pointer to it, and the statements that bind the symbols' variables."""
        pointer = Var("sizes_pointer", PointerType(PrimType("int64")))
        buffer: Any = tirx.decl_buffer((len(self.symbols),), "int64", name="sizes")
        loads = (tirx.BufferLoad(buffer, [i]).astype("int32") for i in range(len(self.symbols)))
        variables = map(variable_of, self.symbols)
        binds = [Bind(own, load) for own, load in zip(variables, loads, strict=True)]
        return pointer, [DeclBuffer(buffer, data=pointer), *binds]


@dataclass(frozen=True)
class SizedGrid:
    """A grid of a kernel with symbols: a `loop` over blocks of `run` of its `turns`.

    `ends` are the variables of the first turn, and of the last one and 1.
    """

    loop: Stmt
    turns: Any
    run: int
    ends: tuple[Var, Var]

    @property
    def blocks(self) -> Any:
        """The number of blocks."""
        return ceil_div(self.turns, self.run)


def sized_grid(nest: Any, begin: Var, end: Var) -> SizedGrid | None:
    """The grid of a nest if its outermost loop is a parallel one."""
    if nest.__class__ is not For or nest.kind != ForKind.PARALLEL:
        return None
    turns = extent_from(nest.extent)
    run = int(nest.annotations.get(RUN_ATTRIBUTE, 1))
    first, last = Var("first", PrimType("int32")), Var("last", PrimType("int32"))
    bounds = [Bind(first, begin * run), Bind(last, tirx.min(end * run, expression(turns)))]
    loop = For(nest.loop_var, first, last - first, ForKind.SERIAL, nest.body)
    return SizedGrid(SeqStmt([*bounds, loop]), turns, run, (first, last))


def uses_symbols(statement: Stmt, buffers: Iterable[Any]) -> bool:
    """Whether a statement, or the shape of one of its buffers, needs the value of a symbol."""
    symbols: list[Var] = []

    def visit(variable: Any) -> None:
        if symbol_of(variable) is not None:
            symbols.append(variable)

    tvm_ffi.structural_walk(statement, (Var, visit), order="pre")
    return bool(symbols) or any(not is_number(buffer_elements(b)) for b in buffers)


def with_named_loops(nest: Stmt) -> Any:
    """A nest in which loops over symbols have names for how often they turn."""
    renamed: dict[Any, Var] = {}

    def loop(node: For, mutator: Any) -> Any:
        if isinstance(node.extent, IntImm) or node.kind == ForKind.PARALLEL:
            return mutator.default_mutate(node)
        own = Var(f"{node.loop_var.name}_{SIZED_LOOP}{_turns(node)}_", node.loop_var.ty)
        renamed[node.loop_var] = own
        first, extent = mutator.mutate(node.min), mutator.mutate(node.extent)
        return For(own, first, extent, node.kind, mutator.mutate(node.body))

    def use(variable: Any, mutator: Any) -> Any:
        return renamed.get(variable, variable)

    return tvm_ffi.structural_mutate(nest, ((For, loop), (Var, use)))


def _turns(loop: For) -> int:
    """The turns of a loop for the example sizes; 0 if other loops decide them."""
    try:
        return at_hint(extent_from(loop.extent))
    except NotForAllSizes:
        return 0


def with_lines(nest: Stmt, blocks: Any, begin: Var) -> tuple[Stmt, list[Any]]:
    """A nest that has what it allocates by sizes in memory, and the buffers of that.

    A call has the part of its first block for itself, whichever it is called for.
    """
    lines: dict[Any, Any] = {}

    def collect(allocation: AllocBuffer) -> None:
        elements = buffer_elements(allocation.buffer)
        if not is_number(elements):
            shape = (expression(elements * blocks),)
            own: Any = tirx.decl_buffer(shape, str(allocation.buffer.dtype), name="line")
            lines[allocation.buffer] = own

    tvm_ffi.structural_walk(nest, (AllocBuffer, collect))
    return (_with_buffers(nest, lines, begin), [*lines.values()]) if lines else (nest, [])


def _with_buffers(nest: Stmt, lines: Mapping[Any, Any], begin: Var) -> Stmt:
    """A nest that reads and writes other buffers in place of those that it allocates."""

    def place(buffer: Any, indices: Any) -> list[Any]:
        if len(indices) != 1 or isinstance(indices[0], tirx.Ramp):
            raise NotForAllSizes("no symbolic kernel: it has vectors of a buffer that sizes decide")
        return [begin * expression(buffer_elements(buffer)) + indices[0]]

    def allocate(node: AllocBuffer, mutator: Any) -> Any:
        return tirx.Evaluate(0) if node.buffer in lines else node

    def load(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if node.source not in lines:
            return node
        return tirx.BufferLoad(lines[node.source], place(node.source, node.indices))

    def store(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if node.buffer not in lines:
            return node
        return BufferStore(lines[node.buffer], node.value, place(node.buffer, node.indices))

    rules = ((AllocBuffer, allocate), (TensorLoad, load), (BufferStore, store))
    return tvm_ffi.structural_mutate(nest, rules)


def recombined_quotients(statement: Stmt) -> Stmt:
    """A statement with `x` for `x // y * y + x % y`: TVM leaves that where symbols decide `y`."""

    def recombined(total: Any, mutator: Any) -> Any:
        total = mutator.default_mutate(total)
        product, rest = total.a, total.b
        if not (isinstance(product, tirx.Mul) and isinstance(rest, tirx.FloorMod)):
            return total
        dividend, divisor = map(tvm_ffi.StructuralKey, (rest.a, rest.b))
        quotients = ((product.a, product.b), (product.b, product.a))
        same = any(
            isinstance(own, tirx.FloorDiv)
            and tvm_ffi.StructuralKey(own.a) == dividend
            and tvm_ffi.StructuralKey(own.b) == tvm_ffi.StructuralKey(other) == divisor
            for own, other in quotients
        )
        return rest.a if same else total

    return tvm_ffi.structural_mutate(statement, ((tirx.Add, recombined),))


def with_plain_divisions(statement: Stmt) -> Stmt:
    """A statement in which quotients of numbers that are not negative are rounded towards zero.

    TVM does not know that symbols are positive: it would mend the sign of each quotient.
    """

    def quotient(node: Any, mutator: Any) -> Any:
        plain = _is_positive(node)
        node = mutator.default_mutate(node)
        return tirx.Div(node.a, node.b) if plain else node

    def remainder(node: Any, mutator: Any) -> Any:
        plain = _is_positive(node)
        node = mutator.default_mutate(node)
        return tirx.Mod(node.a, node.b) if plain else node

    rules = ((tirx.FloorDiv, quotient), (tirx.FloorMod, remainder))
    return tvm_ffi.structural_mutate(statement, rules)


def with_bound_quotients(statement: Stmt) -> Stmt:
    """A statement in which quotients of a loop's variable by sizes are computed once a turn.

    Under a condition LLVM would leave them where they are, as their divisor may be 0, and the loops
    around them would not be vectorised (see `cpu.remainders`).
    """

    def loop(node: For, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        bound: dict[Any, Bind] = {}

        def quotient(own: Any, mutator: Any) -> Any:
            own = mutator.default_mutate(own)
            known = (node.loop_var, *(bind.var for bind in bound.values()))
            if not any(map(own.a.same_as, known)) or not _is_at_least_one(own.b):
                return own
            key = tvm_ffi.StructuralKey(own)
            if key not in bound:
                bound[key] = Bind(Var("quotient", own.a.ty), own)
            return bound[key].var

        rules = ((tirx.FloorDiv, quotient), (tirx.FloorMod, quotient))
        body = tvm_ffi.structural_mutate(node.body, rules)
        if not bound:
            return node
        body = SeqStmt([*bound.values(), body])
        return For(node.loop_var, node.min, node.extent, node.kind, body)

    return tvm_ffi.structural_mutate(statement, ((For, loop),))


def _is_at_least_one(divisor: Any) -> bool:
    """Whether a divisor is an extent over symbols that is never 0."""
    try:
        return not isinstance(divisor, IntImm) and bounds(extent_from(divisor))[0] >= 1
    except NotForAllSizes:
        return False


def _is_positive(value: Any) -> bool:
    """Whether an index has no part that could be negative: variables count from 0 or above."""
    if isinstance(value, Var):
        return True
    if isinstance(value, IntImm):
        return int(value.value) >= 0
    if type(value) in _SIGN_KEEPING and _is_positive(value.a) and _is_positive(value.b):
        return True
    try:
        return bounds(extent_from(value))[0] >= 0
    except NotForAllSizes:  # no extent, or one whose sign depends on sizes
        return False


_SIGN_KEEPING = (
    tirx.Add,
    tirx.Mul,
    tirx.FloorDiv,
    tirx.FloorMod,
    tirx.Div,
    tirx.Mod,
    tirx.Min,
    tirx.Max,
)
