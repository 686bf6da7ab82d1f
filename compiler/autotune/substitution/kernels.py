"""The kernels that the rest of the pipeline would make, and what each asks of the device."""

from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from compiler.graph.cost import work_of
from compiler.ir.dataflow import GroupOp
from compiler.ir.edit import graphs_of
from compiler.kernels.group import extract_group
from compiler.passes.pipeline import default_pipeline, parse, split_phases
from compiler.passes.runner import Runner
from compiler.scheduling.kernel_time import estimated_time, task_demand
from compiler.scheduling.simulator import TaskDemand
from compiler.target.target import GpuTarget, parse_gpu, parse_target

NO_DEMAND = TaskDemand(0.0, 0, launches=0)
"""The demand of an operator without a kernel."""


class KernelCosts:
    """The demand of each group's kernel on a target, estimated once for each distinct one."""

    def __init__(self, target: GpuTarget):
        self.target = target
        passes, _ = split_phases(parse(default_pipeline()))
        names = [step.name for step in passes]
        self._passes = passes[names.index("substitute") + 1 :]
        self._known: dict[str, TaskDemand] = {}

    def run(self, module: ModuleOp) -> None:
        """Run the graph passes that follow the substitution."""
        Runner(verified=False).run(module, self._passes)

    def demand(self, group: GroupOp) -> TaskDemand:
        """The demand of the kernel of a group."""
        assert group.kernel is not None
        name = group.kernel.data
        if name not in self._known:
            from compiler.kernels.building.estimate import estimated

            device = self.target.device
            estimate = estimated(extract_group(group), self.target)
            work = work_of(group)
            kernel = replace(estimate, flops=work.flops, traffic_bytes=work.nbytes)
            self._known[name] = task_demand(kernel, estimated_time(kernel, device), device)
        return self._known[name]

    def marked(self, module: ModuleOp, node: str) -> TaskDemand:
        """The demand of the kernels that compute the operators of an ONNX node, one by one."""
        self.run(module)
        graph = graphs_of(module)[-1]
        demands = [
            self.demand(group)
            for group in graph.groups
            if any(op.node_name == node for op in group.operators)
        ]
        longest = max(demands, key=lambda demand: demand.time, default=NO_DEMAND)
        return replace(longest, time=sum(demand.time for demand in demands))


def predicted(module: ModuleOp, target: str) -> float:
    """Nanoseconds of a module's kernels one after another, measured before or estimated by their
    templates; 0 for targets without such estimates. What an If or a Loop runs counts once.

    The model of schedules, which knows nothing of precisions, cannot compare these.
    """
    if not parse_target(target).searches_schedules:
        return 0.0
    costs = KernelCosts(parse_gpu(target))
    groups = (group for graph in graphs_of(module) for group in graph.groups)
    return sum(costs.demand(group).time for group in groups if group.kernel is not None)
