"""Elements of tensors as straight-line code: what several elements need of a stage is bound once.

The code grows with the number of stages however they are linked. Stages are visited from the last
to the first, so that all uses of an element are known when it is written.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import tvm_ffi
from tvm import te, tirx
from tvm.ir import Call, PrimType, TensorLoad, Var
from tvm.runtime import Object
from tvm.sym import Analyzer

from compiler.kernels.ops.reducers import with_variables
from compiler.kernels.tir.narrow import upper_half
from compiler.kernels.tir.once import once

TirValue = Any
Leaf = Callable[[te.Tensor, Sequence[TirValue]], TirValue | None]
"""The element of a tensor at an index if it is in memory or given, None if it is to be computed."""

DEPTH = 16
"""Stages that one expression may nest: TVM and LLVM walk expressions recursively."""

_LOAD = "te.tensor_load"
_CHOICE = "prim.if_then_else"


@dataclass(eq=False)
class _Scope:
    """Code that runs together: all of it, or a branch of a choice within an outer scope.

    `steps` are values and choices, the last first.
    """

    outer: "_Scope | None" = None
    steps: "list[_Value | _Choice]" = field(default_factory=lambda: [])

    def enclosing(self) -> "Iterator[_Scope]":
        """The scopes around this one, from the inside."""
        scope = self.outer
        while scope is not None:
            yield scope
            scope = scope.outer


@dataclass(eq=False)
class _Value:
    """A variable and its value; `uses` is how often it appears."""

    variable: Var
    uses: int
    value: TirValue = None


@dataclass(eq=False)
class _Choice:
    """A variable and the values that it has in two branches, of which one runs."""

    variable: Var
    condition: TirValue = None
    branches: list[tuple[_Scope, TirValue]] = field(default_factory=list[tuple[_Scope, TirValue]])


@dataclass(eq=False)
class _Demand:
    """An element that is needed: the variables that stand for it, and in which scopes."""

    indices: list[TirValue]
    uses: list[tuple[_Scope, Var]] = field(default_factory=list[tuple[_Scope, Var]])


@dataclass(frozen=True)
class Code:
    """Variables with their values, in order, and the results that use them."""

    steps: list[tuple[Var, TirValue]]
    results: list[TirValue]

    def nested(self, number: int = 0) -> TirValue:
        """One result as a single expression."""
        return _nest(self.steps, self.results[number])


def _nest(steps: Sequence[tuple[Var, TirValue]], value: TirValue) -> TirValue:
    for variable, bound in reversed(steps):
        value = tirx.Let(variable, bound, value)
    return value


def expand(values: Sequence[TirValue], leaf: Leaf, analyzer: Analyzer | None = None) -> Code:
    """Code for some expressions in which stages are computed where they are read.

    The analyzer knows the ranges of the variables; it finds equal indices.
    """
    return _Expansion(leaf, analyzer or Analyzer()).run(values)


def identity(tensor: te.Tensor) -> tuple[Object, int]:
    """A key of a tensor: tensors without axes cannot be compared."""
    return tensor.op, tensor.value_index


def _place(indices: Sequence[TirValue]) -> Any:
    """A key of an index; one that is read from a tensor is known by its object only."""
    try:
        return tvm_ffi.StructuralKey(indices)
    except TypeError:
        return tuple(indices)


def body_of(tensor: te.Tensor) -> TirValue:
    """The expression of an element; that of a reduction combines all its terms, of numbers."""
    body = tensor.op.body[tensor.value_index]
    if not isinstance(body, tirx.Reduce):
        return body
    (first, *others) = product(*(range(int(axis.dom.extent)) for axis in body.axis))
    combiner: Any = body.combiner
    (mine,), (other,), (combined,) = combiner.lhs, combiner.rhs, combiner.result
    floats = "float" in str(tensor.dtype)
    steps: list[tuple[Var, TirValue]] = []
    total = _term(body, first)
    for at in others:
        if floats:  # TVM writes integers out again
            held = _variable(tensor)
            steps.append((held, once(total)))
            total = held
        total = with_variables(combined, {mine: total, other: _term(body, at)})
    return _nest(steps, total)


def _term(reduction: tirx.Reduce, at: Sequence[int]) -> TirValue:
    numbers = [tirx.const(i, "int32") for i in at]
    by = zip((axis.var for axis in reduction.axis), numbers, strict=True)
    return with_variables(reduction.source[0], dict(by))


def inputs_first(tensors: Sequence[te.Tensor]) -> list[te.Tensor]:
    """The computed tensors that some depend on, themselves included, each after what it reads."""
    order: list[te.Tensor] = []
    seen: set[Any] = set()
    pending = [(tensor, False) for tensor in reversed(tensors)]
    while pending:
        tensor, done = pending.pop()
        if done:
            order.append(tensor)
        elif isinstance(tensor.op, te.ComputeOp) and identity(tensor) not in seen:
            seen.add(identity(tensor))
            pending.append((tensor, True))
            pending.extend((other, False) for other in reversed(tensor.op.input_tensors))
    return order


def loads_of(expression: TirValue) -> list[Call]:
    """The elements of tensors that an expression reads."""
    loads: list[Call] = []

    def visit(call: Call) -> None:
        if _name(call) == _LOAD:
            loads.append(call)

    tvm_ffi.structural_walk(expression, (Call, visit), order="pre")
    return loads


def _name(call: Call) -> str:
    return getattr(call.op, "name", "")


class _Expansion:
    """One run of `expand`."""

    def __init__(self, leaf: Leaf, analyzer: Analyzer):
        self.leaf = leaf
        self.analyzer = analyzer
        self.demands: dict[Any, dict[Any, _Demand]] = {}
        self.written: dict[Var, TirValue] = {}
        self.depths: dict[Var, int] = {}

    def run(self, values: Sequence[TirValue]) -> Code:
        """Visit the stages that values need, readers first, then write the code."""
        scope = _Scope()
        results = [self._rewrite(value, {}, scope) for value in values]
        read = [call.args[0] for value in values for call in loads_of(value)]
        for tensor in reversed(inputs_first(read)):
            for demand in self.demands.pop(identity(tensor), {}).values():
                self._compute(tensor, demand)
        steps = self._write(scope)
        return Code(steps, [self._substitute(value)[0] for value in results])

    def _compute(self, tensor: te.Tensor, demand: _Demand) -> None:
        """Compute an element in each scope that needs it, unless one around that does."""
        scopes = Counter(scope for scope, _ in demand.uses)
        owners = {s: next((o for o in s.enclosing() if o in scopes), s) for s in scopes}
        while any(owners[owner] is not owner for owner in owners.values()):
            owners = {scope: owners[owner] for scope, owner in owners.items()}
        variables = {owner: _variable(tensor) for owner in set(owners.values())}
        uses = Counter(owners[scope] for scope, _ in demand.uses)
        for scope, variable in demand.uses:
            self.written[variable] = variables[owners[scope]]
        for scope, variable in variables.items():
            axes = dict(zip((a.var for a in tensor.op.axis), demand.indices, strict=True))
            step = _Value(variable, uses[scope])
            scope.steps.append(step)
            step.value = self._rewrite(body_of(tensor), axes, scope)

    def _rewrite(self, value: TirValue, axes: dict[Var, TirValue], scope: _Scope) -> TirValue:
        """An expression whose axes are replaced, with variables for the elements it needs.

        A bound variable is replaced by a new one, as TVM binds none twice.
        """
        renamed = {**axes}

        def call(call: Call, mutator: Any) -> TirValue:
            if _name(call) == _LOAD:
                return self._load(call, axes, scope)
            if _name(call) == _CHOICE:
                return self._choose(call, axes, scope)
            return mutator.default_mutate(call)

        def let(bound: tirx.Let, mutator: Any) -> TirValue:
            own = Var(bound.var.name, bound.var.ty)
            renamed[bound.var] = own
            return tirx.Let(own, mutator.mutate(bound.value), mutator.mutate(bound.body))

        def rename(variable: Var, mutator: Any) -> TirValue:
            return renamed.get(variable, variable)

        rules = ((Call, call), (tirx.Let, let), (Var, rename))
        return tvm_ffi.structural_mutate(value, rules)

    def _load(self, call: Call, axes: dict[Var, TirValue], scope: _Scope) -> TirValue:
        tensor = call.args[0]
        indices = [self._index(index, axes) for index in call.args[1:]]
        known = self.leaf(tensor, indices)
        if known is not None:
            return known
        demands = self.demands.setdefault(identity(tensor), {})
        demand = demands.setdefault(_place(indices), _Demand(indices))
        variable = _variable(tensor)
        demand.uses.append((scope, variable))
        return variable

    def _index(self, index: TirValue, axes: dict[Var, TirValue]) -> TirValue:
        """An index after its axes are replaced, which stays one expression: regions need it.

        What it reads more than once is bound inside: a look-up reads its index three times, and
        a remainder its operand, so that an index of look-ups would grow exponentially.
        """

        def rename(variable: Var, mutator: Any) -> TirValue:
            return axes.get(variable, variable)

        if isinstance(index, Var):
            return axes.get(index, index)
        if isinstance(index, int):
            return tirx.const(index, "int32")
        index = tvm_ffi.structural_mutate(index, ((Var, rename),))
        if loads_of(index):
            return _Expansion(self.leaf, self.analyzer).run([index]).nested()
        return index if isinstance(index, Var | tirx.IntImm) else self.analyzer.simplify(index)

    def _choose(self, call: Call, axes: dict[Var, TirValue], scope: _Scope) -> TirValue:
        """A choice: elements that only one branch needs are computed there, as they may not be
        anywhere else."""
        choice = _Choice(Var("chosen", PrimType(str(call.ty.dtype))))
        scope.steps.append(choice)
        choice.condition = self._rewrite(call.args[0], axes, scope)
        for value in call.args[1:]:
            branch = _Scope(scope)
            choice.branches.append((branch, self._rewrite(value, axes, branch)))
        return choice.variable

    def _write(self, scope: _Scope) -> list[tuple[Var, TirValue]]:
        """The variables of a scope with their values, in order; those used once are inlined."""
        steps: list[tuple[Var, TirValue]] = []
        for step in reversed(scope.steps):
            once_only = isinstance(step, _Choice) or step.uses == 1
            value, depth = self._choice(step) if isinstance(step, _Choice) else self._value(step)
            if (once_only and depth < DEPTH) or _is_trivial(value):
                self.written[step.variable], self.depths[step.variable] = value, depth
            else:
                steps.append(self._bind(step.variable, value))
        return steps

    def _bind(self, variable: Var, value: TirValue) -> tuple[Var, TirValue]:
        """A binding of a type that TVM's passes take, from which the value's own is had again."""
        dtype = str(variable.ty.dtype)
        if dtype == "bfloat16":
            held = Var("value", PrimType("float32"))
            self.written[variable] = upper_half(held)
            return held, once(value.astype("float32"))
        if "int" not in dtype:
            return variable, once(value)
        bits = "64" if "64" in dtype else "32"
        held = Var("value", PrimType(f"float{bits}"))
        integer = dtype if bits in dtype else "int32"
        self.written[variable] = tirx.reinterpret(integer, held).astype(dtype)
        whole = once(value.astype(integer))
        return held, once(tirx.reinterpret(f"float{bits}", whole))

    def _value(self, step: _Value) -> tuple[TirValue, int]:
        value, depth = self._substitute(step.value)
        return value, depth + 1

    def _choice(self, step: _Choice) -> tuple[TirValue, int]:
        condition, depth = self._substitute(step.condition)
        values: list[TirValue] = []
        for scope, value in step.branches:
            steps = self._write(scope)
            value, inner = self._substitute(value)
            values.append(_nest(steps, value))
            depth = max(depth, inner)
        return tirx.if_then_else(condition, *values), depth + 1

    def _substitute(self, value: TirValue) -> tuple[TirValue, int]:
        """An expression without the variables of inlined values, and how deep these nest."""
        depth = 0

        def replace(variable: Var, mutator: Any) -> TirValue:
            nonlocal depth
            found = variable
            while found in self.written:
                depth = max(depth, self.depths.get(found, 0))
                found = self.written[found]
                if not isinstance(found, Var):
                    break
            return found

        return tvm_ffi.structural_mutate(value, ((Var, replace),)), depth


def _variable(tensor: te.Tensor) -> Var:
    return Var("value", PrimType(str(tensor.dtype)))


def _is_trivial(value: TirValue) -> bool:
    """Whether a value is a constant, a variable, or one element of memory."""
    read = isinstance(value, TensorLoad) or (isinstance(value, Call) and _name(value) == _LOAD)
    return read or isinstance(value, Var | tirx.IntImm | tirx.FloatImm)
