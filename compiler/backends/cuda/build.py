"""The CUDA backend: schedules whose kernels are cubins, run on an NVIDIA GPU."""

from collections.abc import Mapping
from functools import partial
from operator import index
from typing import Any

from compiler.backends.base import RunsAllSizes, check_options
from compiler.backends.cuda.device import device
from compiler.backends.gpu.executable import GPU_LOAD_OPTIONS, GpuExecutable
from compiler.backends.gpu.sharing import DeviceShare
from compiler.backends.gpu.sized import SizeBuckets
from compiler.backends.memory import Array
from compiler.errors import DeviceError
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.support.arguments import whole
from compiler.target.target import parse_gpu
from compiler.verify.all_sizes import SizesCertificate


class CudaBackend:
    """Implements `compiler.backends.base.Backend`."""

    name = "cuda"

    def requirements(self, target: str) -> dict[str, Any]:
        """The architecture that the kernels are compiled for."""
        return {"architecture": parse_gpu(target).compiler_architecture}

    def check(self, requirements: Mapping[str, Any]) -> None:
        """Raise DeviceError unless a device is present that runs this architecture's cubins."""
        needed = str(requirements["architecture"])
        info = device().device
        if not runs_on(needed, info.architecture):
            raise DeviceError(
                f"the kernels are compiled for {needed}, {info.name} is {info.architecture}: "
                f"compile the model with --arch {info.architecture}"
            )

    def check_options(self, options: Mapping[str, Any]) -> None:
        check_options(options, {**GPU_LOAD_OPTIONS, "ordinal": whole()}, "the target cuda")

    def sharing(self) -> dict[str, Any]:
        """The option by which modules share weights and an arena."""
        return {"share": DeviceShare()}

    def for_sizes(
        self, certificate: SizesCertificate, weights: Mapping[str, Array], **options: Any
    ) -> SizeBuckets:
        """A symbolic schedule, to be loaded for sizes; `options` are those of `load`."""
        self.check_options(options)
        return SizeBuckets(certificate, weights, partial(self.load, **options))

    def load(
        self,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        weights: Mapping[str, Array],
        **options: Any,
    ) -> GpuExecutable:
        """Load on the device `ordinal` (0); other options are those of `GpuExecutable`."""
        self.check_options(options)
        ordinal = index(options.pop("ordinal", 0))
        return GpuExecutable.load(device(ordinal), schedule, kernels, weights, **options)


def runs_on(compiled: str, present: str) -> bool:
    """Whether a cubin for one architecture runs on another: same major, not newer minor.

    Architecture-specific code (`sm_90a`) runs on that architecture only.
    """
    code = compiled.removeprefix("sm_")
    device_code = present.removeprefix("sm_")
    if not code.isdigit():
        return code[:-1] == device_code
    return code[:-1] == device_code[:-1] and int(code) <= int(device_code)


BACKEND: RunsAllSizes = CudaBackend()
