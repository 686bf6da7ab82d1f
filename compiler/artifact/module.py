"""A compiled model, ready to run: what `compiler.compile` and `compiler.load` return."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from compiler.artifact import artifact
from compiler.artifact.artifact import Artifact
from compiler.artifact.manifest import Vouch
from compiler.artifact.signing import KeyFile, trusting
from compiler.artifact.weights import Placing, in_one_block
from compiler.backends.base import (
    Array,
    Executable,
    Executor,
    MemoryReport,
    backend,
    chosen_options,
)
from compiler.backends.memory import place_weights
from compiler.display.html import schedule_html
from compiler.errors import InputDataError
from compiler.schedule.choices import Choice, TuningRecord
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import IN_RANGE, RESERVED_NAMES, Allocation, AllocationKind, Schedule
from compiler.support.arguments import (
    LOAD,
    MAPPING,
    TEXT,
    ArgumentKind,
    check_arguments,
    inputs_by_name,
    instance,
    optional,
    taking,
)
from compiler.support.words import counted, in_bytes
from compiler.verify.certificate import Certificate, certified
from compiler.verify.seals import check_library

if TYPE_CHECKING:
    from compiler.driver.build import Build


def _is_loaded(value: object) -> bool:
    return hasattr(value, "run") and hasattr(value, "executor")


def _mapping_to(kind: type[object], text: str) -> ArgumentKind:
    """Mappings from names to objects of a class, which the text describes."""

    def accepts(value: object) -> bool:
        if not isinstance(value, Mapping):
            return False
        items = cast(Mapping[object, object], value).items()
        return all(isinstance(name, str) and isinstance(item, kind) for name, item in items)

    return ArgumentKind(f"a mapping from names to {text}", accepts)


_COMPILED = "what compiler.compile made"
_CONTENT: Mapping[str, ArgumentKind] = {
    "target": TEXT,
    "schedule": instance(Schedule, "a Schedule"),
    "kernels": _mapping_to(KernelSpec, "KernelSpecs"),
    "weights": _mapping_to(np.ndarray, "numpy arrays"),
    "requirements": MAPPING,
    "choice": optional(instance(Choice, _COMPILED)),
    "tuning": optional(instance(TuningRecord, _COMPILED)),
    "library": instance(bytes, "the bytes of a shared library"),
    "certificate": optional(instance(Certificate, _COMPILED)),
    "semantics": optional(MAPPING),
}
"""The fields of an artifact."""

_MODULE: Mapping[str, ArgumentKind] = {
    "content": instance(Artifact, "an Artifact"),
    "build_seconds": optional(MAPPING),
    "loaded": optional(ArgumentKind("a loaded schedule", _is_loaded)),
}
"""The arguments of `Module(...)`."""


def without_checks(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a run without the results of index checks.

    Raises InputDataError if a check found an index out of range.
    """
    results = {**outputs}
    for name, array in outputs.items():
        if name.startswith(IN_RANGE):
            if not int(array.numpy() if hasattr(array, "numpy") else array):
                raise InputDataError(
                    f"an index is out of range: {name.removeprefix(IN_RANGE)}; correct the input"
                    " data"
                )
            del results[name]
    return results


class Module:
    """A schedule, its kernels and its packed weights.

    Modules can be pickled, copied and sent to processes; the copy is loaded at its first run.
    """

    def __init__(
        self,
        content: Artifact,
        *,
        build_seconds: Mapping[str, float] | None = None,
        loaded: Executable | None = None,
        **options: Any,
    ):
        """Make a module of what was compiled or read; its backend loads it at its first run.

        `build_seconds` is the time of each step of the compilation, empty for a loaded module;
        `loaded` is the schedule if it is on its device already. `options` are the backend's, such
        as the CPU's `threads`; the mode of the content's choice holds unless they name another.

        Raises ScheduleError for a schedule with a race, or one whose tasks pass to a kernel what it
        was not built for, KernelError for a kernel or a library that is not as it was built,
        ShapeError for a weight that is missing or of another type, and DeviceError or ArgumentError
        for an option that the backend does not take.
        """
        check_arguments(locals(), _MODULE)
        check_arguments(vars(content), _CONTENT)
        self._backend = backend(content.target)
        self._backend.check_options(options)
        self.build_seconds = dict(build_seconds or {})
        self._options = options
        self._lock = Lock()
        self._loaded = loaded
        with taking("Module", content=content):  # records by hand may hold anything
            self._content = replace(
                content,
                kernels=dict(content.kernels),
                weights=place_weights(content.schedule, content.weights),
                requirements=content.requirements or self._backend.requirements(content.target),
            )
            self._check()

    @classmethod
    def of(cls, built: "Build", options: Mapping[str, Any]) -> Self:
        """The module of a compilation, to be loaded with the backend's options."""
        with taking("Module.of", built=built, options=options):
            loaded = None if options else built.executable
            return cls(built.content, build_seconds=built.seconds, loaded=loaded, **options)

    def __getstate__(self) -> dict[str, Any]:
        """The state for `pickle` and `copy`, without what is on the device."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_loaded", "_backend")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._backend = backend(self.target)
        self._content = replace(self._content, weights=place_weights(self.schedule, self.weights))
        self._lock = Lock()
        self._loaded = None

    @property
    def content(self) -> Artifact:
        """All that is saved of the module."""
        return self._content

    @property
    def target(self) -> str:
        """The target with everything that decides its kernels."""
        return self.content.target

    @property
    def schedule(self) -> Schedule:
        """The tasks, their streams and their memory."""
        return self.content.schedule

    @property
    def kernels(self) -> Mapping[str, KernelSpec]:
        """The kernels by name."""
        return self.content.kernels

    @property
    def weights(self) -> Mapping[str, Array]:
        """The packed weights, by allocation name."""
        return self.content.weights

    @property
    def requirements(self) -> Mapping[str, Any]:
        """The features that the code needs of its host."""
        return self.content.requirements

    @property
    def choice(self) -> Choice | None:
        """How schedule and mode were chosen, and why, on targets where there is a choice."""
        return self.content.choice

    @property
    def tuning(self) -> TuningRecord | None:
        """The kernels that were measured before they were built, if any were."""
        return self.content.tuning

    @property
    def semantics(self) -> Mapping[str, str] | None:
        """The choices between the ONNX text and onnxruntime, by rule; None if none are recorded."""
        return self.content.semantics

    @property
    def pipeline(self) -> str | None:
        """The recorded pipeline: compiled with it, the model gets this schedule without a search.

        None for targets whose schedule is not chosen.
        """
        return None if self.choice is None else self.choice.schedule.pipeline

    @property
    def executable(self) -> Executable:
        """The schedule on its device; loaded at its first use, so that saving needs no device.

        Raises DeviceError if the device is missing or too small, or cannot run the code.
        """
        return self._loaded or self._load()

    def _load(self) -> Executable:
        with self._lock:
            if self._loaded is None:
                with taking(f"the target {self.target}", requirements=self.requirements):
                    self._backend.check(self.requirements)
                self._check()
                costs = {} if self.choice is None else {"costs": self.choice.schedule.costs}
                library = self.content.library
                code = {"library": library} if library else {}
                options = {**costs, **chosen_options(self.choice), **code, **self._options}
                with taking("the backend", **self._options):
                    self._loaded = self._backend.load(
                        self.schedule, self.kernels, self.weights, **options
                    )
            return self._loaded

    def verify(self) -> None:
        """Check schedule and kernels again; raises ScheduleError or KernelError for a wrong one."""
        certified(self.schedule, self.kernels)

    def _check(self) -> None:
        """Check the schedule and the kernels, if they are not those that were checked before."""
        content = self.content
        certificate = certified(content.schedule, content.kernels, content.certificate)
        if content.library:
            check_library(content.library, certificate.digest)
        self._content = replace(content, certificate=certificate)

    @property
    def inputs(self) -> Sequence[Allocation]:
        """Name, dtype and shape of every input, in the model's order."""
        return self.schedule.of_kind("input")

    @property
    def outputs(self) -> Sequence[Allocation]:
        """Name, dtype and shape of every output, in the model's order."""
        outputs = self.schedule.of_kind("output")
        return [output for output in outputs if not output.name.startswith(RESERVED_NAMES)]

    @property
    def memory(self) -> MemoryReport:
        """Bytes of the weights, of each executor's arena and of the code."""
        return self.executable.memory

    @property
    def threads(self) -> int:
        """The number of host threads of a run."""
        return self.executable.threads

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """Run once: arrays by input name in, arrays by output name out, in the model's order.

        Any number of threads may call this at once. Arrays may be any that support DLPack; on the
        CPU, those that are row-major, with aligned elements, are not copied. Raises ShapeError
        for a missing or unknown name, a wrong dtype or a wrong shape, and InputDataError for an
        index out of range if the module was compiled with `check_indices`.
        """
        inputs = inputs_by_name(inputs)
        if not options:
            return without_checks(self.executable.run(inputs))
        executable = self.executable
        with taking("a run", **options):
            return without_checks(executable.run(inputs, **options))

    def executor(self, **options: Any) -> Executor:
        """A new executor, which shares code and weights and has its own arena.

        If the module checks indices, pass the results of its runs to `without_checks`.
        """
        executable = self.executable
        with taking("an executor", **options):
            return executable.executor(**options)

    def with_options(self, **options: Any) -> "Module":
        """The same module, to be loaded with further options of its backend (a GPU's `ordinal`).

        Raises ArgumentError for an unknown option, and for a wrong value.
        """
        self._backend.check_options(options)
        with taking("a module", **options):
            return Module(
                self.content, build_seconds=self.build_seconds, **(self._options | options)
            )

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the artifact that `compiler.load` reads; replaces an older one atomically.

        Raises ArtifactError, and changes nothing, if that fails.
        """
        check_arguments({"directory": directory}, LOAD)
        self._check()
        artifact.save(self.content, directory)

    def close(self) -> None:
        """Release idle threads and arenas; the next run allocates new ones."""
        if self._loaded is not None:
            self._loaded.close()

    def summary(self) -> str:
        """One line: target, tasks, kernels, streams and memory."""
        code = sum(len(kernel.code) for kernel in self.kernels.values())
        chosen = None if self.choice is None else self.choice.schedule
        mode = f" as {chosen.chosen} ({chosen.source})" if chosen else ""
        tasks = counted(len(self.schedule.tasks), "task")
        kernels = len(self.kernels)
        return (
            f"{self.target}, {tasks} of {counted(kernels, 'kernel')} on"
            f" {counted(self.schedule.streams, 'stream')}{mode}, weights {self._size('weight')},"
            f" arena {self._size('arena')}, code {in_bytes(code)}"
        )

    def _size(self, kind: AllocationKind) -> str:
        return in_bytes(sum(a.nbytes for a in self.schedule.of_kind(kind)))

    def __repr__(self) -> str:
        return f"<Module {self.schedule.name!r}: {self.summary()}>"

    def _repr_html_(self) -> str:
        """A notebook's view: a table, and the predicted timeline.

        The prediction needs the compiler's libraries, which a loaded module runs without.
        """
        rows = {"target": self.target}
        spans = None
        try:
            from compiler.scheduling.prediction import gap, prediction

            predicted = prediction(self)
            spans = predicted.spans
            time = gap(self, predicted)
        except ImportError as error:
            time = f"not predicted: {error.name} is missing"
        return schedule_html(self.schedule, rows, {"time": time}, spans)


def load(
    directory: str | os.PathLike[str],
    threads: int | None = None,
    *,
    trusted: KeyFile | Sequence[KeyFile] | None = None,
    **options: Any,
) -> Module:
    """Load a saved module after verifying its files, its schedule, its kernels and this host.

    Raises ArtifactError for a missing, truncated or edited file, ArgumentError for an unknown
    option, and DeviceError, which names the missing requirement, if this host cannot run it. With
    `trusted`, one or several files of public keys, an artifact that none of them signed is an
    ArtifactError, too. `threads` work on each run (default: as many as the process may use);
    `options` are the backend's.
    """
    check_arguments({"directory": directory, "threads": threads, "trusted": trusted}, LOAD)
    if threads is not None:
        options["threads"] = threads
    return load_placed(directory, in_one_block, options, trusting(trusted))


def load_placed(
    directory: str | os.PathLike[str],
    place: Placing,
    options: Mapping[str, Any],
    vouch: Vouch,
) -> Module:
    """As `load`; `place` puts the weights somewhere, `vouch` says which manifests to trust."""

    def check(target: str, needed: Mapping[str, Any]) -> None:
        backend(target).check_options(options)
        backend(target).check(needed)

    content = artifact.load(directory, check, place, vouch)
    with taking("a module", **options):
        module = Module(content, **options)
    # Loaded now, so that a host that cannot run it is an error here, not at the first run.
    _ = module.executable
    return module
