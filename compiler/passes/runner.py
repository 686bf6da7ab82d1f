"""The runner of passes: it times, dumps and verifies them."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from compiler.errors import FlowloomError, PipelineError
from compiler.graph.signature import signature
from compiler.ir import taskflow
from compiler.ir.context import make_context
from compiler.ir.dataflow import GroupOp
from compiler.ir.flatten import schedule_of
from compiler.ir.verify_cache import same_objects, verified_state
from compiler.passes.base import SchedulePass
from compiler.passes.pipeline import first_line
from compiler.passes.user import is_own
from compiler.progress import PassBegan, PassEnded, notify
from compiler.schedule.symbolic import at_example_sizes
from compiler.support.collector import collector_paused
from compiler.support.user_files import located
from compiler.tensors.extents import NotForAllSizes
from compiler.verify.happens_before import check_schedule

VERIFY_EACH = False
"""Whether the IR is verified after each pass; tests set it."""


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
    """Whether to verify the IR and the schedule after the passes of a call of `run`."""
    each: bool = field(default_factory=lambda: VERIFY_EACH)
    """Whether to do so after each pass, too; always with a user's pass, a dump or a watcher."""
    context: Context = field(default_factory=make_context)
    weights: Mapping[str, np.ndarray] | None = None
    """The weight store of a compilation that is watched; None for trials."""
    timings: list[PassTiming] = field(default_factory=list[PassTiming])
    _dumped: int = 0
    _valid: list[object] = field(default_factory=list[object])
    """The state in which the module was last found valid."""

    def run(self, module: ModuleOp, passes: Iterable[ModulePass], *, more: bool = False) -> None:
        """Apply the passes and verify; raises PipelineError, which names the failing pass.

        Where only the end is verified, the last one, or one of `more`, left an invalid IR.
        """
        steps = [*passes]
        always = self.each or self.dump is not None or _WATCHERS.get() or any(map(is_own, steps))
        for step in steps:
            with collector_paused():
                self._run(module, step, bool(always) or (step is steps[-1] and not more))

    def _run(self, module: ModuleOp, step: ModulePass, verified: bool) -> None:
        spec = str(step.spec(include_default=True))
        start = perf_counter()
        if self.weights is not None:
            notify(PassBegan(step.name))
        kernels = kernel_names(module) if isinstance(step, SchedulePass) and is_own(step) else None
        try:
            step.apply(self.context, module)
        except FlowloomError as error:
            raise type(error)(f"pass '{spec}': {error}") from error
        except NotForAllSizes as error:
            raise NotForAllSizes(f"pass '{spec}': {error}") from error
        except Exception as error:
            what = f"{type(error).__name__}: {located(error, first_line(error))}"
            raise PipelineError(f"pass '{spec}' failed: {what}") from error
        applied = perf_counter()
        self.write(module, step.name, f"after {spec}")  # not verified yet, to show what is wrong
        if self.verified and verified:
            self._verify(module, spec)
        if kernels is not None and not kernel_names(module) <= kernels:
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

    Where sizes depend on symbols it is that of the example sizes: others are verified when made.
    Raises VerifyException for invalid IR and ScheduleError for an invalid schedule.
    """
    module.verify()
    for op in module.ops:
        if isinstance(op, taskflow.GraphOp) and op.unsynchronized is None:
            check_schedule(at_example_sizes(schedule_of(op)))


def taskflow_graph(module: ModuleOp, pipeline: str) -> taskflow.GraphOp:
    """The schedule of a module after a pipeline; raises PipelineError if there is none."""
    for op in module.ops:
        if isinstance(op, taskflow.GraphOp) and op.unsynchronized is None:
            return op
    raise PipelineError(
        f"the pipeline {' '.join(pipeline.split())!r} gives no schedule: "
        "it must end with lower-to-taskflow,insert-sync and may go on from there"
    )
