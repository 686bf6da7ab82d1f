"""The times of substituted graphs by the simulator of the device."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from threading import Thread
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.substitution.costs import TermCosts
from compiler.autotune.substitution.kernels import KernelCosts
from compiler.choice.judges import UNCERTAINTY, estimated_timing
from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of
from compiler.ir.types import int64
from compiler.kernels.building import KernelCache
from compiler.passes.base.adapter import read_groups
from compiler.progress import in_parts
from compiler.rewrite.search.backtracking import Cost
from compiler.rewrite.search.cost_model import CostPolicy
from compiler.schedule.choices import ChoiceSource, Timing
from compiler.scheduling.inner_loops import compile_loops
from compiler.scheduling.placement import PlacementPolicy, place
from compiler.scheduling.search import ScheduleSearch
from compiler.scheduling.simulator import Simulator
from compiler.target.target import GpuTarget

SCHEDULES = (
    PlacementPolicy("critical-path", 4, order="source"),
    PlacementPolicy("critical-path", 8, order="source"),
    PlacementPolicy("opara", 8),
)
"""The schedules that a graph is simulated with; the fastest counts."""


@cache
def simulator_version() -> str:
    """A hash of the code that decides, but for what decides kernels."""
    package = Path(__file__).parents[2]
    rooms = ("scheduling", "autotune/substitution", "choice", "passes/graph", "ir")
    kinds = product(rooms, ("py", "ll"))
    files = [path for room, kind in kinds for path in package.glob(f"{room}/**/*.{kind}")]
    modules = ("base/adapter.py", "pipeline.py", "runner.py")
    files += [package / "passes" / name for name in modules]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()[:16]


@dataclass
class SimulatedTimes:
    """A cost model by estimates of kernels and the simulator; the same in every process."""

    target: GpuTarget
    cache: KernelCache | None = None
    source: ClassVar[ChoiceSource] = "model"
    kernels: KernelCosts = field(init=False)

    def __post_init__(self) -> None:
        self.kernels = KernelCosts(self.target)

    def cost(self, policy: CostPolicy, alpha: float, like: GraphOp) -> Cost:
        """The cost of graphs by a policy, in nanoseconds, as parts of a graph like one.

        The simulator, which judges what is found, is compiled meanwhile.
        """
        Thread(target=compile_loops).start()
        return TermCosts(like, self.kernels).cost(policy, alpha)

    def recall(self, question: str) -> str | None:
        """The text of the graph that a search with the same question decided on, if it is known."""
        if self.cache is None:
            return None
        return self.cache.load_text(self._asked(question), str(self.target))

    def remember(self, question: str, text: str) -> None:
        """Keep the text of the graph that a search decided on."""
        if self.cache is not None:
            self.cache.store_text(self._asked(question), str(self.target), text)

    def _asked(self, question: str) -> str:
        """A question with all else that its answer depends on."""
        return f"{self.judged_by} {question}"

    @property
    def judged_by(self) -> str:
        """The name of what decides: the simulator, in this version of its code."""
        return f"simulated {simulator_version()}"

    def times(self, ways: Mapping[str, ModuleOp]) -> Mapping[str, Timing | str]:
        """The simulated times of whole graphs, which become groups."""
        simulated = self.simulated(ways)
        return {name: estimated_timing(t, UNCERTAINTY) for name, t in simulated.items()}

    def simulated(self, modules: Mapping[str, ModuleOp]) -> dict[str, float]:
        """The simulated nanoseconds of whole graphs, which become groups."""
        graphs = in_parts("compare graphs", [*modules.items()])
        return {name: self.time(module) for name, module in graphs}

    def time(self, module: ModuleOp) -> float:
        """The simulated nanoseconds of a graph in the best of some schedules."""
        self.kernels.run(module)
        graph = graphs_of(module)[-1]
        demands = [self.kernels.demand(group) for group in graph.groups]
        for group, demand in zip(graph.groups, demands, strict=True):
            group.cost = int64(max(1, round(demand.time)))
        groups = read_groups(graph)
        judge = ScheduleSearch(groups, Simulator(demands, self.target.device))
        return min(judge.makespan(place(groups, policy)) for policy in SCHEDULES)
