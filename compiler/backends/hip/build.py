"""The HIP backend: modules as shared libraries with the C interface of exported projects."""

import platform
import re
import tempfile
from collections.abc import Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any

from compiler.backends.base import Array, Backend, check_options
from compiler.backends.hip.driver import HipRuntime
from compiler.backends.hip.executable import HIP_EXECUTOR_OPTIONS, HipExecutable, HipProgram
from compiler.backends.hip.interface import Library
from compiler.errors import DeviceError
from compiler.schedule.choices import MODES
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.support.arguments import ArgumentKind, whole
from compiler.target.target import parse_gpu
from compiler.verify.structure import check_structure

BUILT_FOR = re.compile(rb" hip:(gfx[0-9a-fgx,]+):[a-z0-9]+\0")
"""The target in a library's version; its code objects may be compressed."""

RUNTIME = re.compile(rb"libamdhip64\.so(?:\.\d+)?")
"""The name of the runtime that a library needs."""


HIP_LOAD_OPTIONS: Mapping[str, ArgumentKind] = {**HIP_EXECUTOR_OPTIONS, "ordinal": whole()}
"""The options of `HipBackend.load`."""


class HipBackend:
    """Implements `compiler.backends.base.Backend`."""

    name = "hip"

    def requirements(self, target: str) -> dict[str, Any]:
        """The architectures that the kernels are compiled for, and the kind of host."""
        named = parse_gpu(target).architectures
        return {"architectures": list(named), "machine": platform.machine()}

    def check(self, requirements: Mapping[str, Any]) -> None:
        """Raise DeviceError, naming what is missing, unless this host runs these code objects."""
        if requirements["machine"] != platform.machine():
            raise DeviceError(
                f"the module's library is for {requirements['machine']}, this host is"
                f" {platform.machine()}: compile the model here"
            )
        check_device(requirements.get("runtime"), requirements["architectures"], 0)

    def check_options(self, options: Mapping[str, Any]) -> None:
        check_options(options, HIP_LOAD_OPTIONS, "an AMD GPU")

    def sharing(self) -> dict[str, Any]:
        """Nothing: each executable has a separate arena."""
        return {}

    def load(
        self,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        weights: Mapping[str, Array],
        *,
        library: bytes = b"",
        **options: Any,
    ) -> HipExecutable:
        """Load on the device `ordinal` (0); `mode` is graph (the default), subgraphs or streams."""
        self.check_options(options)
        ordinal = index(options.get("ordinal", 0))
        if not library:
            raise DeviceError("the module has no library: compile the model again")
        check_structure(schedule)
        check_device(needed_runtime(library), compiled_architectures(library), ordinal)
        mode = options.get("mode") or MODES[0]
        return load_library(library, schedule, weights, mode, ordinal)


def load_library(
    library: bytes, schedule: Schedule, weights: Mapping[str, Array], mode: str, ordinal: int
) -> HipExecutable:
    """Open a library of any platform, and allocate the memory of one executor."""
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        path = Path(folder) / "library.so"
        path.write_bytes(library)
        opened = Library(path)  # the mapping outlives the file
    return HipExecutable(
        HipProgram(
            library=opened,
            schedule=schedule,
            weights=weights,
            code_bytes=len(library),
            mode=mode,
            ordinal=ordinal,
        )
    )


def check_device(runtime: str | None, compiled: Sequence[str], ordinal: int) -> None:
    """Raise DeviceError unless the runtime is installed and the device runs what was compiled.

    The check comes before the library is opened: some runtimes end a process whose library has no
    code for the device.
    """
    device = HipRuntime.open(runtime).device(ordinal)
    if device.architecture not in compiled:
        raise DeviceError(
            f"the module is compiled for {', '.join(compiled)}, {device.name} (device {ordinal}) is"
            f" {device.architecture}: compile the model with --arch {device.architecture}"
        )


def compiled_architectures(library: bytes) -> tuple[str, ...]:
    """The architectures that a library was built for."""
    match = BUILT_FOR.search(library)
    return tuple(match[1].decode().split(",")) if match else ()


def needed_runtime(library: bytes) -> str | None:
    """The runtime that a library is linked to, such as `libamdhip64.so.5`."""
    match = RUNTIME.search(library)
    return match and match[0].decode()


def requirements_of(target: str, library: bytes, compiler: str) -> dict[str, Any]:
    """The requirements of a library, and the compiler that made it."""
    needed = {"runtime": needed_runtime(library), "compiler": compiler}
    return {**BACKEND.requirements(target), **needed}


BACKEND: Backend = HipBackend()
