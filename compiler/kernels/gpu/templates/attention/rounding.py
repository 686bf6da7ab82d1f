"""Functions of an attention's weights and results, one by one, as where these are quantised."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tvm.ir import PrimType, Var
from tvm.tirx import FloatImm, Mul

from compiler.graph.attention import Attention
from compiler.kernels.gpu.epilogue import StoreFunction, value_function
from compiler.kernels.gpu.structs import value_struct
from compiler.kernels.group import Group, Node
from compiler.kernels.tir.fusion import FusionContext
from compiler.net.operators import facts_of
from compiler.target.target import GpuTarget

MOST_FLOAT16 = 65504.0
"""The largest weight before its factor, so that none overflows in 16 bits."""

SHIFTS = ("Add", "Sub", "Cast", "Round")
"""Operators that may follow a Clip to integers: zero points, types, and the rounding itself."""


@dataclass(frozen=True)
class Rounding:
    """The CUDA text of both functions, and a member of a problem that calls the first.

    Weights are multiplied without their `factor`, so that integers are exact in 16 bits. The
    function of results may read buffers; it is None where results are stored as they are.
    """

    text: str
    member: str
    factor: float
    finished: StoreFunction | None


VALUE = Var("value", PrimType("float32"))
"""The float that the functions take."""


def of_type(value: Any, context: FusionContext) -> Any:
    """A float as an element of a group's anchor."""
    return value if context.dtype == "float32" else value.astype(context.dtype)


def as_float(element: Any, dtype: str) -> Any:
    """An element of a type as a float."""
    return element if dtype == "float32" else element.astype("float32")


def rounding_of(group: Group, attention: Attention, target: GpuTarget) -> Rounding:
    """The functions of an attention's weights and results."""
    softmax, second = (group.operators[i].output for i in (attention.softmax, attention.second))
    weights = _Chain(group, softmax, attention.weights)
    weight, factor = _factored(group, attention, weights.element())
    results = _Chain(group, second, attention.results)
    rounded = _function("rounded", weights, weight, target)
    finished = _function("finished", results, results.element(), target)
    texts = [
        f"{function.text}\n{value_struct(name, function, 'float value')}"
        for name, function in (("Rounded", rounded), ("Finished", finished))
        if function is not None
    ]
    value = "x" if rounded is None else "Rounded{}(x)"
    member = f"  __device__ static __forceinline__ float rounded(float x) {{ return {value}; }}"
    return Rounding("\n".join(texts), member, factor, finished)


@dataclass(frozen=True)
class _Chain:
    """Operators on each element of a value alone, given in order."""

    group: Group
    value: int
    operators: Sequence[int]

    def element(self) -> Any:
        """Their result for `VALUE`, as a float; a last Cast is the store's."""
        context = self.context
        element = context.result(of_type(VALUE, context), [0] * context.rank)
        return as_float(element, str(context.results[0].dtype))

    @cached_property
    def context(self) -> FusionContext:
        """The operators as a group around the value, all of one shape."""
        last = self.value
        anchor = Node("Identity", {}, (), (self.value,))
        values, chain = [*self.group.values], [anchor]
        for operator in self._kept():
            inputs = tuple(
                last
                if v is not None and v >= self.group.inputs and v not in self.group.constants
                else v
                for v in operator.inputs
            )
            chain.append(replace(operator, inputs=inputs))
            last = operator.output
            values[last] = replace(values[last], shape=values[self.value].shape, block=0)
        around = replace(self.group, values=(*values,), operators=(*chain,), outputs=(last,))
        return FusionContext(around, anchor)

    def _kept(self) -> list[Node[int]]:
        kept = [self.group.operators[i] for i in self.operators]
        while kept and facts_of(kept[-1].type).converts:
            kept.pop()
        return kept


def _factored(group: Group, attention: Attention, element: Any) -> tuple[Any, float]:
    """A weight without its last factor, and that; 1 where it could overflow without."""
    if isinstance(element, Mul) and isinstance(element.b, FloatImm):
        before = [group.operators[i] for i in attention.weights[:-1]]
        if _bound(group, before) <= MOST_FLOAT16:
            return element.a, float(element.b.value)
    return element, 1.0


def _bound(group: Group, operators: Sequence[Node[int]]) -> float:
    """A bound of what ends in a Clip and shifts of it; infinity for anything else."""
    total = 0.0
    for operator in reversed(operators):
        constants = [group.constants.get(-1 if v is None else v) for v in operator.inputs]
        known = [float(abs(c.reshape(-1)[0])) for c in constants if c is not None]
        if facts_of(operator.type).clips and len(known) == 2:
            return total + max(known)
        if operator.type not in SHIFTS:
            break
        total += sum(known)
    return float("inf")


def _function(name: str, chain: _Chain, element: Any, target: GpuTarget) -> StoreFunction | None:
    """The function that computes an element of a float; None without operators."""
    if not chain.operators:
        return None
    return value_function(f"{chain.group.name}_{name}", chain.context, element, [VALUE], target)
