"""Groups that no other template matches, by TVM's generic schedule."""

from collections.abc import Sequence
from math import ceil

from compiler.errors import KernelError
from compiler.kernels.gpu.generic import element_threads, items_of, schedule_gpu
from compiler.kernels.gpu.lower import split_device
from compiler.kernels.gpu.source import cuda_text
from compiler.kernels.gpu.wide_reductions import with_wide_reductions
from compiler.kernels.group import Group
from compiler.kernels.sizes import hinted
from compiler.kernels.template import KernelSource, OneWay, Outlines
from compiler.kernels.tir.footprint import gpu_footprint, task_buffers
from compiler.kernels.tir.sized_launches import SizesOperand
from compiler.net.operators import KINDS, RECURRENCE, Kind
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.extents import NotForAllSizes

REGISTERS = 32
"""Registers of a thread, about."""


class Generic(OneWay[None, GpuTarget], Outlines):
    """Every group: the last template, which takes what no other one matches."""

    name = "generic"

    def match(self, group: Group, target: GpuTarget) -> Sequence[None]:
        """One problem: the group itself.

        Raises NotForAllSizes for a contraction with symbols: loops of threads would take too long.
        """
        if group.symbols:
            for op in group.operators:
                if KINDS.get(op.type) is Kind.CONTRACTION:
                    raise NotForAllSizes(
                        f"no symbolic kernel: {op.label} has other sizes than rows"
                    )
        return [None]

    def estimate_ns(self, problem: None, config: None, target: GpuTarget) -> float:
        """Unknown: no other template matches such a group."""
        return 0.0

    def emit(self, group: Group, problem: None, config: None, target: GpuTarget) -> KernelSource:
        """The kernel; raises KernelError if it would touch more than the group's tensors.

        So it does for a recurrence, whose steps one thread would take.
        """
        if (recurrence := group.only(RECURRENCE)) is not None:
            raise KernelError(
                f"no kernel for {recurrence.label}: GPUs have kernels of all its steps together for"
                " some sizes: import the model for the target, which unrolls others"
            )
        symbols = group.symbols
        sizes = SizesOperand(group.inputs, symbols) if symbols else None
        device = split_device(schedule_gpu(with_wide_reductions(group)), group.name, target, sizes)
        functions = {str(f.attrs["global_symbol"]): f for f in device.module.functions.values()}
        buffers = task_buffers(group, ("",) * group.inputs, device.scratch)
        return KernelSource(
            cuda_text(device.module, target),
            device.launches,
            device.scratch,
            footprint=gpu_footprint(functions, device.launches, buffers, symbols),
        )

    def launches(
        self, group: Group, problem: None, config: None, target: GpuTarget
    ) -> Sequence[Launch]:
        """One thread computes one or a few elements, as in most of these kernels."""
        elements = max(info.elements for info in hinted(group).writes)
        threads = element_threads(elements)
        grid = (max(1, ceil(elements / (threads * items_of(elements)))), 1, 1)
        return [Launch(group.name, (), grid, (threads, 1, 1), registers=REGISTERS)]
