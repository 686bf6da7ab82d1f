"""Groups that no other template matches, by the schedule that fits every group."""

from collections.abc import Sequence

from compiler.kernels.cpu.generic import schedule_cpu
from compiler.kernels.group import Group
from compiler.kernels.sizes import hinted
from compiler.kernels.template import KernelSource, Template
from compiler.target.target import CpuTarget

BYTES_PER_NANOSECOND = 10.0
"""The bytes that a kernel moves in a nanosecond, about."""


class Generic(Template[int, bool, CpuTarget]):
    """Every group: the last template, which takes what no other one matches.

    The problem is the bytes that the kernel moves, a config whether stages are attached to rows.
    """

    name = "generic"

    def match(self, group: Group, target: CpuTarget) -> Sequence[int]:
        """One problem: the bytes of the group itself."""
        return [hinted(group).traffic_bytes]

    def configs(self, problem: int, target: CpuTarget) -> Sequence[bool]:
        """Attached stages; separate ones for rows that outgrow the stack."""
        return [True, False]

    def estimate_ns(self, problem: int, config: bool, target: CpuTarget) -> float:
        """The same for both: memory traffic."""
        return problem / BYTES_PER_NANOSECOND

    def emit(self, group: Group, problem: int, config: bool, target: CpuTarget) -> KernelSource:
        return schedule_cpu(group, target, attach=config)
