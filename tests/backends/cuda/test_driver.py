"""Without a GPU: what is missing is said, and every name used of cuda-bindings exists."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from compiler.backends.base import backend
from compiler.backends.cuda import build, driver, target
from compiler.errors import DeviceError

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
    assert build.architecture("cuda") == target.DEFAULT_ARCHITECTURE


def test_targets_name_architectures():
    assert build.architecture("cuda:sm_100") == "sm_100"
    assert build.architecture("cuda:sm_80:fp16") == "sm_80"
    assert build.CudaBackend().requirements("cuda:sm_90:tf32") == {"architecture": "sm_90a"}
    with pytest.raises(DeviceError, match="no CUDA architecture"):
        build.architecture("cuda:fast")


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
        "CUgraphDependencyType": r"kind\.(CU_GRAPH_DEP\w+)\.value",
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
