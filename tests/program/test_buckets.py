"""Models in buckets of a batch and a length, against onnxruntime, with padding that is poisoned."""

import logging
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import ArgumentError, FlowloomError, ShapeError
from compiler.program.model import DynamicModule
from compiler.program.padded import PaddedInput
from compiler.tools.cli import main
from tests.program.checks import HEADER, assert_equal, model_of, reference
from tests.program.test_exports import loaded, tokens

ENCODER = """g (float[batch, length, 16] x, int64[batch, length] mask)
    => (float[batch, length, 16] y, float[batch, 16] mean, float[rows, 16] flat)
    <int64[4] heads = {0, -1, 2, 8}, int64[2] rows = {-1, 16}, int64[1] two = {2},
     int64[1] axis = {1}, float scale = {0.35}, float one = {1}, float least = {-10000}> {
    given = Cast<to = 1>(mask)
    hidden = Sub(one, given)
    weighted = Mul(hidden, least)
    axes = Constant<value_ints = [1, 2]>()
    bias = Unsqueeze(weighted, axes)
    f = Reshape(x, rows)
    q0 = Gemm<transB = 1>(f, wq, b)
    k0 = Gemm<transB = 1>(f, wk, b)
    shape = Shape(x)
    q1 = Reshape(q0, shape)
    k1 = Reshape(k0, shape)
    v1 = MatMul(x, wv)
    q2 = Reshape(q1, heads)
    k2 = Reshape(k1, heads)
    v2 = Reshape(v1, heads)
    q = Transpose<perm = [0, 2, 1, 3]>(q2)
    k = Transpose<perm = [0, 2, 3, 1]>(k2)
    v = Transpose<perm = [0, 2, 1, 3]>(v2)
    s0 = MatMul(q, k)
    s1 = Mul(s0, scale)
    s = Add(s1, bias)
    p = Softmax(s)
    c0 = MatMul(p, v)
    c1 = Transpose<perm = [0, 2, 1, 3]>(c0)
    c = Reshape(c1, shape)
    a = Add(x, c)
    n = LayerNormalization(a, ones)
    fn = Reshape(n, rows)
    flat = Gemm(fn, wk, b)
    y = Reshape(flat, shape)
    mean = ReduceMean<keepdims = 0>(y, axis)
}"""

CNN = """g (float[batch, 3, 12, 12] x) => (float[batch, 5] y, float[batch, 1] z)
    <int64[3] axes = {1, 2, 3}, int64[2] last = {2, 3}> {
    c0 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w)
    r = Relu(c0)
    c1 = Conv(r, w1)
    a = Add(c1, r)
    g = GlobalAveragePool(a)
    f = Flatten(g)
    y = Gemm(f, v, c)
    m = ReduceMax(a, axes)
    z = Squeeze(m, last)
}"""

SPEECH = """g (float[batch, 4, frames] x) => (float[batch, steps, 8] y, float[batch, 8] mean)
    <int64[1] axis = {1}> {
    c0 = Conv<pads = [1, 1], strides = [2]>(x, w)
    c = Gelu(c0)
    t = Transpose<perm = [0, 2, 1]>(c)
    k = MatMul(t, c)
    p = Softmax(k)
    y = MatMul(p, t)
    mean = ReduceMean<keepdims = 0>(y, axis)
}"""

WEIGHTS = {
    ENCODER: {"wq": (16, 16), "wk": (16, 16), "wv": (16, 16), "b": (16,), "ones": (16,)},
    CNN: {"w": (8, 3, 3, 3), "w1": (8, 8, 1, 1), "v": (8, 5), "c": (5,)},
    SPEECH: {"w": (8, 4, 3)},
}


def weighted(text: str) -> onnx.ModelProto:
    """The model of a graph with random weights."""
    model = onnx.parser.parse_model(f"{HEADER}\n{text}")
    random = np.random.default_rng(0)
    for name, shape in WEIGHTS[text].items():
        array = random.uniform(-0.5, 0.5, shape).astype("f4")
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


@pytest.fixture(autouse=True)
def _poison(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Padding of inputs is NaN, or a large integer, instead of zeros."""
    clear = PaddedInput._clear  # pyright: ignore[reportPrivateUsage]

    def poisoned(self: PaddedInput, dtype: np.dtype[Any], box: tuple[slice, ...]) -> None:
        clear(self, dtype, box)
        whole = self._whole  # pyright: ignore[reportPrivateUsage]
        whole.fill(np.nan if dtype.kind == "f" else 10**6)

    monkeypatch.setattr(PaddedInput, "_clear", poisoned)


def bucketed(model: onnx.ModelProto, buckets: dict[str, list[int]]) -> DynamicModule:
    """The module of a model in buckets."""
    module = compiler.compile(model, buckets=buckets, threads=1, budget=0)
    assert isinstance(module, DynamicModule)
    return module


def check_all(model: onnx.ModelProto, module: DynamicModule, runs: list[dict[str, Any]]) -> None:
    """Compare runs with onnxruntime's; the module compiles nothing for them."""
    count = len(module.compiler.modules)
    for inputs in runs:
        for name, wanted in reference(model, inputs).items():
            assert_equal(module.run(inputs)[name], wanted)
    assert len(module.compiler.modules) == count


def test_an_encoder_in_buckets_of_batch_and_length():
    model, random = weighted(ENCODER), np.random.default_rng(1)
    module = bucketed(model, {"batch": [3], "length": [8]})
    runs: list[dict[str, Any]] = []
    for batch, length in product((1, 2, 3), (1, 2, 5, 7, 8)):
        mask = np.ones((batch, length), np.int64)
        mask[-1, length // 2 + 1 :] = 0
        x = random.standard_normal((batch, length, 16)).astype("f4")
        runs.append({"x": x, "mask": mask})
    check_all(model, module, runs)


def test_a_length_in_a_bucket_with_a_fixed_batch():
    text = ENCODER.replace("[batch,", "[3,")
    WEIGHTS[text] = WEIGHTS[ENCODER]
    model, random = weighted(text), np.random.default_rng(1)
    module = bucketed(model, {"length": [8]})
    runs = [
        {
            "x": random.standard_normal((3, length, 16)).astype("f4"),
            "mask": random.integers(0, 2, (3, length)) | (np.arange(length) == 0),
        }
        for length in range(1, 9)
    ]
    check_all(model, module, runs)


def test_a_cnn_in_buckets_of_its_batch():
    model, random = weighted(CNN), np.random.default_rng(2)
    module = bucketed(model, {"batch": [2, 5]})
    runs = [{"x": random.standard_normal((n, 3, 12, 12)).astype("f4")} for n in range(1, 6)]
    check_all(model, module, runs)


def test_a_speech_model_in_buckets_of_its_frames():
    model, random = weighted(SPEECH), np.random.default_rng(3)
    module = bucketed(model, {"batch": [2], "frames": [16]})
    runs = [
        {"x": random.standard_normal((n, 4, frames)).astype("f4")}
        for n, frames in product((1, 2), (3, 4, 9, 15, 16))
    ]
    check_all(model, module, runs)


def test_the_last_tokens_are_those_of_the_run():
    model = model_of(
        """g (float[batch, length, 64] x, int64[batch] at)
            => (float[batch, 64] last, float[batch, two, 64] tail, float[batch, 64] chosen,
                float[batch, two, 64] most)
            <int64 end = {-1}, int64[1] from = {-2}, int64[1] to = {1099511627776},
             int64[1] axis = {1}, int64[1] two = {2}> {
            last = Gather<axis = 1>(x, end)
            tail = Slice(x, from, to, axis)
            column = Unsqueeze(at, axis)
            chosen = GatherND<batch_dims = 1>(x, column)
            most, places = TopK<axis = 1, largest = 0>(x, two)
        }"""
    )
    module, random = bucketed(model, {"batch": [3], "length": [8]}), np.random.default_rng(7)
    runs: list[dict[str, Any]] = []
    for batch, length in product((1, 3), (3, 5, 8)):
        x = random.standard_normal((batch, length, 64)).astype("f4")
        runs.append({"x": x, "at": random.integers(-length, length, batch)})
    check_all(model, module, runs)


def test_a_model_of_lengths_that_are_multiples():
    model = model_of(
        """g (float[n, 64] x) => (float[m, 64] y)
            <int64[3] blocks = {-1, 4, 64}, int64[2] rows = {-1, 64}> {
            b = Reshape(x, blocks)
            p = Softmax<axis = 1>(b)
            s = Softmax<axis = 0>(p)
            y = Reshape(s, rows)
        }"""
    )
    module, random = bucketed(model, {"n": [4, 12]}), np.random.default_rng(10)
    check_all(
        model, module, [{"x": random.standard_normal((n, 64)).astype("f4")} for n in (4, 8, 12)]
    )
    with pytest.raises(ShapeError, match="Reshape"):
        module.run({"x": np.zeros((5, 64), "f4")})


def test_two_dimensions_with_buckets_of_one_size_are_apart():
    model = model_of(
        "g (float[n, m, 16] x) => (float[n, m, 16] y)"
        "{ a = Softmax<axis = 0>(x)  y = Softmax<axis = 1>(a) }"
    )
    module, random = bucketed(model, {"n": [8], "m": [8]}), np.random.default_rng(8)
    shapes = [(8, 5, 16), (5, 8, 16), (3, 5, 16)]
    check_all(model, module, [{"x": random.standard_normal(s).astype("f4")} for s in shapes])


def test_a_dimension_of_one_is_repeated_beside_another_of_its_bucket():
    model = model_of("g (float[n, 64] x, float[m, 64] z) => (float[k, 64] y) { y = Add(x, z) }")
    module, random = bucketed(model, {"n": [8], "m": [8]}), np.random.default_rng(9)
    x, z = (random.standard_normal((n, 64)).astype("f4") for n in (1, 5))
    assert_equal(module.run({"x": x, "z": z})["y"], x + z)


@pytest.mark.parametrize("name", ["bert", "bert_dynamo"])
def test_exported_encoders_of_any_batch_and_length(name: str):
    model, random = loaded(f"{name}.onnx"), np.random.default_rng(4)
    module = bucketed(model, {"batch": [3], "length": [16]})
    check_all(model, module, [tokens(random, b, n) for b, n in product((1, 2, 3), (1, 5, 16))])


def test_an_emulated_gpu_runs_a_bucket_of_batch_and_length():
    model = model_of(
        """g (float[batch, length, 16] x) => (float[batch, length, 16] y)
        <int64[2] rows = {-1, 16}> {
            shape = Shape(x)
            f = Reshape(x, rows)
            e = Exp(f)
            b = Reshape(e, shape)
            y = Softmax<axis = 1>(b)
        }"""
    )
    buckets = {"batch": [2], "length": [8]}
    module = compiler.compile(model, buckets=buckets, target="emu", budget=0)
    x = np.random.default_rng(5).standard_normal((1, 5, 16)).astype("f4")
    assert_equal(module.run({"x": x})["y"], reference(model, {"x": x})["y"])


def test_a_refusal_names_operator_and_dimension(caplog: pytest.LogCaptureFixture):
    model = model_of(
        "g (float[batch, length, 64] x) => (float[batch, k, 64] y){ y = Concat<axis = 1>(x, x) }"
    )
    with caplog.at_level(logging.WARNING, "compiler.program"):
        module = bucketed(model, {"batch": [2], "length": [8]})
    (record,) = [r.getMessage() for r in caplog.records if "no bucket" in r.getMessage()]
    assert "Concat 'Concat_y' concatenates a padded axis (dimension length)" in record
    assert "leave the dimension out of the buckets" in record
    x = np.random.default_rng(0).standard_normal((1, 3, 64)).astype("f4")
    assert_equal(module.run({"x": x})["y"], np.concatenate([x, x], 1))


def test_buckets_wait_for_other_dimensions(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "compiler.program"):
        bucketed(weighted(ENCODER), {"length": [8]})
    assert "when a run first needs them, as it leaves batch open" in caplog.text


@pytest.mark.parametrize(
    ("buckets", "options", "message"),
    [
        ({"n": [4]}, {}, "the model's open dimensions are batch"),
        ({"batch": []}, {}, "need whole sizes above 0"),
        ({"batch": [2, 0]}, {}, "need whole sizes above 0"),
        ({"batch": [2.5]}, {}, "need whole sizes above 0"),
        ({"batch": [2]}, {"dynamic": False}, r"dynamic=False \(--static\) is for one"),
        ({"batch": [2]}, {"check": True}, r"check=True \(--check-groups\) is for one"),
        ({"batch": [2]}, {"input_shapes": {"x": [2, 3, 12, 12]}}, "open dimensions are none"),
    ],
)
def test_buckets_that_do_not_fit_are_refused(
    buckets: dict[str, list[int]], options: dict[str, Any], message: str
):
    with pytest.raises((ShapeError, ArgumentError), match=message):
        compiler.compile(weighted(CNN), buckets=buckets, **options)


def saved(folder: Path) -> str:
    """The file of a model."""
    path = folder / "cnn.onnx"
    path.write_bytes(weighted(CNN).SerializeToString())
    return str(path)


def test_the_command_line_compiles_buckets(tmp_path: Path):
    given, found, artifact = (tmp_path / name for name in ("in.npz", "out.npz", "artifact"))
    x = np.random.default_rng(6).standard_normal((3, 3, 12, 12)).astype("f4")
    np.savez(given, x=x)
    options = ["--bucket", "batch=2", "--bucket", "batch=4", "--budget", "0"]
    assert main(["compile", saved(tmp_path), "-o", str(artifact), *options]) == 0
    module = compiler.load(artifact, threads=1)
    assert isinstance(module, DynamicModule)
    assert module.compiler.buckets.sizes == {"batch": [2, 4]}
    files = ["--inputs", str(given), "--outputs", str(found)]
    for subject in ([str(artifact)], [saved(tmp_path), "--check", *options]):
        assert main(["run", *subject, *files]) == 0
        with np.load(found) as outputs:
            for name, wanted in reference(weighted(CNN), {"x": x}).items():
                assert_equal(outputs[name], wanted)
        found.unlink()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "--bucket", "n=2"], "the model's open dimensions are batch"),
        (["compile", "--bucket", "batch=2", "--static"], "(--static) is for one"),
        (["trace", "--bucket", "batch=2"], "(--bucket on the command line)"),
        (["bisect", "--bucket", "batch=2"], "(--bucket on the command line)"),
        (["bench", "--bucket", "batch=2"], "has no fixed shape"),
    ],
)
def test_buckets_of_a_command_that_do_not_fit(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    command, *options = arguments
    output = ["-o", str(tmp_path / "out.json")] if command == "trace" else []
    assert main([command, saved(tmp_path), *output, *options]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("flowloom: ")
    assert message in error


@pytest.mark.parametrize("text", ["batch", "batch=", "=2", "batch=2,x", "batch=0", "batch=-1"])
def test_sizes_on_the_command_line_are_checked(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        main(["compile", saved(tmp_path), "--bucket", text])
    assert "is not of the form DIMENSION=64,128,256" in capsys.readouterr().err


def test_an_artifact_takes_no_buckets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", str(tmp_path), "--bucket", "batch=2"]) == 1
    assert "--bucket needs its ONNX file" in capsys.readouterr().err
    assert issubclass(ShapeError, FlowloomError)
