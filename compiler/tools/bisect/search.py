"""The search for what makes outputs wrong: import, passes, kernels, then the schedule."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from xdsl.dialects.builtin import ModuleOp

import compiler
from compiler.backends.memory import Array
from compiler.errors import ScheduleError
from compiler.frontend.interpreter import interpret
from compiler.ir import dataflow
from compiler.ir.groups import graph_of
from compiler.ir.types import dtype_of, shape_of
from compiler.passes.runner import Snapshot, watching
from compiler.schedule.tasks import IN_RANGE, Allocation
from compiler.support.words import counted
from compiler.target.target import parse_target
from compiler.tensors.dtypes import FLOAT8, numpy_dtype
from compiler.tools.bisect.finding import Finding
from compiler.tools.bisect.waits import ScheduleRuns, missing_wait
from compiler.tools.checking.groups import as_double
from compiler.tools.checking.module import CheckedModule, CheckedRun
from compiler.tools.comparison import Comparison, compare
from compiler.tools.inputs import random_arrays
from compiler.tools.reference import Refusal, run_onnxruntime
from compiler.tools.tolerance import TOLERANCES
from compiler.verify.happens_before import check_schedule
from compiler.verify.structure import describe_task

NARROW_REFERENCES = {"float16": "fp16", "bfloat16": "bf16", **dict.fromkeys(FLOAT8, "bf16")}
"""The precision of a reference whose floats have 16 bits or less."""


@dataclass
class StepRecorder:
    """Keeps a copy of the IR after each step until tensors become memory; one list a build."""

    builds: list[list[Snapshot]] = field(default_factory=list[list[Snapshot]])

    def watch(self, snapshot: Snapshot) -> None:
        """Keep a copy of the IR after a step."""
        if snapshot.name == "import":
            self.builds.append([])
        if any(isinstance(op, dataflow.GraphOp) for op in snapshot.module.ops):
            self.builds[-1].append(replace(snapshot, module=snapshot.module.clone()))

    def steps(self, kernels: Mapping[str, object]) -> list[Snapshot]:
        """The steps of the build that made some kernels; else those of the last one."""
        for steps in self.builds:
            built = [step for step in steps if step.name == "kernels"]
            if built and kernels.keys() <= _kernels_of(built[0]):
                return steps
        return self.builds[-1] if self.builds else []


def _kernels_of(step: Snapshot) -> set[str]:
    groups = (op for op in step.module.walk() if isinstance(op, dataflow.GroupOp))
    return {group.kernel.data for group in groups if group.kernel is not None}


def difference_after(
    step: Snapshot, inputs: Mapping[str, Array], expected: Mapping[str, Array]
) -> Comparison:
    """The outputs of a step's IR in float64 against the reference's."""
    outputs = interpret(step.module, step.weights, inputs, precise=True)
    return compare_doubles(outputs, expected)


def compare_doubles(
    outputs: Mapping[str, Array], expected: Mapping[str, Array], precision: str = "fp32"
) -> Comparison:
    """Compare by values, whatever the float types, in a precision or that of the reference."""
    types = {array.dtype.name for array in expected.values()}
    narrow = [NARROW_REFERENCES[name] for name in types if name in NARROW_REFERENCES]
    chosen = max(precision, *narrow, key=TOLERANCES.__getitem__) if narrow else precision
    got = {n: _as_reference(outputs[n], e) for n, e in expected.items() if n in outputs}
    return compare(got, {name: as_double(array) for name, array in expected.items()}, chosen)


def _as_reference(output: Array, reference: Array) -> Array:
    """The doubles of an output, rounded to float8 where the reference is: that leaves few bits."""
    narrow = reference.dtype.name in FLOAT8
    return as_double(output.astype(reference.dtype) if narrow else output)


def first_wrong_step(
    steps: list[Snapshot], inputs: Mapping[str, Array], expected: Mapping[str, Array]
) -> tuple[Snapshot, Comparison] | None:
    """The first step whose IR differs from the reference, by bisection; None if the last agrees.

    A step is taken to stay wrong after the pass that broke it.
    """
    if not steps or (last := difference_after(steps[-1], inputs, expected)).passed:
        return None
    low = 0
    high = len(steps) - 1
    difference = last
    while low < high:
        middle = (low + high) // 2
        compared = difference_after(steps[middle], inputs, expected)
        if compared.passed:
            low = middle + 1
        else:
            high, difference = middle, compared
    return steps[high], difference


def worst_of(comparison: Comparison) -> str:
    """The first output that is beyond its bound, in words."""
    return str(next(difference for difference in comparison.differences if not difference.passed))


ReferenceName = Literal["onnxruntime", "interpreter"]

ReportLine = Callable[[str], None]
"""Takes each line of the story."""

INVALID = re.compile(r"the schedule is invalid after pass '([^']*)': (.*)", re.DOTALL)
"""The verifier's error; the pass and what is wrong."""

PAIR = re.compile(r"make task (\d+) wait for task (\d+)")
"""The pair of tasks in the error of a race, the later one first."""


@dataclass(frozen=True)
class Question:
    """A model, its inputs (None for random ones) and how it is compiled."""

    model: Any
    inputs: Mapping[str, Array] | None
    arguments: Mapping[str, Any]
    reference: ReferenceName = "onnxruntime"
    seed: int = 0
    runs: int = 8


@dataclass(frozen=True)
class Answer:
    """The finding of a search, the inputs that it used, and the IR after each step."""

    finding: Finding | None
    inputs: Mapping[str, Array]
    steps: list[Snapshot]
    target: str = ""


def _silent(line: str) -> None:
    del line


def search_cause(question: Question, report: ReportLine = _silent) -> Answer:
    """Find what makes a model's outputs wrong; `report` gets a line for each part of the search.

    Raises what `compiler.compile` does, but for a schedule with a race, which is a finding, and
    Refusal if onnxruntime cannot run the model.
    """
    recorder = StepRecorder()
    arguments: dict[str, Any] = {**question.arguments, "check": True, "dynamic": False}
    with watching(recorder.watch):
        try:
            made = cast(CheckedModule, compiler.compile(question.model, **arguments))
        except ScheduleError as error:
            made = invalid_schedule(str(error))
            if made is None:
                raise
    steps = recorder.steps({} if isinstance(made, Finding) else made.kernels)
    inputs = question.inputs or inputs_of(steps[0].module, question.seed)
    target = arguments["target"] if isinstance(made, Finding) else made.target
    return Answer(_judged(question, steps, inputs, made, report), inputs, steps, target)


def _judged(
    question: Question,
    steps: list[Snapshot],
    inputs: Mapping[str, Array],
    made: CheckedModule | Finding,
    report: ReportLine,
) -> Finding | None:
    expected = reference_outputs(question, steps[0], inputs)
    passes = [step.name for step in steps if step.name not in ("import", "kernels")]
    if (wrong := first_wrong_step(steps, inputs, expected)) is not None:
        step, comparison = wrong
        cause = "import" if step.name == "import" else "pass"
        report(f"passes    the IR differs after '{step.name}': {worst_of(comparison)}")
        # The types of a step's operators, in order; none if there are more than a reader takes
        # in.
        types = [op.type_name for op in step.module.walk() if isinstance(op, dataflow.OperatorOp)]
        return Finding(
            cause=cause,
            name=step.name,
            difference=worst_of(comparison),
            operators=tuple(types) if len(types) <= 12 else (),
        )
    report(f"passes    {len(passes)} passes: the IR computes what {question.reference} does")
    if isinstance(made, Finding):
        report(f"schedule  {made.difference}")
        return made
    return _after_passes(question, made, inputs, expected, report)


def _after_passes(
    question: Question,
    module: CheckedModule,
    inputs: Mapping[str, Array],
    expected: Mapping[str, Array],
    report: ReportLine,
) -> Finding | None:
    checked = module.check_tasks(inputs)
    if (wrong := wrong_kernel(checked)) is not None:
        report(f"kernels   {wrong.difference}")
        return wrong
    report(
        f"kernels   {counted(len(checked.checks), 'task')}, one by one: as the interpreter,"
        " within bounds"
    )
    if (wrong := wrong_schedule(module, inputs, checked, question.runs)) is not None:
        report(f"schedule  {wrong.difference}")
        return wrong
    report(
        f"schedule  verified; {question.runs} whole runs give the same bits as one task at a time"
    )
    total = compare_doubles(checked.outputs, expected, parse_target(module.target).precision)
    if total.passed:
        return None
    report(f"outputs   {worst_of(total)}")
    return Finding(cause="rounding", difference=worst_of(total))


def invalid_schedule(message: str) -> Finding | None:
    """The finding in the verifier's error after a pass; None for other errors of schedules."""
    if (match := INVALID.search(message)) is None:
        return None
    pair = PAIR.search(match[2])
    tasks = (int(pair[2]), int(pair[1])) if pair is not None else ()
    return Finding(cause="schedule", name=match[1], difference=match[2], tasks=tasks)


def wrong_kernel(checked: CheckedRun) -> Finding | None:
    """The first task whose kernel computes something else than its operators."""
    for check in checked.checks:
        if not check.passed:
            return Finding(
                cause="kernel",
                name=check.kernel,
                difference=f"{check}: {check.worst}",
                operators=check.operators,
                nodes=check.nodes,
                tasks=(check.task,),
            )
    return None


def wrong_schedule(
    module: CheckedModule, inputs: Mapping[str, Array], checked: CheckedRun, runs: int
) -> Finding | None:
    """The race that the verifier finds, or the wait without which runs give other bits."""
    schedule = module.schedule
    try:
        check_schedule(schedule)
    except ScheduleError as error:
        return invalid_schedule(f"the schedule is invalid after pass '': {error}")
    schedule_runs = ScheduleRuns(module, inputs, runs)
    if not schedule_runs.differs(schedule, checked.outputs):
        return None
    pair = missing_wait(schedule, lambda changed: schedule_runs.differs(changed, checked.outputs))
    if pair is None:
        text = "a whole run differs from one task at a time, even with all tasks in a line"
        return Finding(cause="schedule", difference=text)
    earlier, later = (f"task {index} {describe_task(schedule, index)}" for index in pair)
    nodes = schedule.tasks[pair[0]].nodes + schedule.tasks[pair[1]].nodes
    text = f"runs give other bits unless {later} waits for {earlier}"
    return Finding(cause="schedule", difference=text, nodes=nodes, tasks=pair)


def reference_outputs(
    question: Question, imported: Snapshot, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """The outputs to compare with: onnxruntime's, or those of the imported IR in float64.

    The latter are rounded to the types of the model's outputs.
    """
    if question.reference == "onnxruntime":
        try:
            return run_onnxruntime(question.model, inputs)
        except Refusal as error:
            raise Refusal(f"{error}; compare with --reference interpreter instead") from error
    outputs = interpret(imported.module, imported.weights, inputs, precise=True)
    graph = graph_of(imported.module)
    results = zip(graph.output_names, graph.results_yielded, strict=True)
    types = {name.data: numpy_dtype(dtype_of(value.type)) for name, value in results}
    return {n: a.astype(types[n]) for n, a in outputs.items() if not n.startswith(IN_RANGE)}


def inputs_of(module: ModuleOp, seed: int) -> dict[str, Array]:
    """Random inputs of an imported graph, as `flowloom run` draws them."""
    graph = graph_of(module)
    values = zip(graph.input_names, graph.body.block.args, strict=True)
    specs = [Allocation("input", n.data, dtype_of(v.type), shape_of(v.type)) for n, v in values]
    return random_arrays(specs, seed)
