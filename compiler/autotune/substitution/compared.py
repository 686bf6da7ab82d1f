"""The graphs that a compilation compares on a device, found without one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.substitution.measured import contenders
from compiler.autotune.substitution.model import SimulatedTimes
from compiler.graph.targets import set_target
from compiler.passes.base import CostContext
from compiler.pipeline import DEFAULT_PIPELINE, Runner, parse, split_phases
from compiler.target.target import GpuTarget


@dataclass
class ContenderTimes(SimulatedTimes):
    """A cost model that keeps the candidates to measure, as groups, and lets none be taken."""

    margin: float = 1.0
    found: list[ModuleOp] = field(default_factory=list[ModuleOp], init=False)

    def times(self, modules: Sequence[ModuleOp]) -> Sequence[float]:
        """The simulated nanoseconds of whole graphs, which become groups."""
        simulated = SimulatedTimes.times(self, modules)
        self.found += [modules[number] for number in contenders(simulated)]
        return simulated


def compared_graphs(module: ModuleOp, target: GpuTarget) -> list[ModuleOp]:
    """A graph without substitutions, then its candidates that `compile` would measure on a target.

    All are as the graph passes leave them: the first in place.
    """
    set_target(module, str(target))
    model = ContenderTimes(target)
    Runner(context=CostContext(model)).run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    return [module, *model.found]
