"""Operators of single elements with several results in one loop: a thread computes the same element
of each that has so many.

Shared intermediate values are computed once and stay in registers, so that the text grows linearly
with the number of operators, and the results do not need separate kernels.
"""

from collections.abc import Collection, Sequence
from math import prod

from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import StoreFunction, device_function
from compiler.kernels.gpu.generic import element_threads, items_of
from compiler.kernels.gpu.untyped import tirx
from compiler.kernels.group import Group, Node
from compiler.kernels.template import Folds, KernelSource, OneWay
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import sequence, variable
from compiler.net.operators import KINDS, Kind, facts_of
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.row_major import unflatten_index

MANY = 32
"""From this many operators on, even one result is better not written as one expression."""

HALVES = ("float16", "bfloat16")


class Pointwise(OneWay[int, GpuTarget], Folds):
    """A group of elementwise operators; the problem is the most elements of a result.

    With several results, elements may also come from elsewhere, as those of the parts of a Split.
    """

    name = "pointwise"
    folds_ranges = True

    def match(self, group: Group, target: GpuTarget) -> Sequence[int]:
        """The most elements of a result; one of few operators is left to the generic schedule."""
        single = len(group.writes) == 1 and len(group.operators) <= MANY
        counts = {prod(info.shape) for info in group.writes}
        plain = not any(info.block for info in group.writes)
        same = plain or len({info.shape for info in group.writes}) == 1
        matches = same and all(counts) and not single and _is_pointwise(group, _kinds(group))
        return [max(counts)] if matches else []

    def estimate_ns(self, problem: int, config: None, target: GpuTarget) -> float:
        """Unknown: no other template matches such a group."""
        return 0.0

    def emit(self, group: Group, problem: int, config: None, target: GpuTarget) -> KernelSource:
        """The kernel of all results."""
        context = FusionContext(group, None)
        element = variable("element")
        statements: list[Stmt] = []
        for count in dict.fromkeys(prod(info.shape) for info in group.writes):
            places = [
                unflatten_index(element, info.shape) if prod(info.shape) == count else None
                for info in group.writes
            ]
            stored = context.store_each(None, places)
            few = tirx.IfThenElse(element < count, stored, None)
            statements.append(stored if count == problem else few)
        name = f"{group.name}_element"
        function = device_function(name, context, sequence(statements), [element], target)
        return _kernel(group, function, problem)


def _kinds(group: Group) -> tuple[Kind, ...]:
    """The kinds of operators that are taken."""
    injective = len(group.writes) > 1 and not any(map(_is_tiled, group.operators))
    return (Kind.ELEMENTWISE, Kind.VIEW, *[Kind.INJECTIVE] * injective)


def _is_tiled(operator: Node[int]) -> bool:
    """Whether the last axis is another one before: the generic schedule has tiles for that."""
    if not facts_of(operator.type).permutes:
        return False
    order: list[int] = operator.attributes["perm"]
    return not order or order[-1] != len(order) - 1


def _is_pointwise(group: Group, kinds: Collection[Kind]) -> bool:
    """Whether each operator is of a kind, and computes in 32 bits or more."""
    for op in group.operators:
        used = [group.values[i].dtype for i in (*op.inputs, *op.outputs) if i is not None]
        narrow = not facts_of(op.type).converts and not set(HALVES).isdisjoint(used)
        if KINDS[op.type] not in kinds or narrow:
            return False
    return True


def _kernel(group: Group, function: StoreFunction, elements: int) -> KernelSource:
    name = f"{group.name}_0"
    threads = element_threads(elements)
    items = items_of(elements)
    passed = ", ".join([*function.names, "element"])
    declared = (f"{own.type} {own.name}" for own in function.parameters)
    text = (
        f'{function.text}\nextern "C" __global__ void __launch_bounds__({threads})'
        f" {name}({', '.join(declared)}) {{\n#pragma unroll\n"
        f"  for (int item = 0; item < {items}; item++) {{\n"
        f"    const int element = (blockIdx.x * {items} + item) * {threads} + threadIdx.x;\n"
        f"    if (element < {elements}) {function.name}({passed});\n"
        "  }\n}\n"
    )
    grid = (ceil_div(elements, threads * items), 1, 1)
    launch = Launch(name, function.arguments, grid, (threads, 1, 1))
    return KernelSource(text, (launch,), flops=group.operations)
