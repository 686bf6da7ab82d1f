"""The CPU backend: a team of native threads runs the streams of a schedule."""

import os
from collections.abc import Iterable, Mapping
from operator import index
from typing import Any

from compiler.backends.base import Array, check_options
from compiler.backends.cpu import features
from compiler.backends.cpu.arenas import ArenaPool
from compiler.backends.cpu.build import SharedCode
from compiler.backends.cpu.executable import BoundSchedule, CpuExecutable, CpuSettings
from compiler.backends.cpu.sized import SizedCode
from compiler.backends.cpu.tables import make_plan
from compiler.backends.memory import address, place_weights
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.support.arguments import BOOLEAN, THREAD_COUNT, ArgumentKind, instance, optional
from compiler.verify.all_sizes import SizesCertificate
from compiler.verify.structure import check_structure

CPU_LOAD_OPTIONS: Mapping[str, ArgumentKind] = {
    "threads": optional(THREAD_COUNT),
    "poison": BOOLEAN,
    "arenas": optional(instance(ArenaPool, "the arenas of other executables")),
    "code": optional(instance(SharedCode, "the code of other executables")),
}
"""The options of `CpuBackend.load`."""


def usable_threads() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CpuBackend:
    """Runs object-file kernels on the host's CPU."""

    name = "cpu"

    def requirements(self, target: str) -> dict[str, Any]:
        """The architecture and the features that the target's code uses."""
        return features.requirements(target)

    def check(self, requirements: Mapping[str, Any]) -> None:
        """Raise DeviceError, naming the features, unless this CPU has them all."""
        features.check_features(requirements)

    def check_options(self, options: Mapping[str, Any]) -> None:
        check_options(options, CPU_LOAD_OPTIONS, "the CPU")

    def load(
        self,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        weights: Mapping[str, Array],
        **options: Any,
    ) -> "CpuExecutable":
        """Link the kernels and place the weights.

        `threads` work on each run, the caller's included (default: all cores that this process
        may use). `poison` fills arena and outputs with NaN before each run. Executables with the
        same `arenas` share them, and those with the same `code` link it once: it has all kernels.
        """
        self.check_options(options)
        check_structure(schedule)
        placed = place_weights(schedule, weights)
        program = _shared_code(options, kernels.values()).program
        bases = [address(placed[a.name]) if a.kind == "weight" else 0 for a in schedule.allocations]
        bound = BoundSchedule(
            program=program,
            plan=make_plan(schedule, kernels, program.addresses),
            allocations=schedule.allocations,
            weights=placed,
            bases=bases,
            streams=schedule.streams,
        )
        return CpuExecutable(bound, _settings(options))

    def for_sizes(
        self, certificate: SizesCertificate, weights: Mapping[str, Array], **options: Any
    ) -> "SizedCode":
        """A symbolic schedule's code and weights, for executables that are made for sizes.

        `options` are those of `load`.
        """
        self.check_options(options)
        code = _shared_code(options, certificate.schedule.kernels.values())
        return SizedCode(certificate, weights, code.program, _settings(options))

    def sharing(self) -> dict[str, Any]:
        """The options by which modules that never run at once share arenas."""
        return {"arenas": ArenaPool()}


def _settings(options: Mapping[str, Any]) -> CpuSettings:
    return CpuSettings(
        threads=index(options.get("threads") or usable_threads()),
        poison=options.get("poison", False),
        arenas=options.get("arenas") or ArenaPool(),
    )


def _shared_code(options: Mapping[str, Any], kernels: Iterable[KernelSpec]) -> SharedCode:
    return options.get("code") or SharedCode(kernels)


BACKEND = CpuBackend()
