"""The command line does what its help says, and bad input is one line on standard error."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.tools.cli import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small model with a branch, a join and a weight."""
    generator = np.random.default_rng(0)
    weight = onnx.numpy_helper.from_array(generator.standard_normal((8, 8)).astype(np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="left"),
        helper.make_node("Sigmoid", ["x"], ["b"], name="right"),
        helper.make_node("Add", ["a", "b"], ["y"], name="join"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        [weight],
    )
    path = tmp_path / "small.onnx"
    opset = helper.make_opsetid("", 18)
    save = cast(Any, onnx).save
    save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def test_compile_check_run_bench(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    artifact = tmp_path / "built"
    shape = ["--input-shape", "x=4,8"]
    assert main(["compile", str(model), "-o", str(artifact), *shape, "--timing"]) == 0
    assert main(["check", str(artifact)]) == 0
    assert "no race" in capsys.readouterr().out
    outputs = tmp_path / "out.npz"
    assert main(["run", str(artifact), "--check", str(model), "--outputs", str(outputs)]) == 0
    assert "ok   y" in capsys.readouterr().out
    assert np.load(outputs)["y"].shape == (4, 8)
    assert main(["bench", str(artifact), "--runs", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 3


def test_dumped_ir_can_be_processed_again(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    dump = tmp_path / "ir"
    arguments = ["run", str(model), "--input-shape", "x=4,8", "--check", "--dump-ir", str(dump)]
    assert main(arguments) == 0
    files = sorted(dump.iterdir())
    assert [f.name[:2] for f in files] == [f"{i:02}" for i in range(len(files))]
    for file in files:
        assert file.read_text().startswith("// ")
        assert main(["opt", str(file)]) == 0
    capsys.readouterr()
    assert main(["check", str(files[-1])]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.onnx"], "missing.onnx"),
        (["run", "MODEL"], "'n'"),
        (["run", "MODEL", "--input-shape", "x=4,9"], "x"),
        (["run", "MODEL", "--input-shape", "z=4,8"], "z"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--target", "abacus"], "abacus"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--precision", "fp12"], "fp12"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--pipeline", "fues"], "fues"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--pipeline", "fuse"], "insert-sync"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--pipeline", "fuse{depth=1}"], "depth"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--inputs", "none.npz"], "none.npz"),
        (["compile", "MODEL", "--input-shape", "x=4,8", "-o", "/proc/nowhere"], "/proc/nowhere"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--dump-ir", "/proc/x"], "/proc/x"),
        (["check", "missing.mlir"], "missing.mlir"),
        (["opt", "missing.mlir"], "missing.mlir"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    model: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main([str(model) if a == "MODEL" else a for a in arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flowloom: ")
    assert message in error
    assert "Traceback" not in error


RACE = """
taskflow.graph @race inputs ["x"] outputs ["y"] {
^bb0(%x: memref<16xf32>, %y: memref<16xf32>):
  %arena = taskflow.arena : memref<64xui8>
  %v = taskflow.view %arena[0] : memref<64xui8> -> memref<16xf32>
  %a = taskflow.launch "producer" stream 0 reads %x : memref<16xf32> writes %v : memref<16xf32>
  %b = taskflow.launch "consumer" stream 1 reads %v : memref<16xf32> writes %y : memref<16xf32>
}
"""


def test_check_prints_the_racing_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "race.mlir"
    path.write_text(RACE)
    assert main(["check", str(path)]) == 1
    error = capsys.readouterr().err
    assert "producer" in error
    assert "consumer" in error
    path.write_text(RACE.replace("stream 1 reads", "stream 1 after %a reads"))
    assert main(["check", str(path)]) == 0


def test_passes_and_cache(capsys: pytest.CaptureFixture[str]):
    assert main(["passes"]) == 0
    assert "elide-sync" in capsys.readouterr().out
    assert main(["cache", "status"]) == 0
