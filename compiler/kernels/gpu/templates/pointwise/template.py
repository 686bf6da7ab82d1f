"""Elementwise operators with several results in one loop: a thread computes one element of each.

Shared intermediate values are computed once and stay in registers, so that the text grows linearly
with the number of operators, and the results do not need separate kernels.
"""

from collections.abc import Sequence
from math import prod

from compiler.ir.operators import KINDS, Kind
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.gpu.epilogue import StoreFunction, device_function
from compiler.kernels.gpu.generic import ELEMENT_THREADS
from compiler.kernels.gpu.template import Template
from compiler.kernels.group import Group
from compiler.kernels.ops.lowering import unflatten_index
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.schedule import Launch
from compiler.target.target import GpuTarget

MANY = 32
"""From this many operators on, even one result is better not written as one expression."""

HALVES = ("float16", "bfloat16")

Shape = tuple[int, ...]


class Pointwise(Template[Shape, None]):
    """A group of elementwise operators whose results have one shape: the problem."""

    name = "pointwise"

    def match(self, group: Group, target: GpuTarget) -> Sequence[Shape]:
        """The shape of all results; one result of few operators is left to the generic schedule."""
        shape = group.writes[0].shape
        single = len(group.writes) == 1 and len(group.operators) <= MANY
        same = {info.shape for info in group.writes} == {shape}
        return [shape] if same and not single and _is_pointwise(group) else []

    def configs(self, problem: Shape, target: GpuTarget) -> Sequence[None]:
        """One config: there is nothing to choose."""
        return [None]

    def estimate_us(self, problem: Shape, config: None, target: GpuTarget) -> float:
        """Unknown: no other template matches such a group."""
        return 0.0

    def emit(self, group: Group, problem: Shape, config: None, target: GpuTarget) -> CudaKernel:
        """The kernel of all results."""
        context, element = FusionContext(group, None), variable("element")
        statement = context.store(None, unflatten_index(element, problem))
        name = f"{group.name}_element"
        function = device_function(name, context, statement, [element], target)
        return _kernel(group, function, prod(problem))


def _is_pointwise(group: Group) -> bool:
    """Whether each operator is elementwise, with one result, and computes in 32 bits or more."""
    for op in group.operators:
        used = [group.values[i].dtype for i in (*op.inputs, *op.outputs) if i is not None]
        narrow = op.type != "Cast" and not set(HALVES).isdisjoint(used)
        if KINDS[op.type] not in (Kind.ELEMENTWISE, Kind.VIEW) or len(op.outputs) > 1 or narrow:
            return False
    return True


def _kernel(group: Group, function: StoreFunction, elements: int) -> CudaKernel:
    name, threads = f"{group.name}_0", min(ELEMENT_THREADS, ceil_div(elements, 32) * 32)
    names = [f"buffer{i}" for i in range(len(function.types))]
    parameters = [f"{t}* {n}" for t, n in zip(function.types, names, strict=True)]
    text = (
        f'{function.text}\nextern "C" __global__ void __launch_bounds__({threads})'
        f" {name}({', '.join(parameters)}) {{\n"
        f"  const int element = blockIdx.x * {threads} + threadIdx.x;\n"
        f"  if (element < {elements}) {function.name}({', '.join([*names, 'element'])});\n}}\n"
    )
    grid = (ceil_div(elements, threads), 1, 1)
    launch = Launch(name, function.arguments, grid, (threads, 1, 1))
    return CudaKernel(text, (launch,), flops=group.operations)
