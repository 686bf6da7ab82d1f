"""Trials: what is to be measured on a GPU runs once in a process that can be killed.

A kernel that does not end cannot be interrupted in the process that launched it: destroying its
context waits for it (11.6 s for a kernel of 12 s). So a child process with a separate context runs
each kernel first, on the operands that it is measured with. Only kernels that ended there within
their time are launched here. A schedule without If and Loop needs no trial once its kernels had
theirs: each task runs its kernel once, and no kernel waits for another one's blocks, so that a run
takes at most about the sum. A schedule with them decides by data how often its bodies run, so the
whole runs in the child, with its weights.
"""

import atexit
import logging
import os
import select
import subprocess
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from compiler.autotune.bindings import timed_run
from compiler.autotune.kernel_times import kernel_hash
from compiler.autotune.profile import costly_first, on_device, run_once
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.memory import Array
from compiler.errors import ArgumentError, DeviceError, FlowloomError, KernelError
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule, Task
from compiler.support.child_process import receive, send, start_child

_LOG = logging.getLogger(__name__)

TRIALS_VARIABLE = "FLOWLOOM_TRIALS"
"""The environment variable that turns trials off, where no second process can use the device."""

START_SECONDS = 60.0
PREPARE_SECONDS = 60.0
KILL_SECONDS = 30.0
"""The longest that the child may take to open the device, to load what it is to run with its
operands, and to end when it is killed."""

SHORTEST_DEADLINE = 0.2
"""The least time of a run: a busy host may need that much to notice the end of a short one."""

TRIAL_READY = "ready"
RUN_REQUEST = "run"
"""The child's answer once it has opened the device or loaded a subject, and the request to run."""

IDLE = 0
"""The exit status of a child that ended as nothing was to be done."""


class TrialError(KernelError):
    """A kernel or a schedule did not end within its time, or failed."""


class TrialUnavailableError(DeviceError):
    """Trials cannot run in a second process, so nothing is measured."""


class _IdleError(Exception):
    """The child had ended by the time that it was asked."""


class Subject(Protocol):
    """A kernel or a schedule on trial; it travels to the child as a pickle."""

    def loaded(self, driver: Driver) -> AbstractContextManager[Callable[[], float]]:
        """A function that runs it once and returns nanoseconds, while it is on the device."""
        ...


@dataclass(frozen=True, slots=True)
class KernelTrial:
    """A kernel on buffers as a task has them."""

    kernel: KernelSpec
    task: Task

    @contextmanager
    def loaded(self, driver: Driver) -> Generator[Callable[[], float]]:
        """A function that runs the kernel on random operands, by all its entry points."""
        with on_device(driver, self.kernel, self.task) as (calls, indirect):
            stream = driver.create_stream()

            def run() -> float:
                nanoseconds = run_once(driver, calls, stream)
                run_once(driver, indirect, stream)
                return nanoseconds

            yield run
            driver.destroy_stream(stream)


@dataclass(frozen=True, slots=True)
class ScheduleTrial:
    """A whole schedule with its weights; `limits` are those of the inputs that are indices."""

    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    weights: Mapping[str, Array]
    limits: Mapping[str, int]

    @contextmanager
    def loaded(self, driver: Driver) -> Generator[Callable[[], float]]:
        """A function that runs the schedule as one graph on random inputs."""
        program = (self.schedule, self.kernels, self.weights)
        executor = GpuExecutable.load(driver, *program, index_limits=self.limits).executor()
        yield timed_run(executor)
        executor.close()


class Trials:
    """The trials on one device.

    The child is started when it is first needed. It ends after some idle seconds, with this
    process, and where something that it runs does not end; then another one takes its place.
    """

    def __init__(self, driver: Driver) -> None:
        self._opener = driver.opener
        self._child: _Child | None = None
        self._ended: dict[str, float] = {}
        self._lock = Lock()
        if self._opener is not None and not _trials_enabled():
            self._opener = None
            _LOG.warning(
                "%s is off: a kernel that does not end will block the compilation", TRIALS_VARIABLE
            )
            return
        if self._opener is not None:
            atexit.register(self.close)

    def start(self) -> None:
        """Let a process begin to open the device; returns at once."""
        with self._lock:
            if self._opener is not None:
                self._started(self._opener)

    def kernel(self, kernel: KernelSpec, task: Task, seconds: float) -> float:
        """Run a kernel once, unless it ran before; its nanoseconds, 0 where nothing can hang.

        Raises TrialError, which names it, if it fails or takes longer than some seconds.
        """
        key = kernel_hash(kernel)
        if key not in self._ended:
            self._ended[key] = self._run(
                KernelTrial(kernel, task), f"the kernel {kernel.name!r}", seconds
            )
        return self._ended[key]

    def kernels(
        self, tasks: Iterable[Task], kernels: Mapping[str, KernelSpec], seconds: float
    ) -> dict[str, float]:
        """Run each kernel of some tasks, the costly ones first; their nanoseconds by name.

        Raises TrialError for one that fails, and if all together take longer than some seconds.
        """
        launching = {task.kernel: task for task in tasks if task.control is None}
        times = dict[str, float]()
        remaining = seconds
        for name in costly_first(launching, kernels):
            if remaining <= 0:
                raise TrialError(f"a run of each kernel before {name!r} takes {seconds:.3g} s")
            times[name] = self.kernel(kernels[name], launching[name], remaining)
            remaining -= times[name] / 1e9
        return times

    def whole(self, subject: ScheduleTrial, seconds: float) -> float:
        """Run a schedule once if it has an If or a Loop; its nanoseconds, else 0. As `kernel`.

        Other schedules of the same graph then end, too: on the same inputs they run each body as
        often.
        """
        if all(task.control is None for task in subject.schedule.tasks):
            return 0.0
        return self._run(subject, f"the whole graph {subject.schedule.name!r}", seconds)

    def schedule(self, subject: ScheduleTrial, seconds: float) -> None:
        """Run all that a schedule needs to end: its kernels, and the whole where that decides."""
        spent = sum(self.kernels(subject.schedule.all_tasks, subject.kernels, seconds).values())
        self.whole(subject, seconds - spent / 1e9)

    def _run(self, subject: Subject, name: str, seconds: float) -> float:
        with self._lock:
            if self._opener is None:
                return 0.0
            try:
                try:
                    return self._started(self._opener).run(subject, max(seconds, SHORTEST_DEADLINE))
                # the child may end between the check that it is alive and the request
                except _IdleError:
                    return self._started(self._opener).run(subject, max(seconds, SHORTEST_DEADLINE))
            except BaseException as error:
                # most errors make a context unusable; after an interrupt an answer is still to come
                self._stop()
                if not isinstance(error, FlowloomError) or isinstance(error, TrialUnavailableError):
                    raise
                self._started(self._opener)  # which opens the device while others compile
                raise TrialError(f"{name} failed in a trial: {error}") from error

    def _started(self, opener: Callable[[], Driver]) -> "_Child":
        if self._child is None or self._child.ended:
            self._child = _Child(opener)
        return self._child

    def _stop(self) -> None:
        child = self._child
        self._child = None
        if child is not None:
            child.stop()

    def close(self) -> None:
        """End the process."""
        with self._lock, suppress(DeviceError):
            self._stop()


class _Child:
    """A process that has the device open and runs one subject at a time."""

    def __init__(self, opener: Callable[[], Driver]) -> None:
        self._open = False
        try:
            self._process = start_child("compiler.autotune.trial_process", "run_trials")
        except OSError as error:
            raise _unavailable(f"it cannot be started: {error}") from error
        self._send(opener)  # which it gets as soon as it has imported what it needs

    @property
    def ended(self) -> bool:
        """Whether the process has ended, such as after some idle seconds."""
        return self._process.poll() is not None

    def run(self, subject: Subject, seconds: float) -> float:
        """The nanoseconds of a run; KernelError if it takes longer, or what the child raised."""
        if not self._open:
            try:
                self._answer(START_SECONDS, "opening the device")
            except FlowloomError as error:
                raise _unavailable(str(error)) from error
            self._open = True
        self._send(subject)
        self._answer(PREPARE_SECONDS, "loading it")
        self._send(RUN_REQUEST)
        return self._answer(seconds, "a run")

    def _send(self, request: object) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # the end of the answers says that the process has died
            send(self._process.stdin, request)

    def _answer(self, seconds: float, step: str) -> Any:
        assert self._process.stdout is not None
        # select.select refuses descriptors above 1023
        arrived = select.poll()
        arrived.register(self._process.stdout, select.POLLIN)
        if not arrived.poll(1e3 * seconds):
            raise KernelError(f"{step} takes more than {seconds:.3g} s")
        answer = receive(self._process.stdout)
        if isinstance(answer, FlowloomError):
            raise answer
        if answer is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_SECONDS)
            if self._process.returncode == IDLE:
                raise _IdleError
            raise KernelError(f"the process died ({self._process.returncode})")
        return answer

    def stop(self) -> None:
        """Kill the process; DeviceError where the device keeps it from ending."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise TrialUnavailableError(
                f"a kernel did not end, and the device keeps process {self._process.pid}, which was"
                " killed: nothing is measured any further"
            ) from error


_ON: WeakKeyDictionary[Driver, Trials] = WeakKeyDictionary()


def trials_on(driver: Driver) -> Trials:
    """The trials on a device, for all that is measured there."""
    if driver not in _ON:
        _ON[driver] = Trials(driver)
    return _ON[driver]


def _unavailable(reason: str) -> TrialUnavailableError:
    return TrialUnavailableError(
        f"a second process, for trials of kernels, cannot use the device ({reason}): allow that, or"
        f" set {TRIALS_VARIABLE}=off to measure without trials"
    )


def _trials_enabled() -> bool:
    value = os.environ.get(TRIALS_VARIABLE, "on")
    if value not in ("on", "off"):
        raise ArgumentError(f"{TRIALS_VARIABLE} is {value!r}: it must be on or off")
    return value == "on"
