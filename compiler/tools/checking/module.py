"""A module that compares what each task computes with the interpreter, while it runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from compiler.artifact.module import Module, without_checks
from compiler.backends.cpu.inputs import prepare_inputs
from compiler.backends.memory import Array
from compiler.errors import ArgumentError, DifferenceError
from compiler.ir import dataflow
from compiler.net.operators import KINDS
from compiler.net.spec import Kind
from compiler.schedule.tasks import Task
from compiler.support.arguments import inputs_by_name
from compiler.target.target import parse_target
from compiler.tools.checking.groups import (
    GroupStore,
    as_double,
    comparable,
    evaluated_group,
    narrowest,
    operator_names,
    row_major,
)
from compiler.tools.checking.tasks import HostMemory, TaskRunner
from compiler.tools.comparison import EXPLAINED, Comparison, Difference, compare
from compiler.tools.rounding import rounded


@dataclass(frozen=True)
class TaskCheck:
    """One task against the interpreter: its kernel, operators and nodes, and each result's error.

    `comparison` is None for an If or a Loop whose operators are not known.
    """

    task: int
    kernel: str
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    comparison: Comparison | None

    @property
    def passed(self) -> bool:
        """Whether nothing that was compared differs."""
        return self.comparison is None or self.comparison.passed

    @property
    def worst(self) -> Difference:
        """The first result that is beyond its bound."""
        assert self.comparison is not None
        return next(
            difference for difference in self.comparison.differences if not difference.passed
        )

    def __str__(self) -> str:
        nodes = f", nodes {', '.join(self.nodes)}" if self.nodes else ""
        return f"task {self.task}, kernel '{self.kernel}' ({', '.join(self.operators)}{nodes})"


@dataclass(frozen=True)
class CheckedRun:
    """The outputs of a run of tasks in launch order, and the check of each task."""

    outputs: dict[str, Array]
    checks: tuple[TaskCheck, ...]


class CheckedModule(Module):
    """A module whose runs launch one task at a time and compare it; made by `compile(check=True)`.

    A saved one is an ordinary artifact.
    """

    groups: GroupStore

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """Run once, one task after another, as `Module.run` does.

        Raises DifferenceError at the first task whose results are not what the interpreter makes
        of the tensors that the task reads.
        """
        inputs = inputs_by_name(inputs)
        if options:
            raise ArgumentError(f"a run with check=True takes no options, such as {[*options]}")
        runner = _CheckingRunner.of(self, inputs)
        for check in runner.checks():
            if not check.passed:
                raise DifferenceError(
                    f"{check} computes something other than the interpreter: {check.worst}"
                )
        return without_checks(runner.memory.outputs())

    def check_tasks(self, inputs: Mapping[str, Any]) -> CheckedRun:
        """Run every task, also after one that differs."""
        runner = _CheckingRunner.of(self, inputs)
        checks = tuple(runner.checks())
        return CheckedRun(without_checks(runner.memory.outputs()), checks)

    def __getstate__(self) -> NoReturn:
        """Refuse: the groups that are compared with are not plain data."""
        raise ArgumentError(
            "a module with check=True cannot be copied or pickled: compile without check for that"
        )


@dataclass(frozen=True)
class _CheckingRunner:
    """One run of a checked module."""

    module: CheckedModule
    runner: TaskRunner
    memory: HostMemory
    precision: str = field(default="fp32")

    @classmethod
    def of(cls, module: CheckedModule, inputs: Mapping[str, Any]) -> "_CheckingRunner":
        schedule = module.schedule
        target = parse_target(module.target)
        inputs_given = schedule.of_kind("input")
        arrays = prepare_inputs(schedule.allocations, inputs)
        named = {a.name: array for a, array in zip(inputs_given, arrays, strict=True)}
        runner = TaskRunner(
            module.target, schedule, module.kernels, module.weights, _load_options(module)
        )
        return cls(module, runner, HostMemory(schedule, named, module.weights), target.precision)

    def checks(self) -> Iterator[TaskCheck]:
        """Run each task, in launch order, and compare its results."""
        for index, task in enumerate(self.module.schedule.tasks):
            yield self._check(index, task)

    def _check(self, index: int, task: Task) -> TaskCheck:
        group = self.module.groups.group_of(task)
        if group is None:
            self.runner.run(task, self._results(task), self.memory)
            return TaskCheck(index, task.kernel, (task.kernel,), task.nodes, None)
        operands = self._operands(task, group)
        results = self.runner.run(task, len(group.outputs), self.memory)
        types = [value.type for value in group.outputs]
        actual = [row_major(array, type) for array, type in zip(results, types, strict=True)]
        compared = compare_group(group, operands, actual, self.module.groups, self.precision)
        return TaskCheck(index, task.kernel, operator_names(group), task.nodes, compared)

    def _results(self, task: Task) -> int:
        spec = self.module.kernels.get(task.kernel)
        return len(spec.writes) if spec is not None and spec.writes else len(task.writes)

    def _operands(self, task: Task, group: dataflow.GroupOp) -> list[Array]:
        """The tensors that a task reads, row-major and as the model has them."""
        spec = self.module.kernels.get(task.kernel)
        packings = spec.packings if spec is not None and group.kernel is not None else ()
        operands: list[Array] = []
        for index, (view, value) in enumerate(zip(task.reads, group.inputs, strict=False)):
            if index < len(packings) and packings[index]:
                name = self.module.schedule.allocations[view.allocation].name
                operands.append(self.module.groups.weight(name, group, index))
            else:
                operands.append(row_major(self.memory.read(view), value.type))
        return operands


def _load_options(module: CheckedModule) -> dict[str, Any]:
    """The options of the backend: poison shows what a kernel of a GPU leaves unwritten."""
    match parse_target(module.target).backend:
        case "cpu":
            return {"threads": module.threads}
        case "cuda":
            return {"poison": True}
        case _:
            return {}


def compare_group(
    group: dataflow.GroupOp,
    operands: Sequence[Array],
    actual: Sequence[Array],
    store: GroupStore,
    precision: str,
) -> Comparison:
    """A kernel's results against those of the interpreter on the same operands.

    The bound is the precision's for a contraction, else that of the types in memory. A result
    beyond its bound passes where the interpreter's in the model's types is the same, or where
    rounding the operands to the precision changes the result as much.
    """
    bound = _precision_of(group, precision)
    actual = comparable(group, actual)
    exact = comparable(group, evaluated_group(group, operands, store.weights))
    comparison = _compared(actual, exact, bound)
    if comparison.passed:
        return comparison
    stored = evaluated_group(group, operands, store.weights, precise=False)
    if _compared(actual, comparable(group, stored)).passed:
        return Comparison(())
    moved = evaluated_group(group, [rounded(o, bound) for o in operands], store.weights)
    moved = comparable(group, moved)
    effects = _compared(moved, exact, bound)
    pairs = zip(comparison.differences, effects.differences, strict=True)
    return Comparison(
        tuple(difference for difference, effect in pairs if not _explained(difference, effect))
    )


def _precision_of(group: dataflow.GroupOp, precision: str) -> str:
    contracts = any(KINDS.get(op.type_name) == Kind.CONTRACTION for op in group.operators)
    controls = group.control is not None
    return precision if contracts or controls else narrowest(group)


def _compared(actual: Sequence[Array], exact: Sequence[Array], bound: str = "fp32") -> Comparison:
    names = [f"result {index}" for index in range(len(exact))]
    got = {name: as_double(np.asarray(a)) for name, a in zip(names, actual, strict=True)}
    return compare(got, {n: as_double(e) for n, e in zip(names, exact, strict=True)}, bound)


def _explained(difference: Difference, effect: Difference) -> bool:
    """Whether rounding the operands has an effect of the same size on a result."""
    if difference.passed or difference.problem:
        return difference.passed or bool(effect.problem)
    return not effect.problem and difference.relative <= EXPLAINED * effect.relative
