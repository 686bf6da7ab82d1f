"""Every option is checked where it is given: at `compile`, `load` and `with_options`, by its value.

A model of open sizes is compiled at its first run, so that an option that only a compilation reads
would be refused then.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.backends.base import backend
from compiler.errors import ArgumentError, DeviceError, FlowloomError, KernelError, PipelineError
from compiler.support.arguments import COMPILE
from tests.test_hostile_arguments import DYNAMIC, STATIC
from tests.tools import needs_nvrtc

X = np.ones((2, 3), np.float32)

NOT_A_FOLDER = "a_file/folder"

WRONG: Mapping[str, list[Any]] = {
    "model": [None, 5, "nowhere.onnx"],
    "target": ["zz", "cpu:zz", "cpu:x86-64-v3:+zzz", "cpu:x86-64-v3:avx2", "emu:sm_1", "", 5],
    "pipeline": [
        *("", "zz", "canonicalize", "fuse-operators{zz=1}", "fuse-operators,lower-to-taskflow"),
        "canonicalize,fuse-operators,assign-streams{policy=zz},lower-to-taskflow,insert-sync",
        "canonicalize,fuse-operators,assign-streams{streams=-1},lower-to-taskflow,insert-sync",
        "canonicalize,fuse-operators,assign-streams,lower-to-taskflow,plan-memory,insert-sync",
        "canonicalize,fuse-operators,lower-to-taskflow,insert-sync",
        "canonicalize,assign-streams,lower-to-taskflow,insert-sync",
        "fuse-operators,assign-streams,lower-to-taskflow,canonicalize,insert-sync",
        5,
    ],
    "input_shapes": [{"zz": [1]}, {"x": [1]}, {"x": [-1, 3]}, {"x": ["n", 3]}, {"x": 5}, 5],
    "arch": ["zz", "", " ", 5],
    "precision": ["zz", "", 5],
    "threads": [0, -1, 2**40, 1.5, True, "2"],
    "dump_ir": ["a_file", NOT_A_FOLDER, "", "a\0b", 5],
    "budget": [-1, -0.5, float("inf"), float("nan"), 2**2000, "5", True],
    "profile": ["a_file", "", 5],
    "schedule": ["nowhere.json", "a_file", "auto{zz=1}", "auto{steps=x}", "", 5],
    "passes": [["zz"], [int], ["nowhere.py:Pass"], 5],
    "overridable": [["zz"], "x", [1], 5],
    "cache": [1, None],
    "check_indices": [1, None],
    "dynamic": [0, None],
    "graphs": ["zz", "", "resident,", 5],
    "quantised": ["zz", "", 5],
    "semantics": ["zz", "", {"zz": "onnx"}, {"*": "zz"}, {1: "onnx"}, 5],
    "buckets": [{"n": [4, 8]}, {}, 5],
    "check": ["x", None],
    "progress": [5],
}
"""Values of each option that are wrong for every model and target."""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative names are of a folder with one file."""
    (tmp_path / "a_file").write_text("text")
    monkeypatch.chdir(tmp_path)


def test_all_options_are_tried():
    assert {*WRONG} == {*inspect.signature(compiler.compile).parameters} == {*COMPILE}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("target", ["cpu", "emu", "cuda:sm_90"])
@pytest.mark.parametrize("model", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_compile_refuses_wrong_values(
    model: bytes, target: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    def build_kernels(*_given: object) -> None:
        raise AssertionError("kernels are built")

    monkeypatch.setattr("compiler.driver.build.build_kernels", build_kernels)
    for value in WRONG[name]:
        options: dict[str, Any] = {"model": model, "target": target, name: value}
        try:
            found = compiler.compile(**options)
        except FlowloomError:
            continue
        raise AssertionError(f"{name}={value!r} is accepted: {found!r}")


def test_each_message_names_the_option_and_the_remedy():
    expected: list[tuple[dict[str, Any], type[FlowloomError], str]] = [
        ({"budget": -1}, ArgumentError, "budget is int -1: it must be a number of seconds, at"),
        ({"threads": 0}, ArgumentError, "threads is int 0: it must be a whole number, at least 1"),
        ({"arch": "zz"}, KernelError, "LLVM knows no CPU 'zz' .*: use a name such as"),
        ({"target": "cpu:x86-64-v3:+zz"}, KernelError, r"no feature '\+zz' of x86_64: write its"),
        ({"buckets": {"n": [4]}}, ArgumentError, "it must be left out: a module runs at any size"),
        ({"dump_ir": "a_file"}, PipelineError, "cannot dump IR to a_file: File exists"),
        ({"pipeline": "canonicalize"}, PipelineError, "gives no schedule: it must end with"),
        ({"profile": "p", "target": "emu"}, DeviceError, "emu nothing is measured: leave out"),
    ]
    for options, kind, message in expected:
        with pytest.raises(kind, match=message):
            compiler.compile(DYNAMIC, **options)


@needs_nvrtc
def test_an_architecture_that_the_compiler_does_not_know_is_refused():
    with pytest.raises(KernelError, match="does not know the architecture sm_999: use one of"):
        compiler.compile(DYNAMIC, target="cuda:sm_999")


def test_a_pipeline_of_another_model_is_not_tried():
    """A recorded decision holds for one model: the smallest one has no candidate 1."""
    recorded = compiler.DEFAULT_PIPELINE.replace(
        "substitute", "substitute{policy=autograph take=1}"
    )
    with pytest.raises(PipelineError, match="take=1 is not one of the"):
        compiler.compile(STATIC, pipeline=recorded)
    compiler.compile(DYNAMIC, pipeline=recorded)


OPTIONS: Mapping[str, Mapping[str, list[Any]]] = {
    "cpu": {"threads": [0, -1, 1.5, "2", 2**40, True], "poison": [1, "x"], "arenas": [5]},
    "emu": {
        "mode": ["zz", None, 5],
        "children": [1],
        "bindings": [{"x": "zz"}, 5],
        "updates": [-1, 1.5, None],
        "indirection": [1, None],
        "poison": ["x"],
        "pdl": [1],
        "delays": [-1, 1.5],
        "index_limits": [{"x": -1}, 5],
        "costs": [5],
        "share": [5],
        "seed": [-1, 2**64],
        "warp": [16, 32.0, None],
        "threads": [-1, 1.5],
    },
}
"""Wrong values of each option of the backends that run here."""


@pytest.mark.parametrize("target", OPTIONS)
def test_modules_refuse_wrong_options(target: str):
    static, dynamic = (compiler.compile(model, target=target) for model in (STATIC, DYNAMIC))
    static.save("static")
    dynamic.save("dynamic")
    load: Any = compiler.load
    refused = {**OPTIONS[target], "zzz": [1]}
    for name, values in refused.items():
        for value in values:
            with pytest.raises(FlowloomError, match=name):
                static.with_options(**{name: value})
            for folder in ("static", "dynamic"):
                with pytest.raises(FlowloomError, match=name):
                    load(folder, **{name: value})
    np.testing.assert_array_equal(static.with_options(threads=2).run({"x": X})["y"], X)


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90", "hip:gfx90a", "emu"])
def test_a_mistyped_option_is_told_the_nearest(target: str):
    wrong = {"cpu": "thread"}.get(target, "mod")
    right = {"cpu": "threads"}.get(target, "mode")
    with pytest.raises(ArgumentError, match=f"no option '{wrong}': did you mean '{right}'"):
        backend(target).check_options({wrong: 1})


def test_the_command_line_refuses_them_too(capsys: pytest.CaptureFixture[str]):
    from compiler.tools.cli import main

    Path("model.onnx").write_bytes(DYNAMIC)
    for options in (["--arch", "zz"], ["--pipeline", "canonicalize"], ["--dump-ir", "a_file"]):
        assert main(["compile", "model.onnx", "-o", "out", *options]) == 1
    for options in (["--budget", "-1"], ["--threads", "0"]):
        command = "compile" if options[0] == "--budget" else "run"
        with pytest.raises(SystemExit):
            main([command, "model.onnx", *options])
    assert "Traceback" not in capsys.readouterr().err
