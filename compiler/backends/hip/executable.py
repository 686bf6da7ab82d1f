"""A model on an AMD GPU: runs go through the C interface of its library."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from compiler.backends.base import Array, MemoryReport, check_options
from compiler.backends.cpu.inputs import prepare_inputs
from compiler.backends.gpu.image import write_weights_image
from compiler.backends.gpu.timeline import Span
from compiler.backends.hip.interface import Library, Model
from compiler.backends.memory import aligned_array
from compiler.schedule.choices import MODES
from compiler.schedule.tasks import Schedule
from compiler.support.arguments import ArgumentKind, choice_of
from compiler.tensors.dtypes import numpy_dtype

PROFILE_RUNS = 15
"""The runs of a timeline: the one of median length is reported."""


HIP_EXECUTOR_OPTIONS: Mapping[str, ArgumentKind] = {"mode": choice_of(MODES)}
"""The options of an executor."""


@dataclass(frozen=True)
class HipProgram:
    """The resources that executors of a module share; `weights` are packed, by allocation name."""

    library: Library
    schedule: Schedule
    weights: Mapping[str, Array]
    code_bytes: int
    mode: str
    ordinal: int

    def model(self, mode: str | None = None) -> Model:
        """A model with its own weights and arena; DeviceError if there is no room."""
        # the C interface reads weights from a file alone
        with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
            path = Path(folder) / "weights.bin"
            write_weights_image(path, self.schedule, self.weights)
            return self.library.create(path, mode or self.mode, self.ordinal)


class HipExecutor:
    """One arena and one copy of the weights, which models of the C interface do not share."""

    def __init__(self, program: HipProgram, mode: str | None = None) -> None:
        self._program = program
        self._model = program.model(mode)

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """Run once on arrays of the host and wait; outputs by name, in the model's order."""
        check_options(options, {}, "a run on an AMD GPU")
        schedule = self._program.schedule
        arrays = prepare_inputs(schedule.allocations, inputs)
        outputs = {
            allocation.name: aligned_array(allocation.shape, numpy_dtype(allocation.dtype))
            for allocation in schedule.of_kind("output")
        }
        self._model.run(arrays, list(outputs.values()))
        return outputs

    def timeline(self) -> list[Span]:
        """The start and end of each task, from timing events around plain launches."""
        tasks = json.loads(self._model.profile(PROFILE_RUNS))["tasks"]
        return [Span(1e3 * task["start"], 1e3 * task["end"]) for task in tasks]

    def close(self) -> None:
        """Give its memory back; it cannot run any more."""
        self._model.close()


class HipExecutable:
    """Implements `compiler.backends.base.Executable` over the library of a model."""

    def __init__(self, program: HipProgram) -> None:
        """Take the memory of one executor; raises DeviceError if there is no room."""
        program.library.check(program.schedule)
        self._program = program
        self._lock = Lock()
        self._own: HipExecutor | None = HipExecutor(program)

    @property
    def streams(self) -> int:
        return self._program.schedule.streams

    @property
    def threads(self) -> int:
        """The host threads that work on a run: the caller's alone."""
        return 1

    @property
    def memory(self) -> MemoryReport:
        """Device memory in bytes; an executor's inputs and outputs count as arena."""
        program = self._program
        kinds = ("input", "output")
        buffers = sum(a.nbytes for kind in kinds for a in program.schedule.of_kind(kind))
        library = program.library
        return MemoryReport(library.weight_bytes, library.arena_bytes + buffers, program.code_bytes)

    def executor(self, **options: Any) -> HipExecutor:
        """A further executor, in `mode` graph, subgraphs or streams."""
        check_options(options, HIP_EXECUTOR_OPTIONS, "an executor on an AMD GPU")
        return HipExecutor(self._program, options.get("mode"))

    @property
    def _default(self) -> HipExecutor:
        with self._lock:
            if self._own is None:
                self._own = HipExecutor(self._program)
            return self._own

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """Run once and wait; runs of several threads follow each other."""
        return self._default.run(inputs, **options)

    def timeline(self) -> list[Span]:
        """See `HipExecutor.timeline`."""
        return self._default.timeline()

    def close(self) -> None:
        """Give the memory of the default executor back; the next run takes it again."""
        with self._lock:
            if self._own is not None:
                self._own.close()
                self._own = None
