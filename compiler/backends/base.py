"""The interface of backends, and the registry of backends by target.

A target's text is the backend's name, then whatever else the backend reads after a colon
(`cpu:x86-64-v3`, `cuda:sm_90`, `emu:sm_90`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from compiler.backends.memory import Array
from compiler.errors import ArgumentError, DeviceError, KernelError
from compiler.schedule.choices import Choice
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.support.arguments import ArgumentKind, check_arguments, closest_name
from compiler.target.target import parse_target
from compiler.verify.all_sizes import SizesCertificate

BACKEND_MODULES = {
    "cpu": "compiler.backends.cpu.driver",
    "cuda": "compiler.backends.cuda.build",
    "emu": "compiler.backends.emu.build",
    "hip": "compiler.backends.hip.build",
}
"""The module of each backend, by name; it is imported when first used and defines `BACKEND`."""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Bytes that a loaded module takes: weights and code once, the arena for each executor.

    `buffers` are the arena's bytes of inputs and outputs, which modules never share.
    """

    weights: int
    arena: int
    code: int
    buffers: int = 0


class Executor(Protocol):
    """One arena and the state of one run at a time; executors of one executable run at once."""

    def run(self, inputs: Mapping[str, Any], *_: Any, **options: Any) -> dict[str, Any]:
        """Run once; outputs in the model's order, in memory that no later run touches.

        `options` are the backend's own (a GPU's `stream`). Raises ShapeError for inputs that do
        not fit the model, and DeviceError.
        """
        ...

    def close(self) -> None:
        """Release threads and memory; the executor cannot run any more."""


class Executable(Executor, Protocol):
    """A schedule loaded on a device: weights and code, shared by all its executors.

    Its own `run` may be called by several threads at once.
    """

    @property
    def streams(self) -> int:
        """The number of streams of the schedule."""
        ...

    @property
    def threads(self) -> int:
        """The number of host threads that work on a run, the caller's included."""
        ...

    @property
    def memory(self) -> MemoryReport:
        """The memory it takes, in bytes."""
        ...

    def executor(self, *_: Any, **options: Any) -> Executor:
        """A further executor with its own options, for one caller at a time."""
        ...


class SizedExecutables(Protocol):
    """A symbolic schedule on a device, from which executables for sizes are made."""

    def at(self, numbers: Sequence[int]) -> Executable:
        """The executable for the sizes that give the schedule these numbers."""
        ...


class Backend(Protocol):
    """A way to run schedules on one kind of device."""

    @property
    def name(self) -> str:
        """The name that targets begin with."""
        ...

    def requirements(self, target: str) -> dict[str, Any]:
        """The requirements of code for a target on its host, as JSON data."""
        ...

    def check(self, requirements: Mapping[str, Any]) -> None:
        """Raise DeviceError, naming what is missing, unless this host meets requirements."""

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError for an unknown option of `load`, and for a wrong value.

        No device is asked: a compilation and a saved module are checked where there is none.
        """

    def sharing(self) -> dict[str, Any]:
        """Options of `load` by which executables that never run at once share memory."""
        ...

    def load(
        self,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        weights: Mapping[str, Array],
        *_: Any,
        **options: Any,
    ) -> Executable:
        """Make a schedule ready to run; `weights` are packed, by allocation name.

        `options` are the backend's own (threads, execution mode, streams). Raises DeviceError
        before it allocates what does not fit, with the bytes needed.
        """
        ...


class RunsAllSizes(Backend, Protocol):
    """A backend that runs schedules which were compiled once for all sizes."""

    def for_sizes(
        self,
        certificate: SizesCertificate,
        weights: Mapping[str, Array],
        *_: Any,
        **options: Any,
    ) -> SizedExecutables:
        """Make a symbolic schedule ready for sizes; weights and `options` are as of `load`."""
        ...


def check_options(
    options: Mapping[str, Any], kinds: Mapping[str, ArgumentKind], taker: str
) -> None:
    """Raise ArgumentError for an unknown option, and for one of a wrong value."""
    if unknown := [name for name in options if name not in kinds]:
        advice = closest_name(unknown[0], kinds)
        raise ArgumentError(f"{taker} has no option {unknown[0]!r}: {advice}")
    check_arguments(options, kinds)


def chosen_options(choice: Choice | None) -> dict[str, Any]:
    """The options of executors that a recorded choice stands for: modes, and bindings by name."""
    if choice is None:
        return {}
    schedule = choice.schedule
    return {"mode": schedule.mode, "pdl": schedule.pdl, "bindings": schedule.bindings}


def backend(target: str) -> Backend:
    """The backend of a target; DeviceError if it is unknown or its libraries are missing."""
    try:
        name = parse_target(target).backend
    except KernelError as error:
        raise DeviceError(str(error)) from error
    try:
        return cast(Backend, import_module(BACKEND_MODULES[name]).BACKEND)
    except ImportError as error:
        raise DeviceError(f"the target '{target}' cannot be used here: {error}") from error
