"""The accesses of a lowered function: buffer, index and conditions, as terms over its axes."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, PointerType, PrimType, StringImm, TensorLoad, Var
from tvm.tirx import PrimFunc, stmt
from tvm.tirx.buffer import is_buffer_var

from compiler.kernels.ops.tables import TABLES
from compiler.kernels.sizes import expression, is_number, variable_of
from compiler.kernels.tir import scalars
from compiler.kernels.tir.memory import Access, Accesses, buffer_bytes, buffer_elements
from compiler.kernels.tir.scalars import Scalars, ScalarState, hull, is_within
from compiler.kernels.tir.sized_launches import SizedGrid
from compiler.kernels.tir.terms.integers import (
    TYPE_LIMITS,
    Integer,
    IntegerRange,
    KernelTerms,
)
from compiler.kernels.tir.terms.operators import TERM_OPERATORS
from compiler.kernels.tir.terms.sizes import SizedTerms
from compiler.tensors.arithmetic import maximum
from compiler.tensors.inequalities import least
from compiler.tensors.symbols import Symbol

GROWING_TURNS = 3
"""The turns of a loop in which the intervals of its integers grow by what a turn adds."""


def accesses_of(
    function: PrimFunc,
    blocks: Any = None,
    symbols: Sequence[Symbol] = (),
    grid: SizedGrid | None = None,
) -> Accesses:
    """The accesses of a function to all buffers, also to those that it allocates.

    A CPU's function runs a range of its `blocks`, of which its last two parameters are the ends. It
    may read `symbols`, and have a grid over them, of which a call runs a part.
    """
    reader = _Reader(function)
    for symbol in symbols:
        reader.values[variable_of(symbol)] = reader.sized.add(symbol)
    if grid is not None:
        reader.run(list(function.params)[-2], blocks, grid)
    elif blocks is not None:
        begin, end = list(function.params)[-2:]
        reader.values |= {begin: reader.terms.number(0), end: reader.terms.number(blocks)}
        reader.begin = begin
    reader.statement(function.body)
    return reader.found


class _Reader:
    """Walks a function in the order in which it runs."""

    def __init__(self, function: PrimFunc):
        self.terms = KernelTerms()
        self.found: Accesses = Accesses(self.terms)
        self.sized = SizedTerms(self.terms, self.found.sizes)
        self.values = dict[Any, Integer]()
        self.begin: Any = None
        pointers = [p for p in function.params if isinstance(p.ty, PointerType)]
        self.found.views = [0] * len(pointers)
        self._parameters: dict[Any, int | None] = {p: i for i, p in enumerate(pointers)}
        self._extents = dict[Any, Any]()
        self._conditions = tuple[Integer, ...]()
        self._loops = 0
        self._loads = dict[tvm_ffi.StructuralKey, Integer]()
        self._written = scalars.written(function.body)
        self._scalars = Scalars(self.terms, function.body)
        self._statements: Mapping[type, Callable[[Any], None]] = {
            stmt.SeqStmt: self._sequence,
            stmt.AttrStmt: self._attribute,
            stmt.For: self._loop,
            stmt.While: self._while,
            stmt.IfThenElse: self._branch,
            stmt.BufferStore: self._store,
            stmt.Bind: self._bind,
            stmt.AllocBuffer: self._allocation,
            stmt.DeclBuffer: self._declaration,
            stmt.Evaluate: self._evaluation,
        }
        self._expressions: Mapping[type, Callable[[Any], Integer | None]] = {
            **dict.fromkeys(TERM_OPERATORS, self._of_two(self._binary)),
            **dict.fromkeys((tirx.GT, tirx.GE), self._of_two(self._greater)),
            **dict.fromkeys((tirx.LShift, tirx.RShift), self._of_two(self._shift)),
            tirx.BitwiseAnd: self._of_two(self._masked),
            tirx.NE: self._of_two(self._different),
            tirx.Not: self._not,
            tirx.Select: self._select,
            tirx.Cast: self._cast,
            tirx.Let: self._let,
            tirx.Ramp: self._ramp,
            tirx.Broadcast: self._broadcast,
            tirx.IntImm: self._number,
            tirx.FloatImm: self._nothing,
            StringImm: self._nothing,
            Var: self._variable,
            TensorLoad: self._load,
            Call: self._call,
        }

    def run(self, begin: Any, blocks: Any, grid: SizedGrid) -> None:
        """Let a call be for any run of blocks; all calls together have all turns."""
        turns, number = self._extent(grid.turns), self._extent(blocks)
        first = self.terms.axis("the first block", 0, number.high - 1)
        self.found.calls.add(first)
        self._conditions = (self.terms.apply("<", first, number),)
        self.begin = grid.ends[0]
        self.values |= {begin: first, self.begin: self.terms.number(0), grid.ends[1]: turns}

    def _extent(self, extent: Any) -> Integer:
        """The term of an extent."""
        term = self.value(expression(extent))
        assert term is not None
        return term

    def statement(self, node: Any) -> None:
        """Visit a statement."""
        kind = node.__class__
        visit = self._statements.get(kind)
        if visit is None:
            self.found.opaque.append(f"a statement {type(node).__name__}")
        else:
            visit(node)

    def value(self, node: Any) -> Integer | None:
        """Visit an expression; its term if it is an integer or a truth value."""
        kind = node.__class__
        visit = self._expressions.get(kind)
        return self._other(node) if visit is None else visit(node)

    @contextmanager
    def _under(self, condition: Integer | None, holds: bool = True) -> Generator[bool]:
        """Add a condition, or its contrary, for a while; says whether that can be true."""
        outer = self._conditions
        if condition is not None:
            term = condition if holds else self.terms.apply("not", condition)
            if term.low == 0:
                self._conditions = (*outer, *self._conjuncts(term))
            yield term.high == 1
        else:
            yield True
        self._conditions = outer

    def _conjuncts(self, term: Integer) -> Iterator[Integer]:
        negated = term.operands[0] if term.kind == "not" else None
        if term.kind == "and":
            for operand in term.operands:
                yield from self._conjuncts(operand)
        elif negated is not None and negated.kind == "or":
            for operand in negated.operands:
                yield from self._conjuncts(self.terms.apply("not", operand))
        else:
            yield term

    # Statements.

    def _sequence(self, node: Any) -> None:
        for statement in node.seq:
            self.statement(statement)

    def _attribute(self, node: Any) -> None:
        if node.attr_key == "thread_extent":
            tag, extent = str(node.node.thread_tag), self.value(node.value)
            assert extent is not None
            number = self.sized.extent(extent)
            if self.found.axes.setdefault(tag, number) != number:
                self.found.opaque.append(f"{tag} has several extents")
            axis = self.terms.axis(tag, 0, extent.high - 1)
            self.values[node.node.var] = axis
            if tag.startswith("blockIdx") and axis.kind == "axis":
                self.found.blocks.add(axis)
            # sizes decide how many blocks there are: the interval of the axis does not say it
            inside = None if is_number(number) else self.terms.apply("<", axis, extent)
            with self._under(inside):
                self.statement(node.body)
        else:
            self.statement(node.body)

    def _loop(self, node: Any) -> None:
        first, extent = self.value(node.min), self.value(node.extent)
        assert first is not None
        assert extent is not None, "loops count integers"
        if extent.high <= 0:
            return
        self._loops += 1
        name = f"{node.loop_var.name}.{self._loops}"
        axis = self.terms.axis(name, first.low, first.high + extent.high - 1)
        self.values[node.loop_var] = axis
        if self.begin is not None and node.min.same_as(self.begin) and axis.kind == "axis":
            self.found.blocks.add(axis)
        apply = self.terms.apply
        end = apply("<", axis, self.sized.end(first, extent))

        def turn() -> None:
            with self._under(apply("<=", first, axis)), self._under(end):
                self.statement(node.body)

        self._repeat(turn, node.body)

    def _branch(self, node: Any) -> None:
        condition = self.value(node.condition)
        before = dict(self._scalars.state)
        ends = list[ScalarState]()
        for case, holds in ((node.then_case, True), (node.else_case, False)):
            self._scalars.state = dict(before)
            with self._under(condition, holds) as possible:
                if possible:
                    if case is not None:
                        self.statement(case)
                    if self._scalars.narrow(self._conditions):
                        ends.append(self._scalars.state)
        self._scalars.state = ends[0] if ends else before
        for end in ends[1:]:
            self._scalars.merge(end)

    def _while(self, node: Any) -> None:
        def turn() -> None:
            with self._under(self.value(node.condition)):
                self.statement(node.body)

        self._repeat(turn, node.body)

    def _repeat(self, turn: Callable[[], None], body: Any) -> None:
        """Visit a loop's body with what holds of its integers in every turn.

        Their intervals grow turn by turn, at last as far as their types (widening), then shrink to
        what a turn leaves of that (narrowing).
        """
        if not self._scalars.followed:
            turn()
            return
        changed = scalars.carried(body)
        first = within = self._scalars.limits(changed)
        for count in range(GROWING_TURNS + 2 if first else 0):
            grown = hull(first, self._after(turn, changed, within))
            if is_within(grown, within):
                stays = is_within(hull(first, self._after(turn, changed, grown)), grown)
                within = grown if stays else within
                break
            widest = {b: TYPE_LIMITS[str(b.dtype)] for b in grown}
            within = scalars.extended(within, grown, widest if count >= GROWING_TURNS else {})
        else:
            within = {}
        self._scalars.forget(changed, within)
        turn()
        self._scalars.forget(changed, within)

    def _after(
        self, turn: Callable[[], None], changed: set[Any], within: Mapping[Any, IntegerRange]
    ) -> Mapping[Any, IntegerRange]:
        """The intervals of a loop's integers after a turn from others, which is not recorded."""
        recorded, self.found = self.found, replace(self.found, listed=[], opaque=[])
        self._scalars.forget(changed, within)
        turn()
        self.found = recorded
        return self._scalars.limits(changed)

    def _store(self, node: Any) -> None:
        value = self.value(node.value)
        self._touch(node.buffer, node.indices, True)
        extent = self._extents.get(node.buffer)
        if is_number(extent) and extent == 1 and node.buffer not in self._parameters:
            self._scalars.store(node.buffer, value, self._conditions)

    def _bind(self, node: Any) -> None:
        term = self.value(node.value)
        if term is not None and node.var not in self.values:
            self.values[node.var] = term

    def _allocation(self, node: Any) -> None:
        self._scalars.state.pop(node.buffer, None)
        self._extents[node.buffer] = buffer_elements(node.buffer)

    def _declaration(self, node: Any) -> None:
        """A name for a parameter, for another buffer, or for part of one."""
        buffer, source = node.buffer, node.data
        self._extents[buffer] = buffer_elements(buffer)
        if isinstance(source, Call) and len(source.args) == 1 and is_buffer_var(source.args[0]):
            owner = source.args[0]
            fits = least(buffer_bytes(owner) - buffer_bytes(buffer)) >= 0
            self._parameters[buffer] = self._parameters.get(owner)
        else:
            number = self._parameters.get(source)
            fits = number is not None
            self._parameters[buffer] = number
            if number is not None:
                views = self.found.views
                views[number] = maximum(views[number], buffer_bytes(buffer))
        if not fits or (self.value(buffer.ty.elem_offset) or self.terms.number(0)).high:
            self.found.opaque.append(f"the buffer {buffer.name} at an address that is computed")

    def _evaluation(self, node: Any) -> None:
        self.value(node.value)

    # Expressions.

    def _nothing(self, node: Any) -> None:
        return None

    def _number(self, node: Any) -> Integer | None:
        return self.terms.number(int(node.value))

    def _variable(self, node: Any) -> Integer | None:
        if node in self.values:
            return self.values[node]
        if isinstance(node.ty, PrimType):
            return self._any(node, node.name)
        self.found.opaque.append(f"the address of {node.name} is passed on")
        return None

    def _of_two(
        self, term: Callable[[Any, Integer, Integer], Integer | None]
    ) -> Callable[[Any], Integer | None]:
        """A visit of an operator's two operands, whose terms `term` makes its own of."""

        def visit(node: Any) -> Integer | None:
            a, b = self.value(node.a), self.value(node.b)
            return self._any(node) if a is None or b is None else term(node, a, b)

        return visit

    def _binary(self, node: Any, a: Integer, b: Integer) -> Integer | None:
        kind = TERM_OPERATORS[type(node)]
        if kind in ("//", "%"):
            truncates = isinstance(node, tirx.Div | tirx.Mod)
            if b.low <= 0 or (truncates and a.low < 0):
                return self._any(node)
        return self._exactly(node, self.terms.apply(kind, a, b))

    def _different(self, node: Any, a: Integer, b: Integer) -> Integer | None:
        return self.terms.apply("not", self.terms.apply("==", a, b))

    def _greater(self, node: Any, a: Integer, b: Integer) -> Integer | None:
        return self.terms.apply("<" if isinstance(node, tirx.GT) else "<=", b, a)

    def _shift(self, node: Any, a: Integer, b: Integer) -> Integer | None:
        if b.low != b.high or not 0 <= b.low < 64:
            return self._any(node)
        kind = "*" if isinstance(node, tirx.LShift) else "//"
        return self._exactly(node, self.terms.apply(kind, a, self.terms.number(1 << b.low)))

    def _masked(self, node: Any, a: Integer, b: Integer) -> Integer | None:
        if b.low == b.high and b.low >= 0 and b.low & b.low + 1 == 0:
            return self.terms.apply("%", a, self.terms.number(b.low + 1))
        limits = [term.high for term in (a, b) if term.low >= 0]
        return self.terms.unknown(0, min(limits)) if limits else self._any(node)

    def _not(self, node: Any) -> Integer | None:
        a = self.value(node.a)
        return self._any(node) if a is None else self.terms.apply("not", a)

    def _select(self, node: Any) -> Integer | None:
        """Both values are computed, whatever the condition."""
        operands = (node.condition, node.true_value, node.false_value)
        return self._chosen(node, *map(self.value, operands))

    def _chosen(
        self, node: Any, c: Integer | None, a: Integer | None, b: Integer | None
    ) -> Integer | None:
        if c is None or a is None or b is None:
            return self._any(node)
        return self.terms.apply("select", c, a, b)

    def _cast(self, node: Any) -> Integer | None:
        value = self.value(node.value)
        return self._any(node) if value is None else self._exactly(node, value)

    def _let(self, node: Any) -> Integer | None:
        self._bind(node)
        return self.value(node.body)

    def _ramp(self, node: Any) -> Integer | None:
        base, stride = self.value(node.base), self.value(node.stride)
        if base is None or stride is None:
            return None
        lanes = int(node.lanes)
        lane = self.terms.axis(f"lane of {lanes}", 0, lanes - 1)
        apply = self.terms.apply
        return self._exactly(node, apply("+", base, apply("*", stride, lane)))

    def _broadcast(self, node: Any) -> Integer | None:
        return self.value(node.value)

    def _load(self, node: Any) -> Integer | None:
        """A buffer that the function does not write holds the same at every read."""
        self._touch(node.source, node.indices, False)
        if node.source in self._scalars.state:
            return self._scalars.state[node.source][0]
        if node.source in self._written or _range(node) is None:
            return self._any(node, node.source.name)
        key = tvm_ffi.StructuralKey(node)
        if key not in self._loads:
            term = self._any(node, node.source.name)
            assert term is not None
            self._loads[key] = term
        return self._loads[key]

    def _call(self, node: Any) -> Integer | None:
        name = str(getattr(node.op, "name", "")).rpartition(".")[2]
        if name == "if_then_else":
            condition = self.value(node.args[0])
            values = list[Integer | None]()
            for holds in (True, False):
                with self._under(condition, holds) as possible:
                    values.append(self.value(node.args[2 - holds]) if possible else None)
            if condition is not None and condition.low == condition.high:
                return values[1 - condition.low]
            return self._chosen(node, condition, *values)
        if name in ("likely", "flowloom_once"):
            value = self.value(node.args[0])
            return self._any(node) if value is None else self._exactly(node, value)
        if name == "prefetch":  # touches no element: an address outside its buffer is harmless
            for index in node.args[0].args[0].indices:
                self.value(index)
            return None
        if name == "call_pure_extern" and str(node.args[0].value) in TABLES:
            return self._table(node, str(node.args[0].value))
        if name == "address_of":
            self.found.opaque.append(f"an address in {node.args[0].source.name} is passed on")
        for argument in node.args:
            self.value(argument)
        return self._any(node)

    def _table(self, node: Any, symbol: str) -> Integer | None:
        """An element of a constant table, which is read as memory is."""
        table, position = TABLES[symbol], self.value(node.args[1])
        if position is None:
            self.found.opaque.append(f"a table is read at {node.args[1]}")
        else:
            access = Access(
                buffer=symbol,
                parameter=None,
                extent=len(table),
                index=position,
                conditions=self._conditions,
                writes=False,
            )
            self.found.listed.append(access)
        if table.dtype.kind not in "iub":
            return None
        return self.terms.unknown(int(table.min()), int(table.max()), symbol)

    def _other(self, node: Any) -> Integer | None:
        """An operator of no known meaning, of which each operand is visited."""
        for name in ("a", "b", "value", "base"):
            if hasattr(node, name):
                self.value(getattr(node, name))
        for operand in [*getattr(node, "vectors", ()), *getattr(node, "indices", ())]:
            self.value(operand)
        return self._any(node)

    def _any(self, node: Any, name: str = "") -> Integer | None:
        """An unknown of an expression's type; None unless that is of integers."""
        limits = _range(node)
        return None if limits is None else self.terms.unknown(*limits, name)

    def _exactly(self, node: Any, term: Integer) -> Integer | None:
        """A term, unless an expression of that type could wrap around."""
        limits = _range(node)
        if limits is None:
            return None
        if self.sized.is_extent(term, limits, self._conditions):
            return term
        low, high = term.low, term.high
        if low < limits[0] or high > limits[1]:
            low, high = self._scalars.interval(term, self._conditions)
        return term if limits[0] <= low and high <= limits[1] else self._any(node)

    def _touch(self, buffer: Any, indices: Sequence[Any], writes: bool) -> None:
        terms = [self.value(index) for index in indices]
        extent = self._extents.get(buffer)
        if len(terms) != 1 or terms[0] is None or extent is None:
            self.found.opaque.append(f"an access of {buffer.name} by {len(terms)} indices")
        else:
            access = Access(
                buffer=buffer.name,
                parameter=self._parameters.get(buffer),
                extent=extent,
                index=terms[0],
                conditions=self._conditions,
                writes=writes,
                size=None if is_number(extent) else self._extent(extent),
            )
            self.found.listed.append(access)


def _range(node: Any) -> IntegerRange | None:
    """The least and the greatest number of an expression's type; None unless of integers."""
    return TYPE_LIMITS.get(str(getattr(node.ty, "dtype", "")).partition("x")[0])
