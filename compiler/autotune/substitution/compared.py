"""The graphs that a compilation compares on a device, found without one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.substitution.measured import contenders
from compiler.autotune.substitution.model import SimulatedTimes
from compiler.choice.judges import estimated_timing
from compiler.graph.targets import set_target
from compiler.passes.base import CostContext
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from compiler.schedule.choices import Timing
from compiler.target.target import GpuTarget


@dataclass
class ContenderTimes(SimulatedTimes):
    """A cost model that keeps the candidates to measure, as groups, and lets none be taken."""

    found: list[ModuleOp] = field(default_factory=list[ModuleOp], init=False)

    def times(self, ways: Mapping[str, ModuleOp]) -> Mapping[str, Timing | str]:
        """The simulated time of the first graph; all become groups."""
        simulated = self.simulated(ways)
        self.found += [ways[name] for name in contenders(simulated)]
        baseline, *candidates = ways
        first = {baseline: estimated_timing(simulated[baseline])}
        return first | dict.fromkeys(candidates, "it is compared when it is compiled")


def compared_graphs(module: ModuleOp, target: GpuTarget) -> list[ModuleOp]:
    """A graph without substitutions, then its candidates that `compile` would measure on a target.

    All are as the graph passes leave them: the first in place.
    """
    set_target(module, str(target))
    model = ContenderTimes(target)
    Runner(context=CostContext(model)).run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    return [module, *model.found]
