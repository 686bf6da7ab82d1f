"""Without a GPU: what is missing is said, and every name used of cuda-bindings exists."""

import re
from collections.abc import Callable
from enum import IntEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from compiler.backends.base import backend
from compiler.backends.cuda import build, driver
from compiler.backends.cuda.device import present_architecture
from compiler.backends.gpu import memory
from compiler.backends.gpu.driver import DeviceInfo
from compiler.errors import DeviceError, KernelError
from compiler.target.devices import DEFAULT_ARCHITECTURES

needs_bindings = pytest.mark.skipif(find_spec("cuda") is None, reason="needs cuda-bindings")


@pytest.fixture
def fresh():
    """Forget what was found of CUDA before and after."""
    for cached in (driver.bindings, build.device):
        cached.cache_clear()
    yield
    for cached in (driver.bindings, build.device):
        cached.cache_clear()


class Library:
    """What cuda-bindings looks like on a machine with a driver and no device."""

    class CUresult:
        CUDA_SUCCESS = 0

    class Status:
        name = "CUDA_ERROR_NO_DEVICE"

    @classmethod
    def load(cls, name: str) -> "Library":
        assert name == "cuda.bindings.driver"
        return cls()

    def cuInit(self, flags: int) -> tuple[Any]:
        del flags
        return (self.Status(),)


@pytest.mark.usefixtures("fresh")
def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    def fail(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(driver, "import_module", fail)
    with pytest.raises(DeviceError, match=r"cuda-bindings: pip install 'flowloom\[cuda\]'"):
        backend("cuda").check({"architecture": "sm_90"})


@pytest.mark.usefixtures("fresh")
def test_a_missing_driver_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    class Without(Library):
        def cuInit(self, flags: int) -> tuple[Any]:
            raise RuntimeError("libcuda.so.1")

    monkeypatch.setattr(driver, "import_module", Without.load)
    with pytest.raises(DeviceError, match="install the NVIDIA display driver"):
        driver.CudaDriver()


@pytest.mark.usefixtures("fresh")
def test_a_missing_device_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(driver, "import_module", Library.load)
    with pytest.raises(DeviceError, match=r"CUDA_ERROR_NO_DEVICE.*nvidia-smi"):
        driver.CudaDriver()
    assert present_architecture() == DEFAULT_ARCHITECTURES["cuda"]


class Fake:
    """The driver's functions, of which each answers as given; its results are named integers."""

    class CUresult(IntEnum):
        CUDA_SUCCESS = 0
        CUDA_ERROR_OUT_OF_MEMORY = 2
        CUDA_ERROR_INVALID_IMAGE = 200
        CUDA_ERROR_NO_BINARY_FOR_GPU = 209

    def __init__(self, **answers: Any) -> None:
        self._answers = {"cuInit": (), "cuDriverGetVersion": (13000,), **answers}

    def __getattr__(self, name: str) -> Any:
        answer = self._answers[name]
        failed = isinstance(answer, self.CUresult)
        result = (answer, None) if failed else (self.CUresult.CUDA_SUCCESS, *answer)

        def function(*_: Any) -> tuple[Any, ...]:
            return result

        return function

    def cuGetErrorString(self, status: "Fake.CUresult") -> tuple[Any, bytes]:
        return (self.CUresult.CUDA_SUCCESS, status.name.lower().encode())


@pytest.fixture
def fake(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes a driver of fake functions, as on a device of sm_90."""

    def make(**answers: Any) -> Any:
        library = Fake(**answers)

        def load(name: str) -> Fake:
            return library

        monkeypatch.setattr(driver, "import_module", load)
        found: Any = object.__new__(driver.CudaDriver)
        found._cu, found.ordinal = driver.bindings(), 0
        found._device_info = DeviceInfo(
            "H200", "sm_90", 0, "13.0", 132, 1 << 37, 1 << 20, 227 << 10, 10**6, 10**6, 4096
        )
        return found

    return make


@pytest.mark.parametrize("version", [0, 11080, 12090])
def test_an_old_driver_is_named(fake: Callable[..., Any], version: int):
    with pytest.raises(DeviceError, match=r"CUDA \d+\.\d, kernels need .*13\.0 .*update"):
        fake(cuDriverGetVersion=(version,))


def test_a_device_that_is_not_there_is_named(fake: Callable[..., Any]):
    fake(cuDeviceGetCount=(2,))
    with pytest.raises(DeviceError, match="no CUDA device 2: 2 are visible"):
        driver.CudaDriver(2)


@pytest.mark.parametrize("status", ["CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_NO_BINARY_FOR_GPU"])
def test_code_of_another_architecture_says_what_to_compile_for(
    fake: Callable[..., Any], status: str
):
    found = fake(cuModuleLoadData=Fake.CUresult[status])
    with pytest.raises(DeviceError, match=rf"H200 \({status}\).*--arch sm_90"):
        found.load_module(b"")


def test_kernels_of_another_architecture_are_refused_before_they_are_loaded(
    fake: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    found = fake()
    monkeypatch.setattr(build, "device", lambda: found)
    build.CudaBackend().check({"architecture": "sm_90"})
    with pytest.raises(DeviceError, match=r"for sm_80, H200 is sm_90: .*--arch sm_90"):
        build.CudaBackend().check({"architecture": "sm_80"})


def test_memory_that_runs_out_is_told_with_the_amount(fake: Callable[..., Any]):
    full = Fake.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    found = fake(cuMemGetInfo=(1 << 30, 1 << 37), cuMemAlloc=full, cuMemHostAlloc=full)
    found._cu.CU_MEMHOSTALLOC_PORTABLE = 1
    for nbytes in (3 << 20, 3 << 30):
        with pytest.raises(DeviceError, match=rf"weights needs {nbytes >> 20}\.0 MiB.*1024\.0 MiB"):
            memory.reserve(found, nbytes, "the weights")
    with pytest.raises(DeviceError, match=r"3\.0 MiB of page-locked .*CUDA_ERROR_OUT_OF_MEMORY"):
        memory.Pinned(found, 3 << 20)


def test_the_requirement_is_the_architecture_that_is_compiled_for():
    requirements = build.CudaBackend().requirements
    assert requirements("cuda:sm_100") == {"architecture": "sm_100"}
    assert requirements("cuda:sm_80:fp16") == {"architecture": "sm_80"}
    assert requirements("cuda:sm_90:tf32") == {"architecture": "sm_90a"}
    with pytest.raises(KernelError, match="'fast' is not an architecture of NVIDIA"):
        requirements("cuda:fast")


@pytest.mark.parametrize(
    ("compiled", "present", "runs"),
    [
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_90", True),
        ("sm_100", "sm_103", True),
        ("sm_100a", "sm_103", False),
    ],
)
def test_binary_compatibility(compiled: str, present: str, runs: bool):
    assert build.runs_on(compiled, present) is runs


@needs_bindings
def test_every_name_used_of_the_bindings_exists():
    library = import_module("cuda.bindings.driver")
    text = Path(driver.__file__).read_text()
    used = set(re.findall(r"\b(?:cu|self\._cu|library|bindings\(\))\.(\w+)", text))
    assert {"cuGraphAddKernelNode", "CUDA_MEMCPY3D", "cuGraphExecKernelNodeSetParams"} <= used
    assert {"cuGraphAddDependencies", "CUgraphEdgeData", "CUgraphDependencyType"} <= used
    assert [name for name in used if not hasattr(library, name)] == []
    enums = {
        "CUdevice_attribute": r'_attribute\("(\w+)"\)',
        "CUgraphInstantiate_flags": r"flags\.(CUDA_GRAPH\w+)",
        "CUstream_flags": r"flags\.(CU_STREAM\w+)",
        "CUevent_flags": r"flags\.(CU_EVENT\w+)",
        "CUmemorytype": r"kind\.(CU_MEMORYTYPE\w+)",
        "CUgraphDependencyType": r"\.(CU_GRAPH_DEP\w+)\.value",
        "CUresult": r"CUresult\.(\w+)",
    }
    for kind, pattern in enums.items():
        prefix = "CU_DEVICE_ATTRIBUTE_" if kind == "CUdevice_attribute" else ""
        members = re.findall(pattern, text)
        assert members, kind
        assert [m for m in members if not hasattr(getattr(library, kind), prefix + m)] == []


@needs_bindings
def test_a_call_hands_its_addresses_to_the_driver():
    import ctypes

    found = pytest.importorskip("cuda.bindings.driver")
    call = object.__new__(driver.CudaCall)
    original, driver.bindings = driver.bindings, lambda: found
    try:
        call.__init__(found.CUfunction(1), (2, 3, 4), (5, 6, 7), 8, (11, 12))
    finally:
        driver.bindings = original
    call.set_argument(1, 99)
    pointers = (ctypes.c_void_p * 2).from_address(call.params)
    assert [ctypes.c_uint64.from_address(p or 0).value for p in pointers] == [11, 99]
    node = call.node
    assert (node.gridDimX, node.gridDimY, node.gridDimZ) == (2, 3, 4)
    assert (node.blockDimX, node.blockDimY, node.blockDimZ) == (5, 6, 7)
    assert (node.sharedMemBytes, node.kernelParams) == (8, call.params)
