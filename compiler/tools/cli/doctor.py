"""The parts of this machine that Flowloom uses, which work or need a remedy: `flowloom doctor`.

Each check asks the code that will need the thing, so that a check and a later compilation cannot
disagree; none compiles a kernel or starts a GPU's context.
"""

import os
import platform
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal

from compiler import __version__
from compiler.backends.cpu.driver import usable_threads
from compiler.backends.cuda.driver import bindings, check_status, version_text
from compiler.backends.hip.driver import HipRuntime
from compiler.emulator.compile import host_compiler
from compiler.errors import ArtifactError, DeviceError, FlowloomError, KernelError
from compiler.kernels.building import KernelCache
from compiler.kernels.building.library import opened
from compiler.kernels.cpu.host import database_name
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.gpu.compilers.hip_toolchain import hip_compiler, hip_version
from compiler.kernels.library.files import library_files
from compiler.support.caches import REMEDY, writable
from compiler.support.words import counted, in_bytes
from compiler.target.caches import CACHES, data_caches
from compiler.target.nvrtc import NO_NVRTC, nvrtc_architectures, nvrtc_version
from compiler.tools.api.keeping import kept_modules

Status = Literal["ok", "absent", "broken"]
"""Whether a thing works, is not there though nothing has to need it, or must be mended."""


@dataclass(frozen=True)
class Diagnosis:
    """One thing that Flowloom uses, and how it is on this machine."""

    name: str
    status: Status
    text: str
    """The version, size or place of what works; the reason why it does not, and the remedy."""

    def line(self) -> str:
        """One line for people."""
        mark = {"ok": "ok", "absent": "--", "broken": "!!"}[self.status]
        return f"{mark}  {self.name:18} {self.text}"

    def as_json(self) -> dict[str, str]:
        """One object for programs."""
        return {"name": self.name, "status": self.status, "text": self.text}


def examine() -> dict[str, list[Diagnosis]]:
    """The checks of this machine, by the section that lists them."""
    return {
        "Flowloom": [
            Diagnosis("flowloom", "ok", f"{__version__} in {Path(__file__).parents[2]}"),
            Diagnosis("Python", "ok", f"{platform.python_version()} ({sys.executable})"),
            *_packages(),
        ],
        "Processor": [*_processor()],
        "NVIDIA GPUs": [
            _asked("driver and devices", _cuda_devices),
            _asked("compiler", _cuda_compiler),
        ],
        "AMD GPUs": [_asked("compiler", _hip_compiler), _asked("devices", _hip_devices)],
        "C++": [
            _asked("emulator", lambda: f"kernels of GPUs run on this CPU, by {host_compiler()}"),
            _asked("exported projects", _cmake),
        ],
        "Caches": [*_caches()],
        "Libraries of kernels": [*_libraries()],
    }


def targets(checks: Mapping[str, Sequence[Diagnosis]]) -> dict[str, str]:
    """Whether each target compiles and runs here, by its name."""
    status = {(section, c.name): c.status for section, cs in checks.items() for c in cs}

    def says(section: str, compiler: str, devices: str) -> str:
        if status[section, compiler] != "ok":
            return "cannot compile: see above"
        runs = status[section, devices] == "ok"
        return "compiles and runs" if runs else "compiles and saves; running needs a device"

    return {
        "cpu": "compiles and runs",
        "cuda": says("NVIDIA GPUs", "compiler", "driver and devices"),
        "hip": says("AMD GPUs", "compiler", "devices"),
        "emu": says("C++", "emulator", "emulator"),
    }


def _asked(name: str, question: Callable[[], str]) -> Diagnosis:
    """A check by asking; an error's message says what is missing, and how to mend it."""
    try:
        return Diagnosis(name, "ok", question())
    except FlowloomError as error:
        return Diagnosis(name, "absent", str(error))


def _packages() -> Iterator[Diagnosis]:
    """The packages that Flowloom requires, and those of each extra."""
    try:
        required = requires("flowloom") or []
    except PackageNotFoundError:
        yield Diagnosis("packages", "broken", "not installed: pip install -e . in the clone")
        return
    extras: dict[str, list[str]] = {}
    for requirement in required:
        package, _, marker = requirement.partition(";")
        name = _distribution(package)
        if "extra" in marker:
            extras.setdefault(marker.split("==")[1].strip(" '\""), []).append(name)
            continue
        try:
            yield Diagnosis(name, "ok", version(name))
        except PackageNotFoundError:
            yield Diagnosis(name, "broken", f"missing: pip install '{package.strip()}'")
    for extra, names in extras.items():
        missing = [name for name in names if not _installed(name)]
        text = f"missing {', '.join(missing)}: pip install 'flowloom[{extra}]'"
        yield Diagnosis(
            f"extra {extra}", "absent" if missing else "ok", text if missing else ", ".join(names)
        )


def _distribution(requirement: str) -> str:
    """The name that a requirement such as `onnx>=1.20` begins with."""
    end = next((i for i, c in enumerate(requirement) if c in "<>=!~[; "), len(requirement))
    return requirement[:end]


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _processor() -> Iterator[Diagnosis]:
    target = host_target()
    threads = usable_threads()
    yield Diagnosis("kind", "ok", f"{platform.machine()}, LLVM's {target.mcpu}")
    yield Diagnosis("threads", "ok", f"{threads} of {os.cpu_count()} for a run")
    sizes = [f"L{level} {in_bytes(size)}" for level, size in sorted(data_caches(CACHES).items())]
    yield Diagnosis(
        "data caches",
        "ok" if sizes else "absent",
        ", ".join(sizes) or f"{CACHES} does not say: typical sizes are assumed",
    )
    yield Diagnosis("tuned kernels", "ok", f"kept as {database_name(target)} (flowloom tune)")


def _cuda_devices() -> str:
    library: Any = bindings()
    count: int = check_status(library.cuDeviceGetCount())
    if not count:
        raise DeviceError("the driver has no device: check CUDA_VISIBLE_DEVICES and nvidia-smi")
    devices: list[str] = []
    for ordinal in range(count):
        device = check_status(library.cuDeviceGet(ordinal))
        name = check_status(library.cuDeviceGetName(80, device)).decode().rstrip("\0")
        kind = library.CUdevice_attribute
        major, minor = (
            check_status(library.cuDeviceGetAttribute(attribute, device))
            for attribute in (
                kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        memory = in_bytes(check_status(library.cuDeviceTotalMem(device)))
        devices.append(f"{name} (sm_{major}{minor}, {memory})")
    driver = version_text(check_status(library.cuDriverGetVersion()))
    return f"driver for CUDA {driver}; {', '.join(devices)}"


def _cuda_compiler() -> str:
    architectures = nvrtc_architectures()
    if not architectures:
        raise KernelError(NO_NVRTC)
    return f"{nvrtc_version()}, for {architectures[0]} to {architectures[-1]}"


def _hip_compiler() -> str:
    return f"{' '.join(hip_compiler())}: {hip_version()}"


def _hip_devices() -> str:
    device = HipRuntime.open().device(0)
    return f"{device.name} ({device.architecture})"


def _cmake() -> str:
    path = shutil.which("cmake")
    if path is None:
        raise DeviceError("there is no cmake on the PATH: Debian has it (apt-get install cmake)")
    return f"built by {path} and {host_compiler()}"


def _caches() -> Iterator[Diagnosis]:
    cache = KernelCache()
    with warnings.catch_warnings(record=True):
        usable = writable(cache.directory)
    if not usable:
        yield Diagnosis("kernels", "broken", f"{cache.directory} cannot be written: {REMEDY}")
        return
    status = cache.status()
    kernels = f"{counted(status.entries, 'kernel')}, {in_bytes(status.nbytes)}"
    yield Diagnosis("kernels", "ok", f"{kernels} in {status.directory}")
    modules = kept_modules()
    nbytes = in_bytes(sum(size for _, size, _ in modules))
    yield Diagnosis("whole modules", "ok", f"{counted(len(modules), 'module')}, {nbytes}")


def _libraries() -> Iterator[Diagnosis]:
    """The libraries of kernels, and whether they serve this machine."""
    if not library_files():
        yield Diagnosis("kernels", "absent", "none: all kernels are built (flowloom library build)")
    for path in library_files():
        try:
            library = opened(path)
        except ArtifactError as error:
            yield Diagnosis(path.stem, "broken", str(error))
            continue
        origin = library.origin
        used = " (this machine's)" if library.serves(host_target()) else ""
        kernels = f"{counted(len(library), 'kernel')}, {in_bytes(path.stat().st_size)}"
        yield Diagnosis(
            path.stem, "ok", f"{kernels} for {origin.target}{used}, {origin.generators}"
        )
