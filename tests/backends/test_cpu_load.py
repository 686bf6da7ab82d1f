"""What the CPU backend refuses to load, and how it says so."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy
import pytest

from compiler.backends.base import backend
from compiler.backends.cpu import features
from compiler.backends.cpu.build import SharedCode, read_symbols
from compiler.backends.cpu.driver import BACKEND, usable_threads
from compiler.errors import ArgumentError, DeviceError, KernelError, ScheduleError, ShapeError
from compiler.schedule.kernels import KernelSpec, Launch
from tests.backends.objects import MIX, chain, compile_object, empty, kernels, mix, values

WEIGHTS = {"w": values(1)}


def test_an_unknown_target_names_those_there_are() -> None:
    assert backend("cpu:x86-64-v3").name == "cpu"
    with pytest.raises(DeviceError, match="unknown target 'abacus': use 'cpu'"):
        backend("abacus")


def test_missing_libraries_make_a_target_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compiler.backends.cpu.driver", None)
    with pytest.raises(DeviceError, match="'cpu' cannot be used here"):
        backend("cpu")


def test_a_missing_kernel_is_named() -> None:
    with pytest.raises(KernelError, match="mix4_1"):
        BACKEND.load(chain(), {}, WEIGHTS)


@pytest.mark.parametrize("threads", [0, -3, "2", 1.5])
def test_threads_are_a_whole_number(threads: Any) -> None:
    refused = pytest.raises(
        ArgumentError, match=r"threads is .*: it must be a whole number, at least 1"
    )
    with refused:
        BACKEND.load(chain(), kernels(), WEIGHTS, threads=threads)
    with refused:
        BACKEND.load(chain(), kernels(), WEIGHTS).executor(threads=threads)


def test_unknown_options_are_named() -> None:
    with pytest.raises(ArgumentError, match="the CPU has no option 'bogus': there are threads"):
        BACKEND.load(chain(), kernels(), WEIGHTS, bogus=1)
    with pytest.raises(ArgumentError, match="a CPU executor has no option 'mode': there are"):
        BACKEND.load(chain(), kernels(), WEIGHTS).executor(mode="graph")


@pytest.mark.parametrize("code", [b"", b"\x7fELF\x02\x01", b"MZ" * 100])
def test_damaged_code_is_an_error(code: bytes) -> None:
    broken = replace(mix("mix4_1", 4), code=code)
    with pytest.raises(KernelError, match="mix4_1"):
        BACKEND.load(chain(), {"mix4_1": broken}, WEIGHTS)


def kernel_from(text: str, symbol: str = "k") -> KernelSpec:
    return KernelSpec("k", "object", compile_object(text), (Launch(symbol, ()),), ())


def test_missing_functions_are_named() -> None:
    lonely = "declare void @nowhere()\ndefine void @k(ptr %b, i64 %x, i64 %y) {\n"
    lonely += "call void @nowhere()\nret void\n}"
    with pytest.raises(KernelError, match="nowhere"):
        BACKEND.load(chain(), kernels() | {"k": kernel_from(lonely)}, WEIGHTS)
    with pytest.raises(KernelError, match="other"):
        BACKEND.load(
            chain(), {"k": kernel_from(lonely.replace("nowhere", "exp"), "other")}, WEIGHTS
        )


def test_one_function_defined_twice_is_an_error() -> None:
    own = mix("mix4_1", 4)
    twin = replace(own, name="twin", code=own.code + bytes(8))
    with pytest.raises(KernelError, match="both define 'mix4_1'"):
        BACKEND.load(chain(), kernels() | {"twin": twin}, WEIGHTS)


def test_shared_code_without_a_kernel_is_an_error() -> None:
    with pytest.raises(KernelError, match="the code shared by executables has no 'mix"):
        BACKEND.load(chain(), kernels(), WEIGHTS, code=SharedCode(()))


def test_arguments_beyond_the_task_are_an_error() -> None:
    launch = Launch("mix4_1", (0, 1, 3), (4, 1, 1))
    wrong = replace(mix("mix4_1", 4), launches=(launch,))
    with pytest.raises(KernelError, match="mix4_1"):
        BACKEND.load(chain(), {"mix4_1": wrong}, WEIGHTS)


def test_kernels_may_call_libm() -> None:
    text = MIX.format(symbol="k", cells=1, delay=1)
    text += "declare double @exp(double)\ndefine double @e(double %x) {\n"
    text += "%y = call double @exp(double %x)\nret double %y\n}"
    code = compile_object(text)
    assert "exp" in read_symbols(code).undefined
    BACKEND.load(chain(), kernels() | {"k": kernel_from(text)}, WEIGHTS)


def test_a_kernel_of_another_device_is_an_error() -> None:
    with pytest.raises(DeviceError, match="cuda"):
        BACKEND.load(chain(), {"mix4_1": replace(mix("mix4_1", 4), language="cuda")}, WEIGHTS)


def test_weights_must_fit() -> None:
    with pytest.raises(ShapeError, match="'w'"):
        BACKEND.load(chain(), kernels(), {})
    with pytest.raises(ShapeError, match="'w'"):
        BACKEND.load(chain(), kernels(), {"w": values(1)[:-1]})
    with pytest.raises(ShapeError, match="'w'"):
        BACKEND.load(chain(), kernels(), {"w": values(1).astype(numpy.int32)})


def test_a_wait_for_a_later_task_is_an_error() -> None:
    schedule = chain()
    first = replace(schedule.tasks[0], after=(2,))
    with pytest.raises(ScheduleError):
        BACKEND.load(replace(schedule, tasks=(first, *schedule.tasks[1:])), kernels(), WEIGHTS)


def test_out_of_memory_says_how_much_is_needed() -> None:
    schedule = chain()
    arena = replace(schedule.allocations[2], shape=(1 << 50,))
    allocations = (*schedule.allocations[:2], arena, schedule.allocations[3])
    with pytest.raises(DeviceError, match=f"needs {(1 << 50) + 192} bytes"):
        BACKEND.load(replace(schedule, allocations=allocations), kernels(), WEIGHTS)


def test_memory_is_reported() -> None:
    report = BACKEND.load(chain(), kernels(), WEIGHTS).memory
    assert (report.weights, report.arena) == (192, 384)
    assert report.code == sum(len(kernel.code) for kernel in kernels().values())


def test_threads() -> None:
    assert BACKEND.load(chain(), kernels(), WEIGHTS).threads == usable_threads() >= 1
    with pytest.raises(ArgumentError, match="at least 1"):
        BACKEND.load(chain(), kernels(), WEIGHTS, threads=0)


def test_a_closed_executor_refuses_to_run() -> None:
    executor = BACKEND.load(chain(), kernels(), WEIGHTS, threads=2).executor()
    executor.close()
    executor.close()
    with pytest.raises(DeviceError, match="closed"):
        executor.run({"x": values(1)})


def test_requirements_of_targets() -> None:
    features.check_features(features.requirements("cpu"))
    level = features.requirements("cpu:x86-64-v3")
    assert {"avx2", "fma"} <= set(level["features"])
    assert features.requirements("cpu:znver4:+avx2,-sse4a")["features"] == ["avx2"]
    assert features.requirements("cpu:skylake")["processor"] == "skylake"
    asked = features.requirements("cpu:skylake", lambda: {"avx2", "macrofusion", "xsave"})
    assert asked == {"architecture": "x86_64", "features": ["avx2"]}
    with pytest.raises(DeviceError, match="does not have imaginary"):
        features.check_features({"features": ["imaginary"]})
    with pytest.raises(DeviceError, match="abacus"):
        features.check_features({"processor": "abacus", "features": []})


def test_requirements_of_aarch64(monkeypatch: pytest.MonkeyPatch) -> None:
    assert features.requirements("cpu:aarch64") == {"architecture": "aarch64", "features": []}
    found = {"dotprod", "neon", "spe", "bf16"}
    needed = features.requirements("cpu:neoverse-n1:+i8mm", lambda: found)
    assert needed == {"architecture": "aarch64", "features": ["bf16", "dotprod", "i8mm"]}
    monkeypatch.setattr(features, "host_instruction_set", lambda: "x86_64")
    with pytest.raises(DeviceError, match="architecture aarch64; this is x86_64: compile the mod"):
        features.check_features(needed)
    monkeypatch.setattr(features, "host_instruction_set", lambda: "aarch64")
    words = {features.AT_HWCAP: 1 << 20, features.AT_HWCAP2: 1 << 14}
    monkeypatch.setattr(features, "_hwcap", words.__getitem__)
    assert features.host_features() == {"dotprod", "bf16"}
    with pytest.raises(DeviceError, match=r"does not have i8mm: compile .* for cpu:aarch64"):
        features.check_features(needed)


def test_code_of_another_instruction_set_is_an_error() -> None:
    code = bytearray(mix("mix4_1", 4).code)
    code[18:20] = (183 if code[18] == 62 else 62).to_bytes(2, "little")
    foreign = replace(mix("mix4_1", 4), code=bytes(code))
    with pytest.raises(DeviceError, match=r"'mix4_1' is (aarch64|x86_64) code, and this host is"):
        BACKEND.load(chain(), {"mix4_1": foreign}, WEIGHTS)


def test_the_runtime_half_imports_without_compilers() -> None:
    text = (
        "import sys\n"
        "for name in ('tvm', 'tvm_ffi', 'onnx', 'onnxruntime', 'xdsl'):\n"
        "    sys.modules[name] = None\n"
        "import compiler.artifact.module, compiler.artifact.artifact\n"
        "import compiler.backends.cpu.driver\n"
    )
    ended = subprocess.run([sys.executable, "-c", text], timeout=60)
    assert ended.returncode == 0


def test_empty_kernels_run() -> None:
    assert read_symbols(empty("nothing").code).defined == {"nothing"}
