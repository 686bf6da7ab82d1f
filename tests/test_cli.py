"""The command line does what its help says, and bad input is one line on standard error."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.support import caches
from compiler.tools.cli import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small model with two branches, their sum and a weight."""
    generator = np.random.default_rng(0)
    weight = onnx.numpy_helper.from_array(generator.standard_normal((8, 8)).astype(np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="left"),
        helper.make_node("Sigmoid", ["x"], ["b"], name="right"),
        helper.make_node("Add", ["a", "b"], ["y"], name="sum"),
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
    path.write_bytes(
        helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString()
    )
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


@pytest.mark.parametrize("length", [["--runs", "20"], ["--duration", "0.2"]])
@pytest.mark.parametrize("concurrency", ["1", "3"])
def test_bench_times_runs_of_several_clients(
    model: Path, length: list[str], concurrency: str, capsys: pytest.CaptureFixture[str]
):
    options = ["--input-shape", "x=4,8", "--warmup", "1", "--concurrency", concurrency, *length]
    start = perf_counter()
    assert main(["bench", str(model), *options, "--json"]) == 0
    assert length[0] == "--runs" or perf_counter() - start >= 0.2
    figures = json.loads(capsys.readouterr().out)
    assert figures["runs"] == 20 if length[0] == "--runs" else figures["runs"] >= int(concurrency)
    names = [f"{name}_ms" for name in ("p1", "p10", "median", "p90", "p99")]
    times = [figures[name] for name in names]
    assert 0 < times[0]
    assert times == sorted(times)
    assert figures["runs_per_second"] > 0


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


def test_the_text_of_every_cuda_kernel_is_dumped(model: Path, tmp_path: Path):
    dump, built = tmp_path / "ir", tmp_path / "built"
    arguments = ["--input-shape", "x=4,8", "--dump-ir", str(dump)]
    target = ["--target", "cuda", "--arch", "sm_90", "--budget", "0"]
    assert main(["compile", str(model), "-o", str(built), *target, *arguments]) == 0
    kernels = json.loads((built / "kernels" / "kernels.json").read_text())
    assert {f"{kernel['name']}.cu" for kernel in kernels} == {
        path.name for path in (dump / "kernels").iterdir()
    }
    for kernel in kernels:
        text = (dump / "kernels" / f"{kernel['name']}.cu").read_text()
        for launch in kernel["launches"]:
            assert f" {launch['symbol']}(" in text
            assert launch["indirect"] == "" or f" {launch['indirect']}(" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.onnx"], "missing.onnx"),
        (["run", "MODEL"], "x float32[n, 8] has no fixed shape"),
        (["run", "MODEL", "--static"], "'n'"),
        (["run", "MODEL", "--input-shape", "x=4,9"], "x"),
        (["run", "MODEL", "--input-shape", "z=4,8"], "z"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--target", "abacus"], "abacus"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--precision", "fp12"], "fp12"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--pipeline", "fues"], "fues"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--pipeline", "fuse-operators"], "insert-sync"),
        (
            ["run", "MODEL", "--input-shape", "x=4,8", "--pipeline", "fuse-operators{depth=1}"],
            "depth",
        ),
        (["run", "MODEL", "--input-shape", "x=4,8", "--inputs", "none.npz"], "none.npz"),
        (["compile", "MODEL", "--input-shape", "x=4,8", "-o", "/proc/nowhere"], "/proc/nowhere"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--dump-ir", "/proc/x"], "/proc/x"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--arch", "z80"], "z80"),
        (["run", "MODEL", "--target", "cpu:x86-64-v3", "--budget", "3"], "leave out the budget"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--profile", "p.json"], "leave it out for cpu"),
        (["run", "JUNK"], "JUNK"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--inputs", "JUNK"], "JUNK"),
        (["run", "MODEL", "--input-shape", "x=4,8", "--outputs", "/proc/x.npz"], "/proc/x.npz"),
        (["opt", "JUNK"], "JUNK:1:6"),
        (["check", "JUNK"], "JUNK:1:6"),
        (["check", "missing.mlir"], "missing.mlir"),
        (["opt", "missing.mlir"], "missing.mlir"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    model: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    junk = model.with_name("JUNK")
    junk.write_text("what is this?")
    places = {"MODEL": str(model), "JUNK": str(junk)}
    assert main([places.get(a, a) for a in arguments]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("flowloom: ")
    assert message in error
    assert "Traceback" not in error


def npz(*dtypes_and_shapes: tuple[str, str, tuple[int, ...]]) -> bytes:
    """The file that numpy.savez writes for arrays of zeros."""
    file = io.BytesIO()
    arrays = {name: np.zeros(shape, dtype) for name, dtype, shape in dtypes_and_shapes}
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


GOOD = npz(("x", "float32", (4, 8)))


def with_central_byte(offset: int, value: int) -> bytes:
    """The archive with a byte changed in its directory's first entry."""
    content = bytearray(GOOD)
    content[content.index(b"PK\x01\x02") + offset] = value
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "savez"),
        (GOOD[:80], "savez"),
        (GOOD[:140] + bytes([GOOD[140] ^ 1]) + GOOD[141:], "savez"),
        (b"\x93NUMPY", "savez"),
        (with_central_byte(8, 1), "encrypted"),
        (with_central_byte(10, 77), "compression method"),
        (npz(("x", "float32", (4, 9))), r"float32[4, 9]"),
        (npz(("x", "float64", (4, 8))), "float64"),
        (npz(("q", "float32", (4, 8))), "'q'"),
        (npz(("x", "float32", (4, 8)), ("z", "float32", ())), "'z'"),
        (npz(), "'x' float32[4, 8]"),
    ],
)
def test_bad_inputs_are_named(
    model: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
):
    path = model.with_name("in.npz")
    path.write_bytes(content)
    assert main(["run", str(model), "--input-shape", "x=4,8", "--inputs", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flowloom: ShapeError: ")
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize("file", ["manifest.json", "schedule.json", "weights.safetensors"])
@pytest.mark.parametrize("command", ["run", "bench", "check"])
def test_a_damaged_artifact_is_named(
    model: Path, tmp_path: Path, command: str, file: str, capsys: pytest.CaptureFixture[str]
):
    artifact = tmp_path / "built"
    assert main(["compile", str(model), "-o", str(artifact), "--input-shape", "x=4,8"]) == 0
    path = artifact / file
    path.write_bytes(path.read_bytes()[:-3])
    capsys.readouterr()
    assert main([command, str(artifact)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flowloom: ArtifactError: ")
    assert file in error
    assert error.count("\n") == 1


def test_an_artifact_takes_no_options_of_compilation(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    artifact = tmp_path / "built"
    assert main(["compile", str(model), "-o", str(artifact), "--input-shape", "x=4,8"]) == 0
    assert main(["run", str(artifact), "--target", "cpu", "--input-shape", "x=2,8"]) == 1
    assert "--target, --input-shape" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--runs", "0"], ["--threads", "-1"], ["--threads", "two"]])
def test_counts_are_at_least_one(option: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit:
        main(["bench", "model.onnx", *option])
    assert exit.value.code == 2
    assert "at least 1" in capsys.readouterr().err


def test_an_output_may_have_any_name(tmp_path: Path):
    outputs = [helper.make_tensor_value_info("file", TensorProto.FLOAT, [2])]
    inputs = [helper.make_tensor_value_info("self", TensorProto.FLOAT, [2])]
    node = helper.make_node("Relu", ["self"], ["file"])
    graph = helper.make_graph([node], "names", inputs, outputs)
    path = tmp_path / "names.onnx"
    path.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
        ).SerializeToString()
    )
    assert main(["run", str(path), "--check", "--outputs", str(tmp_path / "out.npz")]) == 0
    assert np.load(tmp_path / "out.npz")["file"].shape == (2,)


def test_each_damaged_cache_entry_is_one_line_and_built_anew(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(caches, "WARNED", set[Path | None]())
    command = ["run", str(model), "--input-shape", "x=4,8", "--check"]
    assert main(command) == 0
    entries = [*(tmp_path / "cache").rglob("*.kernel")]
    assert len(entries) == 2, "by the present database, and by its config"
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-1])
    capsys.readouterr()
    assert main(command) == 0
    error = capsys.readouterr().err
    assert all(line.startswith("flowloom: warning: ") for line in error.splitlines())
    assert error.count("\n") == 2
    assert main(["cache", "clear"]) == 0
    assert "2 kernels removed" in capsys.readouterr().out
    (tmp_path / "cache").rename(tmp_path / "old")
    (tmp_path / "cache").write_text("in the way")
    assert main(command) == 0
    assert "working without a cache: set FLOWLOOM_CACHE" in capsys.readouterr().err


def test_output_that_nobody_reads_is_no_traceback():
    script = "import sys; from compiler.tools.cli import main; sys.exit(main(['passes']))"
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert result.returncode == 1
    assert result.stderr == ""


RACE = """
taskflow.graph @race inputs ["x"] outputs ["y"] {
^bb0(%x: memref<16xf32>, %y: memref<16xf32>):
  %arena = taskflow.arena : memref<64xui8>
  %v = taskflow.view %arena[0] : memref<64xui8> -> memref<16xf32>
  %a = taskflow.launch "producer" stream 0 reads %x : memref<16xf32> writes %v : memref<16xf32>
  %b = taskflow.launch "consumer" stream 1 reads %v : memref<16xf32> writes %y : memref<16xf32>
}
"""


@pytest.mark.parametrize("given", ["-1", "1.5", "x"])
@pytest.mark.parametrize("command", [["run", "m"], ["bench", "m"], ["export", "m", "-o", "p"]])
def test_a_seed_is_a_whole_number(
    command: list[str], given: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--seed", given])
    assert f"'{given}' is not a whole number of at least 0" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("text", "command", "message"),
    [
        ("g (float[3] x) => (int64[1, n] y) { y = NonZero(x) }", "explore", "run on the host"),
        ("g (seq(float[3]) x) => (seq(float[3]) y) { y = Identity(x) }", "run", "not a tensor"),
    ],
)
def test_models_that_nothing_is_compiled_of_get_no_remedy_of_sizes(
    text: str, command: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "model.onnx"
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]>\n{text}')
    path.write_bytes(made.SerializeToString())
    output = ["-o", str(tmp_path / "page.html")] if command == "explore" else []
    assert main([command, str(path), *output]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "--input-shape" not in error


WITHOUT_COMPILER = """
import sys
sys.modules |= dict.fromkeys(("onnx", "tvm", "xdsl", "onnxruntime"))
from compiler.tools.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "line", ["run DIR", "bench DIR --runs 1", "check DIR", "export DIR -o NEW", "passes"]
)
def test_artifacts_are_used_without_what_compiles(line: str, model: Path, tmp_path: Path):
    built = tmp_path / "built"
    compiler.compile(model, input_shapes={"x": [2, 8]}).save(built)
    words = line.replace("DIR", str(built)).replace("NEW", str(tmp_path / "new")).split()
    command = [sys.executable, "-c", WITHOUT_COMPILER, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if line == "passes":
        assert done.returncode == 1
        assert "xdsl is not installed: install Flowloom without" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
