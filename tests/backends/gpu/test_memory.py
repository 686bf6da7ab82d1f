"""Memory is accounted for before it is taken; what does not fit is an error with both sizes."""

import numpy as np
import pytest

from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.functions import Functions
from compiler.backends.gpu.memory import memory_need
from compiler.errors import DeviceError, KernelError, ShapeError
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Allocation, Schedule, Task
from tests.backends.gpu.cases import case
from tests.backends.gpu.recording import RecordingDriver
from tests.backends.gpu.test_graph import load

FOUND = case(2, tasks=8)


def schedule(arena: int, weight: int = 64) -> Schedule:
    return Schedule(
        "sizes",
        (
            Allocation("weight", "w", "uint8", (weight,)),
            Allocation("arena", "arena", "uint8", (arena,)),
            Allocation("output", "y", "float32", (3,)),
        ),
        (),
    )


def test_the_need_is_known_without_a_device():
    need = memory_need(schedule(1000, 300))
    assert (need.weights, need.arena, need.buffers) == (512, 1024, 256)
    assert need.total == 512 + 1024 + 256


def test_an_arena_that_does_not_fit_says_what_was_needed_and_free():
    driver = RecordingDriver({}, memory=8 << 20)
    weights = {"w": np.zeros(64, np.uint8)}
    executable = GpuExecutable.load(driver, schedule(64 << 20), {}, weights)
    with pytest.raises(DeviceError, match=r"executor needs 64\.0 MiB .* 8\.0 MiB are free"):
        executable.executor()


def test_a_graph_that_does_not_fit_says_how_large_it_is(monkeypatch: pytest.MonkeyPatch):
    driver = RecordingDriver({}, memory=8 << 20)
    executable = load(case(2, tasks=8), driver)

    def full(*_: object) -> None:
        raise DeviceError("CUDA_ERROR_OUT_OF_MEMORY")

    monkeypatch.setattr(driver, "instantiate", full)
    kernels = sum(len(mixes) for mixes in case(2, tasks=8).kernels.values())
    with pytest.raises(DeviceError, match=rf"graph of {kernels} kernels .* MiB .*OUT_OF_MEMORY"):
        executable.run(case(2, tasks=8).inputs(0))
    assert "destroy_graph" in driver.log


def test_weights_are_uploaded_once_for_all_executors():
    driver = RecordingDriver({})
    weights = {"w": np.arange(4096, dtype=np.uint8)}
    executable = GpuExecutable.load(driver, schedule(1 << 20, 4096), {}, weights)
    free = driver.free_memory()
    executors = [executable.executor() for _ in range(3)]
    used = [free - driver.free_memory()]
    assert used[0] < 3 * ((1 << 20) + 1024)
    assert executable.memory.arena * 3 >= used[0]
    del executors


def test_a_weight_of_another_shape_is_refused():
    with pytest.raises(ShapeError, match="'w'"):
        GpuExecutable.load(RecordingDriver({}), schedule(0), {}, {"w": np.zeros(3, np.uint8)})


def one(launch: Launch, language: str = "cuda", code: bytes = b"\x7fELF") -> Functions:
    """The functions of a schedule with one kernel."""
    spec = KernelSpec("k", language, code, (launch,), ())  # type: ignore[arg-type]
    tasks = (Task("k", 0, (), (), ()),)
    driver = RecordingDriver({"f": print})
    return Functions(driver, Schedule("s", (), tasks), {"k": spec})


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (Launch("g", ()), "no kernel 'g'"),
        (Launch("f", (), block=(2048, 1, 1)), "2048 threads a block, at most 1024"),
        (Launch("f", (), shared_bytes=300_000), "300000 bytes of shared memory, 232448 exist"),
    ],
)
def test_a_kernel_that_cannot_be_launched_is_named(launch: Launch, message: str):
    with pytest.raises(DeviceError, match=f"kernel 'k'.*{message}"):
        one(launch)


def test_code_for_another_target_is_refused():
    with pytest.raises(DeviceError, match="is hip code, this device runs cuda"):
        one(Launch("f", ()), "hip")
    with pytest.raises(DeviceError, match="compile it for sm_90"):
        one(Launch("f", ()), code=b"MZ")


def test_a_missing_kernel_is_named():
    with pytest.raises(KernelError, match="'k0' is missing"):
        Functions(RecordingDriver({}), Schedule("s", (), (Task("k0", 0, (), (), ()),)), {})


def test_large_shared_memory_is_asked_for():
    spec = KernelSpec("k", "cuda", b"\x7fELF", (Launch("f", (), shared_bytes=100_000),), ())
    driver = RecordingDriver({"f": print})
    functions = Functions(driver, Schedule("s", (), (Task("k", 0, (), (), ()),)), {"k": spec})
    assert "allow_shared f 100000" in driver.log
    functions.close()
    assert "unload_module" in driver.log


def test_runs_fill_the_report():
    executable = load(FOUND, RecordingDriver({}))
    need = memory_need(FOUND.schedule)
    assert executable.memory.weights == need.weights
    assert executable.memory.arena == need.arena + need.buffers
    assert executable.threads == 1
