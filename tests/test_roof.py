"""Kernels against the least time of their FLOPs and bytes."""

from dataclasses import replace

import pytest

import compiler
from compiler.artifact.module import Module
from compiler.backends.cpu.peaks import measured_core
from compiler.scheduling.prediction import prediction
from compiler.tools import roof
from compiler.tools.measured import MeasuredRun, TaskTime, measured_run
from compiler.tools.report import report
from compiler.tools.roof import KernelTime, best_run, far_from_roof, kernel_times
from tests.program.checks import model_of

MODEL = """g (float[256, 256] x, float[256, 256] y) => (float[256, 256] z) {
    p = MatMul(x, y)
    z = Relu(p)
}"""


@pytest.fixture(scope="module")
def module() -> Module:
    compiled = compiler.compile(model_of(MODEL), target="cpu")
    assert isinstance(compiled, Module)
    return compiled


def test_a_core_computes_more_than_it_moves():
    core = measured_core()
    # The slowest core that has 64-bit code multiplies and adds a vector of four in two cycles.
    assert 2 < core.flops < 2000
    assert 0.2 < core.bandwidth < core.flops


def test_kernels_far_above_their_least_are_listed_by_what_they_lose():
    rows = [
        KernelTime("near", 1, 2_900.0, 1_000.0, True),
        KernelTime("far", 2, 4_000.0, 1_000.0, True),
        KernelTime("farther", 1, 90_000.0, 1_000.0, True),
        KernelTime("empty", 1, 100.0, 0.0, True),
    ]
    first, *rest = far_from_roof(rows, 10)
    assert first.startswith("2 of 4 kernels, 97% of the time, take more than 3 times")
    assert [line.split()[-1] for line in rest] == ["farther", "far"]
    assert len(far_from_roof(rows, 1)) == 2


def test_times_are_those_of_the_shortest_run(module: Module, monkeypatch: pytest.MonkeyPatch):
    tasks = len(module.schedule.tasks)
    lengths = iter([5e6, 3e6, 4e6, 9e6, 8e6])

    def run(*_: object) -> MeasuredRun:
        length = next(lengths)
        return MeasuredRun([TaskTime(0, 0.0, length)] * tasks, "measured")

    monkeypatch.setattr(roof, "measured_run", run)
    rows = kernel_times(module, prediction(module), best_run(module))
    assert sum(row.time for row in rows) == tasks * 3e6
    assert all(row.measured and row.ratio > 3 for row in rows)


def test_the_report_of_a_module_that_runs_here_has_measured_times(module: Module):
    text = report(module)
    assert "(measured by the executor" in text
    assert "times what their FLOPs and bytes need" in text
    assert "predicted run" not in text


def test_without_its_cpu_a_module_has_estimates(module: Module, monkeypatch: pytest.MonkeyPatch):
    absent = replace(measured_run(module, roof.random_inputs(module, 0)), times=None, note="absent")

    def run(*_: object) -> MeasuredRun:
        return absent

    monkeypatch.setattr(roof, "measured_run", run)
    text = report(module)
    assert "times of 0 measured (absent)" in text
    assert "predicted run" in text
