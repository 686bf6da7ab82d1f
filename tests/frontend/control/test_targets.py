"""Control flow that a run decides, compiled for several targets without a device."""

import logging
from pathlib import Path

import pytest

import compiler
from compiler.artifact.artifact import load
from compiler.artifact.generate import export_project
from compiler.errors import DeviceError
from compiler.program.model import DynamicModule
from compiler.scheduling.kernel_time import DECISION_NS, ITERATION_NS, task_time
from compiler.target.nvrtc import load_nvrtc
from tests.frontend.control.checks import kinds, model_of, static
from tests.frontend.control.test_regions import BRANCHES, NESTED, STACKS

needs_nvrtc = pytest.mark.skipif(load_nvrtc() is None, reason="needs nvidia-cuda-nvrtc")


@needs_nvrtc
@pytest.mark.parametrize("text", [BRANCHES, NESTED, STACKS])
def test_cuda_compiles_one_graph_and_repeats_it(text: str):
    model = model_of(text)
    module = static(model, target="cuda:sm_90", budget=0)
    assert module.choice is not None
    choice = module.choice.schedule
    assert choice.mode == "graph"
    assert {name.partition("/")[0] for name in choice.estimates} <= {"graph", "graph+pdl"}
    assert set(kinds(module)) == module.kernels.keys() & {"if", "loop"}
    again = static(model, target="cuda:sm_90", budget=0, pipeline=choice.pipeline)
    assert again.schedule == module.schedule


def test_the_model_counts_the_iterations_of_a_loop():
    module = static(model_of(STACKS), target="emu")
    (loop,) = (task for task in module.schedule.tasks if task.control is not None)
    assert loop.control is not None
    inner = len(loop.control.bodies[0].tasks)
    assert task_time(loop, lambda _: 100.0) == DECISION_NS + 90 * (ITERATION_NS + 100 * inner)


def test_a_project_has_no_conditional_nodes(tmp_path: Path):
    static(model_of(BRANCHES), target="emu").save(tmp_path / "saved")
    saved = load(tmp_path / "saved", lambda target, needed: None)
    with pytest.raises(DeviceError, match=r"is an if .*a C\+\+ project cannot run: run the module"):
        export_project(saved, tmp_path / "project", version="0", check=None)


def test_amd_gpus_say_that_the_bodies_become_programs(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "compiler"):
        module = compiler.compile(model_of(BRANCHES), target="emu:gfx90a")
    assert isinstance(module, DynamicModule)
    assert "for emu this becomes a program" in caplog.text
    assert "its condition is computed at run time" in caplog.text
