"""The default pipeline, and the runner that times, dumps and verifies passes."""

import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass, get_pass_option_infos
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, VerifyException

from compiler.collector import collector_paused
from compiler.errors import FlowloomError, PipelineError, ScheduleError
from compiler.graph.signature import signature
from compiler.graph.targets import set_target
from compiler.ir import taskflow
from compiler.ir.context import make_context, parse_module
from compiler.ir.dataflow import GroupOp
from compiler.ir.flatten import schedule_of
from compiler.ir.verify_cache import same_objects, verified_state
from compiler.passes.base import GraphPass, SchedulePass
from compiler.progress import PassBegan, PassEnded, notify
from compiler.user_files import located
from compiler.user_passes import is_own, known_passes
from compiler.verify.happens_before import check_schedule

LOWERING = "lower-to-taskflow"
"""The pass that replaces groups by kernel launches."""


def default_pipeline(partition: str = "policy=none", streams: int = 4) -> str:
    """The default pipeline, with the given options of `partition-graph` and number of streams."""
    return f"""
    conv-to-gemm,
    canonicalize,
    fuse-group-norm,
    order-scatters,
    substitute,
    batch-gemv,
    fuse-siblings,
    fuse-attention,
    fuse-squeeze-excite,
    fuse-ranges,
    fuse-gathers,
    fuse-operators,
    fuse-channels-last,
    fuse-depthwise-pointwise,
    reduce-precision,
    assign-layouts,
    emplace-concats,
    fold-ranges,
    share-kernels,
    partition-graph{{{partition}}},
    assign-streams{{policy=opara streams={streams}}},
    order-launches{{policy=critical-path}},
    keep-weights,
    lower-to-taskflow,
    insert-sync,
    elide-sync,
    plan-memory{{reuse=concurrent}}
"""


DEFAULT_PIPELINE = default_pipeline()
"""From the imported model to the schedule. Kernels are built before the first schedule pass."""


def parse(spec: str) -> tuple[ModulePass, ...]:
    """The passes of a pipeline such as `fuse-operators,partition-graph{policy=ppd max-nodes=8}`.

    White space around commas does not matter. Raises PipelineError for an unknown pass or option.
    """
    try:
        text = re.sub(r"\s*,\s*", ",", spec.strip())
        specs = list(parse_pipeline(_with_quoted_ranges(text)))
    except ArgSpecParseError as error:
        raise PipelineError(f"the pipeline {spec.strip()!r} cannot be parsed: {error}") from None
    passes: list[ModulePass] = []
    known = known_passes()
    for one in specs:
        if one.name not in known:
            raise PipelineError(_unknown(one.name, known))
        try:
            passes.append(known[one.name].from_spec(one))
        except Exception as error:
            options = ", ".join(option_names(known[one.name])) or "none"
            raise PipelineError(
                f"pass '{one}': {first_line(error)}; the options of {one.name} are {options}"
            ) from error
    return tuple(passes)


def _with_quoted_ranges(spec: str) -> str:
    """A pipeline with quotes around ranges such as `size=40..120`; texts in quotes stay."""
    parts = re.split(r'("[^"]*")', spec)
    parts[::2] = [re.sub(r"=(\d+\.\.\d+)", r'="\1"', part) for part in parts[::2]]
    return "".join(parts)


def without_pass(spec: str, name: str) -> str:
    """A pipeline without the passes of a name."""
    return ",".join(str(step.spec()) for step in parse(spec) if step.name != name)


def with_decisions(spec: str, decided: Mapping[str, str | None]) -> str:
    """A pipeline with other specs for some passes; those of None, which did nothing, left out."""
    specs = [decided.get(own := str(step.spec()), own) for step in parse(spec)]
    return ",".join(found for found in specs if found is not None)


def _unknown(name: str, known: Iterable[str]) -> str:
    """The error message for an unknown pass name."""
    return (
        f"unknown pass {name!r}; the passes are {', '.join(known)}, or your own"
        " (passes=[...], --pass FILE.py:CLASS)"
    )


def option_names(kind: type[ModulePass]) -> list[str]:
    """The options of a pass in pipeline notation, with their defaults or types."""
    infos = get_pass_option_infos(kind)
    return [f"{i.name.replace('_', '-')}={i.default_value or i.expected_type}" for i in infos]


def with_schedule(pipeline: str, file: str | os.PathLike[str]) -> str:
    """A pipeline that applies the constraints, or imports the schedule, of a file.

    Raises ScheduleError for a file that holds neither.
    """
    path = os.fspath(file)
    try:
        kind = json.loads(Path(path).read_text(encoding="utf-8"))["format"]
    except OSError as error:
        raise ScheduleError(f"cannot read the schedule {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ScheduleError(
            f"{path} is neither a schedule.json nor constraints ({error}): `flowloom report DIR"
            " --constraints` writes some"
        ) from None
    if any(character in path for character in '"\\\n'):
        raise ScheduleError(f"the path {path!r} has a quote or a backslash: rename the file")
    specs = [str(step.spec()) for step in parse(pipeline)]
    if kind == "flowloom-schedule":
        return ",".join([*specs, f'import-schedule{{file="{path}"}}'])
    if kind != "flowloom-constraints" or LOWERING not in specs:
        raise ScheduleError(
            f"{path} has format {kind!r}; it must be 'flowloom-schedule', or 'flowloom-constraints'"
            " and the pipeline must hold lower-to-taskflow"
        )
    specs.insert(specs.index(LOWERING) + 1, f'apply-constraints{{file="{path}"}}')
    return ",".join(specs)


def split_phases(passes: Sequence[ModulePass]) -> tuple[list[ModulePass], list[ModulePass]]:
    """The passes before and after kernels are built: up to the last graph pass, and the rest.

    Raises PipelineError for a graph pass after `lower-to-taskflow`.
    """
    count = max((i + 1 for i, p in enumerate(passes) if isinstance(p, GraphPass)), default=0)
    if any(step.name == LOWERING for step in passes[:count]):
        raise PipelineError(
            f"pass '{passes[count - 1].spec()}' decides what kernels compute and comes after"
            f" {LOWERING}, where there are only kernels: move it before partition"
        )
    return list(passes[:count]), list(passes[count:])


def check_used(own: Iterable[str], pipeline: str | None) -> None:
    """Raise PipelineError if a pipeline does not name one of the user's passes."""
    used = {step.name for step in parse(DEFAULT_PIPELINE if pipeline is None else pipeline)}
    if unused := [name for name in own if name not in used]:
        raise PipelineError(
            f"the pipeline does not name your pass '{unused[0]}': write a pipeline that has it"
            " where it must run (`flowloom passes` prints the default one)"
        )


TRIAL = """
dataflow.graph @trial opset 23 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<1xf32>):
  %y = dataflow.op "Relu" named "Relu_y"(%x) : (tensor<1xf32>) -> tensor<1xf32>
  dataflow.yield %y : tensor<1xf32>
}
"""
"""The smallest model, on which a pipeline is tried."""

OF_ONE_MODEL = ("file", "placement", "take")
"""The options of passes that record what was decided about one model."""


def check_pipeline(spec: str, target: str) -> None:
    """Raise PipelineError for a pipeline that no model can be compiled with.

    It runs on the smallest model, as passes check their options and what ran before them. The trial
    ends before a pass or a policy of the user's, and before one with a decision about some model.
    """
    steps = parse(spec)
    split_phases(steps)
    module = parse_module(TRIAL)
    set_target(module, target)
    for step in steps:
        of_one_model = any(getattr(step, option, None) is not None for option in OF_ONE_MODEL)
        if is_own(step) or of_one_model or ".py:" in str(step.spec()):
            return
        Runner().run(module, [step])
    taskflow_graph(module, spec)


@dataclass(frozen=True)
class PassTiming:
    """The seconds of one pass and of the verification that follows."""

    spec: str
    seconds: float
    verify_seconds: float


@dataclass(frozen=True)
class Snapshot:
    """The IR after a step of a compilation, which goes on to change it, and the weight store.

    `name` is that of the pass, `import` before the first one, or `kernels` once those are built;
    `header` has its options.
    """

    name: str
    header: str
    module: ModuleOp
    weights: Mapping[str, np.ndarray]


Watcher = Callable[[Snapshot], None]

_WATCHERS: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


@contextmanager
def watching(watcher: Watcher) -> Generator[None, None, None]:
    """Show a watcher the IR after each step of the compilations in the block."""
    token = _WATCHERS.set((*_WATCHERS.get(), watcher))
    try:
        yield
    finally:
        _WATCHERS.reset(token)


@dataclass
class Runner:
    """Runs passes; the numbers of dumps and the timings continue over several calls of `run`."""

    dump: Path | None = None
    """Directory for a numbered, re-parsable file for each pass; None to write none."""
    verified: bool = True
    """Whether to verify the IR and the schedule after each pass."""
    context: Context = field(default_factory=make_context)
    weights: Mapping[str, np.ndarray] | None = None
    """The weight store of a compilation that is watched; None for trials."""
    timings: list[PassTiming] = field(default_factory=list[PassTiming])
    _dumped: int = 0
    _valid: list[object] = field(default_factory=list[object])
    """The state in which the module was last found valid."""

    def run(self, module: ModuleOp, passes: Iterable[ModulePass]) -> None:
        """Apply each pass, then verify; raises PipelineError, which names the failing pass."""
        for step in passes:
            with collector_paused():
                self._run(module, step)

    def _run(self, module: ModuleOp, step: ModulePass) -> None:
        spec, start = str(step.spec(include_default=True)), perf_counter()
        if self.weights is not None:
            notify(PassBegan(step.name))
        kept = kernel_names(module) if isinstance(step, SchedulePass) and is_own(step) else None
        try:
            step.apply(self.context, module)
        except FlowloomError as error:
            raise type(error)(f"pass '{spec}': {error}") from error
        except Exception as error:
            what = f"{type(error).__name__}: {located(error, first_line(error))}"
            raise PipelineError(f"pass '{spec}' failed: {what}") from error
        applied = perf_counter()
        self.write(module, step.name, f"after {spec}")
        if self.verified:
            self._verify(module, spec)
        if kept is not None and not kernel_names(module) <= kept:
            raise PipelineError(
                f"pass '{spec}' changed what a group computes, which is compiled already: derive it"
                " from GraphPass instead of SchedulePass"
            )
        self.timings.append(PassTiming(spec, applied - start, perf_counter() - applied))
        if self.weights is not None:
            notify(PassEnded(step.name, perf_counter() - start))

    def write(self, module: ModuleOp, name: str, header: str) -> None:
        """Dump the module to the next numbered file, with `header` as its first line."""
        if self.weights is not None:
            for watcher in _WATCHERS.get():
                watcher(Snapshot(name, header, module, self.weights))
        if self.dump is None:
            return
        path = self.dump / f"{self._dumped:02}-{name}.mlir"
        try:
            self.dump.mkdir(parents=True, exist_ok=True)
            path.write_text(f"// {header}\n{module!s}\n")
        except OSError as error:
            raise PipelineError(f"cannot dump IR to {path}: {error.strerror}") from error
        self._dumped += 1

    def _verify(self, module: ModuleOp, spec: str) -> None:
        state = verified_state(module)
        if same_objects(state, self._valid):
            return
        try:
            verify(module)
            self._valid = state
        except FlowloomError as error:
            raise type(error)(f"the schedule is invalid after pass '{spec}': {error}") from error
        except VerifyException as error:
            hint = f"; see {self.dump}" if self.dump else "; dump the IR to see it"
            message = f"the IR is invalid after pass '{spec}': {first_line(error)}{hint}"
            raise PipelineError(message) from error


def kernel_names(module: ModuleOp) -> set[str]:
    """The signatures of a module's groups, by which they find their kernels."""
    return {signature(op) for op in _kernel_groups(module)}


def _kernel_groups(module: ModuleOp) -> list[GroupOp]:
    """The groups that become kernels, those of bodies included."""
    return [op for op in module.walk() if isinstance(op, GroupOp) and op.control is None]


def name_kernels(module: ModuleOp, passes: Iterable[ModulePass]) -> None:
    """Set each group's `kernel` to its signature, after a user's passes."""
    if not any(map(is_own, passes)):
        return
    for op in _kernel_groups(module):
        op.kernel = StringAttr(signature(op))


def verify(module: ModuleOp) -> None:
    """Verify the IR, and that the schedule of each synchronized taskflow graph has no race.

    Raises VerifyException for invalid IR and ScheduleError for an invalid schedule.
    """
    module.verify()
    for op in module.ops:
        if isinstance(op, taskflow.GraphOp) and op.unsynchronized is None:
            check_schedule(schedule_of(op))


def taskflow_graph(module: ModuleOp, pipeline: str) -> taskflow.GraphOp:
    """The schedule of a module after a pipeline; raises PipelineError if there is none."""
    for op in module.ops:
        if isinstance(op, taskflow.GraphOp) and op.unsynchronized is None:
            return op
    raise PipelineError(
        f"the pipeline {' '.join(pipeline.split())!r} gives no schedule: "
        "it must end with lower-to-taskflow,insert-sync and may go on from there"
    )


def first_line(error: BaseException) -> str:
    """The message of an error; xDSL's errors append the whole module to it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^-|\t")]
    carets = [line.strip(" ^|-") for line in str(error).splitlines() if "^^^" in line]
    message = next((line for line in carets if line), lines[-1] if lines else type(error).__name__)
    return message[:500]
