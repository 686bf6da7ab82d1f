"""Recurrences: all steps in one kernel, the recurrent weights in registers."""

from collections.abc import Iterator, Sequence

from compiler.graph.fusion.recurrences import RecurrentConfig, kernel_us, recurrent_configs
from compiler.kernels.gpu.templates.recurrence.emit import recurrence_kernel
from compiler.kernels.gpu.templates.recurrence.problem import Problem, read_recurrence
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Key, Template
from compiler.target.target import GpuTarget


class PersistentRecurrence(Template[Problem, RecurrentConfig, GpuTarget]):
    """A group of one Recurrence: a cluster computes eight sequences of a direction.

    Sums have an order that depends on the sizes and the config only: the same bits every time.
    """

    name = "recurrence"
    sources = ("recurrence.cuh", "arrivals.cuh", "instructions.cuh")

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The recurrence that a group is."""
        problem = read_recurrence(group)
        return [problem] if problem and next(self.configs(problem, target), None) else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[RecurrentConfig]:
        """The configs whose weights fit the registers and shared memory of a cluster."""
        return recurrent_configs(problem.sizes, target)

    def estimate_ns(self, problem: Problem, config: RecurrentConfig, target: GpuTarget) -> float:
        """Loading the weights, and the exchange, the MMAs and the cells of each step."""
        return 1e3 * kernel_us(problem.sizes, config, target)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The sizes and the type of the weights; the times of steps are alike."""
        sizes = problem.sizes
        return {
            "cell": sizes.cell + (", resets first" if sizes.exchanges > 1 else ""),
            "steps": sizes.steps,
            "batch": sizes.batch,
            "hidden": sizes.hidden,
            "directions": sizes.directions,
            "dtype": problem.reads["weights"].dtype,
        }

    def emit(
        self, group: Group, problem: Problem, config: RecurrentConfig, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group."""
        return recurrence_kernel(group, problem, config, target)
