"""Groups that no other template matches, by TVM's generic schedule."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from compiler.kernels.gpu.generic import element_threads, items_of, schedule_gpu
from compiler.kernels.gpu.lower import split_device
from compiler.kernels.gpu.source import cuda_text
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, OneWay, Outlines
from compiler.kernels.tir.footprint import gpu_footprint, task_buffers
from compiler.net.operators import KINDS, Kind
from compiler.net.operators.elementwise import ONNX_DTYPES
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

# Reductions of bytes by integers of 32 bits.
#
# Threads share a reduction by shuffles, but TVM has none for elements of 8 bits. It reduces these
# in shared memory, and for the last 32 of them nothing waits between a lane's store and the load of
# another one: it takes for granted that the lanes of a warp go in step, which they need not do
# since Volta (CUDA C++ Programming Guide, independent thread scheduling).
NARROW_ELEMENTS = ("bool", "int8", "uint8")
REDUCED_AS = "int32"

_ELEMENT_TYPES = {dtype: number for number, dtype in ONNX_DTYPES.items()}


def with_wide_reductions(group: Group) -> Group:
    """The group with bytes widened before they are reduced, and the results narrowed again."""
    values, operators = list(group.values), list[Node]()

    def of_type(index: int, dtype: str) -> int:
        values.append(replace(values[index], dtype=dtype))
        return len(values) - 1

    def cast(source: int, to: int) -> None:
        attributes = {"to": _ELEMENT_TYPES[values[to].dtype]}
        operators.append(Node("Cast", attributes, (source,), (to,)))

    for op in group.operators:
        source = op.operand(0) if KINDS.get(op.type) is Kind.REDUCTION else None
        # Of no elements the result is the least number of the own type, not the narrowed wide one.
        narrow = source is not None and values[source].dtype in NARROW_ELEMENTS
        if source is None or not narrow or not values[source].elements:
            operators.append(op)
            continue
        wide = of_type(source, REDUCED_AS)
        cast(source, wide)
        inputs = (wide, *op.inputs[1:])
        (result,) = op.outputs
        if values[result].dtype not in NARROW_ELEMENTS:  # positions, of ArgMax
            operators.append(replace(op, inputs=inputs))
            continue
        reduced = of_type(result, REDUCED_AS)
        operators.append(replace(op, inputs=inputs, outputs=(reduced,)))
        cast(reduced, result)
    return replace(group, values=tuple(values), operators=tuple(operators))


REGISTERS = 32
"""Registers of a thread, about."""


class Generic(OneWay[None, GpuTarget], Outlines):
    """Every group: the last template, which takes what no other one matches."""

    name = "generic"

    def match(self, group: Group, target: GpuTarget) -> Sequence[None]:
        """One problem: the group itself."""
        return [None]

    def estimate_ns(self, problem: None, config: None, target: GpuTarget) -> float:
        """Unknown: no other template matches such a group."""
        return 0.0

    def emit(self, group: Group, problem: None, config: None, target: GpuTarget) -> KernelSource:
        """The kernel; raises KernelError if it would touch more than the group's tensors."""
        device = split_device(schedule_gpu(with_wide_reductions(group)), group.name, target)
        functions = {str(f.attrs["global_symbol"]): f for f in device.module.functions.values()}
        buffers = task_buffers(group, ("",) * group.inputs, device.scratch)
        return KernelSource(
            cuda_text(device.module, target),
            device.launches,
            device.scratch,
            footprint=gpu_footprint(functions, device.launches, buffers),
        )

    def launches(
        self, group: Group, problem: None, config: None, target: GpuTarget
    ) -> Sequence[Launch]:
        """One thread computes one or a few elements, as in most of these kernels."""
        elements = max(info.elements for info in group.writes)
        threads = element_threads(elements)
        grid = (max(1, ceil(elements / (threads * items_of(elements)))), 1, 1)
        return [Launch(group.name, (), grid, (threads, 1, 1), registers=REGISTERS)]
