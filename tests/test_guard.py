"""Guarded runs: right modules run, and one wrong byte of a kernel or a schedule is reported."""

import shutil
from dataclasses import replace

import numpy as np
import onnx
import pytest

import compiler
from compiler.artifact.artifact import Artifact
from compiler.artifact.module import Module
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import View
from compiler.verify.seals import sealed_kernel
from tests.backends.objects import LANES, MIX, chain, compile_object, mix, reference, values
from tests.guard import GuardError, Side, run_guarded
from tests.schedules import unchecked_certificate

FIRST, STORE = "%first = mul i64 %begin, {cells}", "store i64 %mixed, ptr %zi"
DATA = {"x": values(1), "w": values(2)}


def module(kernel: KernelSpec) -> Module:
    """Three tasks of a kernel in place of `mix`."""
    wrong = sealed_kernel(replace(mix("mix4_1"), code=kernel.code, launches=kernel.launches))
    return Module(Artifact("cpu", chain(), {"mix4_1": wrong}, {"w": DATA["w"]}))


def altered(old: str, new: str) -> KernelSpec:
    """The kernel `mix` in one block, with some of its text replaced."""
    assert old in MIX
    text = MIX.replace(old, new).format(symbol="wrong", cells=LANES, delay=1)
    launch = Launch("wrong", (0, 1, 2))
    return KernelSpec("wrong", "object", compile_object(text), (launch,), ("", ""))


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_right_module_gives_what_an_unguarded_run_gives(side: Side):
    results = run_guarded(module(mix("right", 4)), {"x": DATA["x"]}, side)
    np.testing.assert_array_equal(results["y"], reference(chain(), DATA)["y"])


def test_a_read_after_the_end_names_the_task_and_the_operand():
    with pytest.raises(
        GuardError, match=r"task 0 .*mix4_1.* 0 bytes after the end of operand [012]"
    ):
        run_guarded(module(mix("long", 1, lanes=LANES + 1)), {"x": DATA["x"]})


def test_a_read_before_the_start():
    wrong = altered(FIRST, "%first = sub i64 %begin, 1")
    with pytest.raises(GuardError, match="bytes before the start of operand"):
        run_guarded(module(wrong), {"x": DATA["x"]}, "before")


def test_a_far_access():
    wrong = altered(FIRST, "%first = sub i64 %begin, 99999999")
    with pytest.raises(GuardError, match="SIGSEGV"):
        run_guarded(module(wrong), {"x": DATA["x"]})


def test_a_write_on_the_other_side():
    beyond = "%far = getelementptr i64, ptr %z, i64 {cells}\n store i64 1, ptr %far"
    wrong = altered(STORE, f"{STORE}\n{beyond}")
    with pytest.raises(GuardError, match=r"task 0 .* writes next to operand 2"):
        run_guarded(module(wrong), {"x": DATA["x"]}, "before")


def test_a_write_to_an_input():
    with pytest.raises(GuardError, match="writes operand 0, which it only reads"):
        run_guarded(module(altered(STORE, "store i64 1, ptr %xi")), {"x": DATA["x"]})


def test_a_schedule_whose_view_is_too_short():
    schedule = chain()
    *before, last = schedule.tasks
    short = replace(last.reads[0], shape=(LANES - 1,))
    tasks = (*before, replace(last, reads=(short, last.reads[1])))
    cut, kernels = replace(schedule, tasks=tasks), module(mix("right", 1)).kernels
    passed = unchecked_certificate(cut, kernels)
    wrong = Module(Artifact("cpu", cut, kernels, {"w": DATA["w"]}, certificate=passed))
    with pytest.raises(GuardError, match=r"task 2 .* 0 bytes after the end of operand 0"):
        run_guarded(wrong, {"x": DATA["x"]})


def test_a_kernel_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.guard.SECONDS", 1)
    wrong = altered("%waited = icmp sge i64 %next_turn, {delay}", "%waited = icmp slt i64 %turn, 0")
    with pytest.raises(GuardError, match=r"task 0 .* did not come back"):
        run_guarded(module(wrong), {"x": DATA["x"]})


@pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator needs g++")
def test_a_short_view_on_the_emulator():
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[40] x) => (float[40] y) {y = Abs(x)}'
    built = compiler.compile(onnx.parser.parse_model(text), target="emu")
    x = np.arange(-20, 20, dtype=np.float32)
    np.testing.assert_array_equal(run_guarded(built, {"x": x})["y"], np.abs(x))
    (task,) = built.schedule.tasks
    (view,) = task.reads
    short = replace(task, reads=(View(view.allocation, 0, view.dtype, (36,)),))
    schedule = replace(built.schedule, tasks=(short,))
    passed = unchecked_certificate(schedule, built.kernels)
    wrong = Module(Artifact("emu", schedule, built.kernels, {}, certificate=passed))
    with pytest.raises(GuardError, match=r"after the end of parameter [01]"):
        run_guarded(wrong, {"x": x})
