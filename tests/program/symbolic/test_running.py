"""Models that are compiled once for all sizes compute what onnxruntime does at each of them."""

import logging
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import compiler
from compiler.artifact.checking import checked_artifacts
from compiler.artifact.manifest import trust_all
from compiler.artifact.weights import in_one_block
from compiler.errors import ArtifactError, ShapeError, SymbolicFaultWarning
from compiler.program import compiling
from compiler.program.model import DynamicModule
from compiler.program.static import StaticSegment
from compiler.program.symbolic import SymbolicSegment
from compiler.program.symbolic_saving import load_segment, save_segment
from compiler.tensors.extents import NotForAllSizes
from compiler.tools.cli import main
from tests.forgery import redo_hashes
from tests.fuzz.sizes import random_sizes
from tests.fuzz.workers import judge
from tests.program.checks import check, compiled, model_of
from tests.program.symbolic.graphs import Sizes
from tests.program.symbolic.test_graphs import EXPORTS

LOGGER = "compiler.program"
LAYER = """g (float[batch, n, 8] x) => (float[batch, n, 8] y)
    { t = Transpose<perm=[0, 2, 1]>(x)  p = MatMul(x, t)  s = Softmax(p)  y = MatMul(s, x) }"""


def tensor(*shape: int) -> np.ndarray:
    """A random tensor of float32."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The beginnings of all compilations, in order."""
    texts = [record.getMessage() for record in caplog.records]
    return ["all" if "for all sizes" in text else text for text in texts]


def test_new_sizes_compile_nothing(caplog: pytest.LogCaptureFixture) -> None:
    module, model = compiled(LAYER, threads=2), model_of(LAYER)
    with caplog.at_level(logging.WARNING, LOGGER):
        for batch, n in ((3, 20), (2, 7), (5, 64), (4, 33), (3, 21)):
            check(module, model, {"x": tensor(batch, n, 8)})
    assert messages(caplog) == ["all"]


def test_single_elements_are_a_compilation_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    module, model = compiled(LAYER), model_of(LAYER)
    with caplog.at_level(logging.WARNING, LOGGER):
        for batch, n in ((3, 20), (1, 20), (1, 31), (30, 1), (2, 9)):
            check(module, model, {"x": tensor(batch, n, 8)})
    assert messages(caplog) == ["all"] * 3


def test_sizes_that_were_not_assumed_are_compiled_anew(caplog: pytest.LogCaptureFixture) -> None:
    text = """g (float[n, 300] x) => (float[m, 300] y) <int64[1] start = {0}, int64[1] end = {40}>
        { s = Slice(x, start, end)  y = Relu(s) }"""
    module, model = compiled(text), model_of(text)
    with caplog.at_level(logging.WARNING, LOGGER):
        for n in (20, 30, 60, 90, 40):
            check(module, model, {"x": tensor(n, 300)})
    assert messages(caplog) == ["all"] * 2


def test_the_reason_of_a_compilation_for_each_size_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = """g (uint8[n, 70] x, uint8[70, n] y) => (int32[n, n] z) { z = MatMulInteger(x, y) }"""
    module, model = compiled(text), model_of(text)
    with caplog.at_level(logging.WARNING, LOGGER):
        for n in (20, 30):
            feeds = {"x": tensor(n, 70).astype("u1"), "y": tensor(70, n).astype("u1")}
            check(module, model, feeds)
    told, *others = messages(caplog)
    assert "is compiled for each size alone: " in told
    assert len(others) == 2


def test_copies_and_saved_modules_have_what_was_compiled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module, model = compiled(LAYER, threads=1), model_of(LAYER)
    check(module, model, {"x": tensor(3, 20, 8)})
    module.save(tmp_path / "saved")
    copy = pickle.loads(pickle.dumps(module))
    loaded = compiler.load(tmp_path / "saved", threads=1)
    assert isinstance(loaded, DynamicModule)
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOGGER):
        check(copy, model, {"x": tensor(4, 11, 8)})
        check(loaded, model, {"x": tensor(3, 20, 8)})
        check(loaded, model, {"x": tensor(5, 9, 8)})
    assert not caplog.records


SHAPES = """g (float[b, n, 8] x) => (float[b, n, 8] y, int64[3] s, float[2] c, float[b, n, 8] z)
    <float[2] k = {1.5, 2.5}> { t = Transpose<perm=[0, 2, 1]>(x) p = MatMul(x, t) q = Softmax(p)
    y = MatMul(q, x) s = Shape(y) c = Identity(k) z = Identity(x) }"""


@pytest.mark.parametrize("target", ["cpu", "emu:sm_90:fp32"])
def test_outputs_without_operators_are_saved(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if target != "cpu" and shutil.which("g++") is None:
        pytest.skip("kernels are compiled by g++")
    module, model = compiled(SHAPES, target=target), model_of(SHAPES)
    check(module, model, {"x": tensor(3, 20, 8)})
    for _ in range(2):
        module.save(tmp_path / "saved")
        module = compiler.load(tmp_path / "saved")
        assert isinstance(module, DynamicModule)
        for batch, n in ((3, 20), (2, 33)):
            check(module, model, {"x": tensor(batch, n, 8)})
    (folder,) = (tmp_path / "saved" / "segments").iterdir()
    assert "n0" in (folder / "schedule.json").read_text()
    assert main(["check", str(tmp_path / "saved")]) == 0
    assert "no race for all sizes (b from 2 to " in capsys.readouterr().out


DIVIDED = """g (float[a, 4, c] x, float[4, e, f] w) => (float[p, q, r] y)
    { y = ConvTranspose<group=2>(x, w) }"""


def test_quotients_by_sizes_are_saved(tmp_path: Path) -> None:
    """Nothing but a segment's own conditions says that what its texts divide by is positive."""
    module, model = compiled(DIVIDED), model_of(DIVIDED)
    for batch, length, kernel in ((1, 7, (4, 3, 5)), (3, 9, (4, 2, 4)), (2, 1, (4, 1, 1))):
        check(module, model, {"x": tensor(batch, 4, length), "w": tensor(*kernel)})
        folder = tmp_path / f"saved{batch}"
        module.save(folder)
        assert main(["check", str(folder)]) == 0
        module = compiler.load(folder)
        assert isinstance(module, DynamicModule)


@pytest.mark.parametrize("pads", ["", "pads=[2, 0], ", "pads=[1, 1], "])
def test_weights_of_open_sizes_in_groups(pads: str, caplog: pytest.LogCaptureFixture) -> None:
    text = f"""g (float[1, c, n] x, float[o, i, 3] w) => (float[p, q, r] y)
        {{ y = Conv<group=2, {pads}kernel_shape=[3]>(x, w) }}"""
    module, model = compiled(text), model_of(text)
    with caplog.at_level(logging.WARNING, LOGGER):
        for channels, length, out in ((4, 7, 6), (5, 9, 4), (2, 30, 80)):
            weight = tensor(out, channels, 3)
            check(module, model, {"x": tensor(1, 2 * channels, length), "w": weight})
    assert messages(caplog) == ["all"]
    module.verify()


def test_a_saved_segment_runs_new_sizes_without_tvm(tmp_path: Path) -> None:
    module = compiled(LAYER, threads=1)
    module.run({"x": tensor(3, 20, 8)})
    module.save(tmp_path / "saved")
    script = f"""import sys, numpy, compiler
module = compiler.load({str(tmp_path / "saved")!r}, threads=1)
module.run({{"x": numpy.ones((4, 7, 8), "f4")}})
assert "tvm" not in sys.modules"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


WINDOWS = """g (float[n, h, w, 8] x) => (float[a, b, c, d] y)
    <int64[1] two = {2}, int64[1] three = {3}, int64[1] eight = {8}> {
    b = Shape<end = 1>(x) h = Shape<start = 1, end = 2>(x) w = Shape<start = 2, end = 3>(x)
    rows = Div(h, two) columns = Div(w, three)
    parts = Concat<axis = 0>(b, rows, two, columns, three, eight)
    whole = Concat<axis = 0>(b, h, w, eight)
    r = Relu(x) p = Reshape(r, parts) t = Transpose<perm = [0, 1, 3, 2, 4, 5]>(p) s = Softmax(t)
    u = Transpose<perm = [0, 1, 3, 2, 4, 5]>(s) v = Reshape(u, whole)
    z = Transpose<perm = [0, 3, 1, 2]>(v) y = Softmax(z) }"""


@pytest.mark.parametrize("target", ["cpu", "emu:sm_90:fp32"])
def test_sizes_that_are_multiples_compile_once(
    target: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Windows of pictures: what is split in windows and put together again is the whole."""
    if target != "cpu" and shutil.which("g++") is None:
        pytest.skip("kernels are compiled by g++")
    module, model = compiled(WINDOWS, target=target), model_of(WINDOWS)
    with caplog.at_level(logging.WARNING, LOGGER):
        for n, h, w in ((2, 8, 6), (3, 4, 9), (2, 10, 30)):
            check(module, model, {"x": tensor(n, h, w, 8)})
    assert messages(caplog) == ["all"]
    assert "for all sizes of n, h/2, w/3 in" in caplog.text
    module.verify()
    module.save(tmp_path / "saved")
    loaded = compiler.load(tmp_path / "saved")
    assert isinstance(loaded, DynamicModule)
    check(loaded, model, {"x": tensor(5, 6, 12, 8)})
    with pytest.raises(compiler.FlowloomError):
        module.run({"x": tensor(2, 7, 6, 8)})


CHAIN = """g (float[n, m] x) => (float[n, m] y) { t = Transpose(x) s = Softmax(t) r = Exp(s)
    u = MatMul(x, r) v = MatMul(u, x) w = Softmax(v) y = Add(w, x) }"""


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("schedule.json", '"n0"', '"n0 + 1"', "by the seal"),
        ("schedule.json", '"n0"', '"f(1)"', "not an extent"),
        ("kernels/kernels.json", '"s0"', '"s0 + 1"', "no valid"),
        ("manifest.json", '"below": []', '"below": [0]', "no valid"),
        ("manifest.json", '"low": 2', '"low": 3', "by the seal"),
        ("manifest.json", '"n0"', '"n1"', "by the seal"),
        ("manifest.json", '"extents"', '"others"', "no valid"),
    ],
)
def test_an_edited_segment_for_all_sizes_is_refused(
    file: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    module = compiled(CHAIN, threads=1)
    module.run({"x": tensor(30, 20)})
    module.save(tmp_path / "saved")
    (folder,) = (tmp_path / "saved" / "segments").iterdir()
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    redo_hashes(folder)
    with pytest.raises(ArtifactError, match=message):
        list(checked_artifacts(folder, trust_all))


def test_an_input_of_other_extents_is_refused(tmp_path: Path) -> None:
    module = compiled(CHAIN, threads=1)
    module.run({"x": tensor(30, 20)})
    module.save(tmp_path / "saved")
    (folder,) = (tmp_path / "saved" / "segments").iterdir()

    segment = load_segment(folder, in_one_block, trust_all, {})
    rows, columns = segment.axes["x"]
    forged = replace(segment, axes={"x": (rows + 1, columns)})
    save_segment(forged, tmp_path / "forged")
    with pytest.raises(ArtifactError, match=r"axes\.x\[0\]: n \+ 1 is not a multiple of a symbol"):
        load_segment(tmp_path / "forged", in_one_block, trust_all, {})


def test_threads_run_several_sizes_at_once() -> None:
    module, model = compiled(LAYER, threads=1), model_of(LAYER)
    with ThreadPoolExecutor(4) as pool:
        inputs = [{"x": tensor(2 + i % 3, 5 + i, 8)} for i in range(24)]
        runs = [pool.submit(check, module, model, feeds) for feeds in inputs]
        for run in runs:
            run.result()


@pytest.mark.parametrize("block", range(4))
def test_random_models_are_right_at_all_sizes(block: int) -> None:
    passed = 0
    for seed in range(100 * block, 100 * block + 16):
        case = random_sizes(seed, "cpu")
        if case is not None:
            outcome = judge(case)
            assert outcome.failure is None, f"{seed}: {outcome.failure.message}"
            passed += outcome.status == "passed"
    assert passed > 4


@pytest.mark.parametrize("name", ["bert", "bert_dynamo"])
def test_an_export_is_compiled_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    model = onnx.load_model_from_string((EXPORTS / f"{name}.onnx").read_bytes())
    module = compiler.compile(model)
    assert isinstance(module, DynamicModule)
    with caplog.at_level(logging.WARNING, LOGGER):
        for length in (12, 20, 9, 33):
            sizes = {"batch": 2, "length": length}
            feeds: dict[str, np.ndarray] = {}
            for value in module.inputs:
                shape = [n if isinstance(n, int) else sizes[str(n)] for n in value.shape or ()]
                words = np.random.default_rng(length).integers(1, 9, shape)
                feeds[value.name] = words.astype(value.dtype)
            check(module, model, feeds)
    assert messages(caplog) == ["all"]


def test_sizes_that_a_schedule_is_not_for_are_compiled_alone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, model = compiled(LAYER), model_of(LAYER)
    check(module, model, {"x": tensor(3, 20, 8)})

    def refused(segment: SymbolicSegment, sizes: Sizes) -> StaticSegment:
        raise NotForAllSizes(f"no kernel for {sizes}")

    monkeypatch.setattr(SymbolicSegment, "at", refused)
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOGGER):
        check(module, model, {"x": tensor(3, 30, 8)})
    refusal, compilation = messages(caplog)
    assert "is compiled for each size alone: no kernel for" in refusal
    assert "compiled g.0 for x float32[3, 30, 8] in" in compilation


def test_a_fault_while_compiling_for_all_sizes_is_warned_of_and_results_are_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faulty(*arguments: object) -> None:
        raise KeyError("a symbol")

    monkeypatch.setattr(compiling, "build_symbolic", faulty)
    module, model = compiled(LAYER), model_of(LAYER)
    with pytest.warns(SymbolicFaultWarning, match=r"g\.0 .* fault .* KeyError: 'a symbol'"):
        check(module, model, {"x": tensor(3, 20, 8)})
    check(module, model, {"x": tensor(4, 20, 8)})


def test_an_error_of_the_model_is_no_fault(
    recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    text = """g (float[n, 70] x, float[m, 70] y) => (float[k, 70] z) { z = Add(x, y) }"""
    module = compiled(text)
    with pytest.raises(ShapeError, match="Add"):
        module.run({"x": tensor(3, 70), "y": tensor(5, 70)})
    assert not recwarn.list
    for n in (3, 5):
        check(module, model_of(text), {"x": tensor(n, 70), "y": tensor(n, 70)})
    assert messages(caplog) == ["all"]


FROM_SIZES = {
    "a type of 32 bits": """g (float[n, m] x) => (float[n, m] w, int32[2] z)
        { w = Tanh(x) s = Shape(x) z = Cast<to = 6>(s) }""",
    "products that wrap around in 32 bits": """g (float[n, m] x) => (float[n, m] w, int32[2] z)
        { w = Tanh(x) s = Shape(x) t = Cast<to = 6>(s) u = Mul(t, t) v = Mul(u, t)
          z = Div(v, t) }""",
    "products that wrap around in 64 bits": """g (float[n, m] x) => (float[n, m] w, int64[2] z)
        { w = Tanh(x) s = Shape(x) u = Mul(s, s) v = Mul(u, u) t = Mul(v, v) z = Div(t, v) }""",
    "a product that fits in no type": """g (float[n, m] x) => (float[n, m] w, int64 z)
        { w = Tanh(x) s = Size(x) u = Mul(s, s) v = Mul(u, u) t = Mul(v, v) z = Mul(t, v) }""",
    "a comparison": """g (float[n, m] x) => (float[n, m] w, bool[2] z)
        <int32 zero = {0}> { w = Tanh(x) s = Shape(x) t = Cast<to = 6>(s) u = Mul(t, t)
          v = Mul(u, t) z = Less(v, zero) }""",
    "a chain of quotients": "g (float[n, m] x) => (float[n, m] w, int64[2] z)"
    "<int64 two = {2}, int64 three = {3}> { w = Tanh(x) p0 = Shape(x)"
    + "".join(
        f" q{i} = Div(p{i}, two) r{i} = Div(p{i}, three) p{i + 1} = Add(q{i}, r{i})"
        for i in range(20)
    )
    + " z = Identity(p20) }",
    "a power of a sum": "g (float[n, m] x) => (float[n, m] w, int64 z)"
    "<int64 large = {9973}> { w = Tanh(x) s = Shape(x) p0 = ReduceSum<keepdims = 0>(s)"
    + "".join(f" q{i} = Mul(p{i}, p{i}) p{i + 1} = Mod(q{i}, large)" for i in range(9))
    + " z = Identity(p9) }",
    "a position": """g (float[n, m] x) => (float[n, m] w, int64[1] z)
        { w = Tanh(x) s = Shape(x) z = ArgMax(s) }""",
    "floats": """g (float[n, m] x) => (float[n, m] w, float[2] z)
        { w = Tanh(x) s = Shape(x) z = Cast<to = 1>(s) }""",
    "a slice backwards": """g (float[n, m] x) => (float[k, m] z)
        <int64[1] start = {-1}, int64[1] end = {-9223372036854775808}, int64[1] axis = {0},
         int64[1] step = {-2}> { z = Slice(x, start, end, axis, step) }""",
    "a mean of all pixels": """g (float[n, m] x) => (float[1, n, 1] z)
        <int64[1] axis = {0}> { w = Unsqueeze(x, axis) z = GlobalAveragePool(w) }""",
    "windows": """g (float[n, m] x) => (float[1, n, k] z) <int64[1] axis = {0}>
        { w = Unsqueeze(x, axis) z = MaxPool<kernel_shape = [3], pads = [1, 1]>(w) }""",
}
"""Models that compute with their inputs' sizes."""


@pytest.mark.parametrize("name", FROM_SIZES)
def test_numbers_computed_from_sizes_are_those_of_each_size(name: str) -> None:
    for sizes in ([(9, 80), (2000, 3), (3, 1300), (50, 70)], [(2000, 3), (9, 80)]):
        module, model = compiled(FROM_SIZES[name]), model_of(FROM_SIZES[name])
        for rows, columns in sizes:
            check(module, model, {"x": tensor(rows, columns)})


def test_a_compilation_counts_once_whatever_sizes_it_had() -> None:
    module = compiled(LAYER, threads=1)
    module.run({"x": tensor(3, 20, 8)})
    memory, summary = module.memory, module.summary()
    assert memory.code
    for n in (30, 40):
        module.run({"x": tensor(3, n, 8)})
    assert module.memory.code == memory.code
    assert module.summary() == summary
    assert "1 compiled segment" in summary


def test_the_ir_of_a_segment_for_all_sizes_has_a_folder(tmp_path: Path) -> None:
    module = compiled(LAYER, dump_ir=tmp_path)
    module.run({"x": tensor(3, 20, 8)})
    assert "(batch" in "".join(path.read_text() for path in (tmp_path / "g.0-sizes").glob("*.mlir"))
