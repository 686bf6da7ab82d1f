"""Sizes that data decide are symbols: a kernel counts them, one schedule has what follows."""

import logging
import pickle
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import RunInputError, ScheduleError, ShapeError
from compiler.program.model import DynamicModule
from compiler.program.symbolic import SymbolicSegment
from compiler.schedule.tasks import MEASURED_SIZE
from compiler.tensors.extents import extent_of
from compiler.tools.cli import main
from compiler.verify import slots
from compiler.verify.all_sizes import certified_for_all_sizes
from tests.program.checks import check, compiled, model_of
from tests.program.symbolic.test_running import LOGGER, messages

MODELS = {
    "indices": """g (float[40, 30] x) => (int64[2, m] z, int64[a] size)
        { r = Relu(x)  z = NonZero(r)  t = Transpose<perm = [1, 0]>(z)  size = Shape(t) }""",
    "elements": """g (float[40, 30] x) => (float[m] y)
        { r = Relu(x)  z = NonZero(r)  t = Transpose<perm = [1, 0]>(z)  g = GatherND(x, t)
          y = Exp(g) }""",
    "compressed elements": """g (float[40, 30] x) => (float[m] y)
        { r = Relu(x)  b = Cast<to = 9>(r)  c = Compress(x, b)  y = Add(c, c) }""",
    "compressed rows": """g (float[40, 30] x) => (float[m, 7] y)
        <int64[1] one = {1}, float half = {0.9}, int64[1] zero = {0}, int64[1] seven = {7}>
        { r = Relu(x)  w = Slice(r, zero, seven, one)  rows = ReduceMax<keepdims = 0>(r, one)
          b = Greater(rows, half)  c = Compress<axis = 0>(w, b)  y = Softmax<axis = 1>(c) }""",
    "numbers": """g (float[40, 30] x) => (int64[m] y, int64[m] n, float[m] e)
        <int64 zero = {0}, int64 one = {1}, float three = {3}>
        { b = Cast<to = 9>(x)  c = Compress(x, b)  size = Shape(c)  k = Squeeze(size)
          n = Range(zero, k, one)  y = Mul(n, n)  e = Expand(three, size) }""",
    "several": """g (float[40, 30] x) => (float[m, 40] y, float[k] s)
        <int64[1] one = {1}, float half = {0.9}>
        { r = Relu(x)  rows = ReduceMax<keepdims = 0>(r, one)  b = Greater(rows, half)
          c = Compress<axis = 0>(x, b)  t = Transpose<perm = [1, 0]>(x)  y = MatMul(c, t)
          p = Cast<to = 9>(r)  e = Compress(x, p)  s = Concat<axis = 0>(e, rows) }""",
}
"""Models in which data decide sizes."""


def inputs() -> Iterator[np.ndarray]:
    """Data of which some, none, all and one are chosen; then others, of as many and more."""
    draw = np.random.default_rng(0)
    for share in (0.5, 0.0, 1.0, 0.0, 0.01, 0.9):
        sign = np.where(draw.random((40, 30)) < share, 1, -1)
        yield (sign * (0.5 + draw.random((40, 30)))).astype("f4")
    lone = -np.ones((40, 30), "f4")
    lone[17, 5] = 1
    yield lone


def segment_of(module: DynamicModule) -> SymbolicSegment:
    """The only segment of a module, which measures sizes."""
    (segment,) = module.compiler.symbolic_segments.values()
    return segment


def check_also_saved(
    module: DynamicModule,
    model: onnx.ModelProto,
    runs: Sequence[Mapping[str, np.ndarray]],
    folder: Path,
) -> None:
    """Compare each run with onnxruntime, then again by the saved module in poisoned memory."""
    for feeds in runs:
        check(module, model, feeds)
    module.save(folder)
    loaded = compiler.load(folder, poison=True, threads=1)
    assert isinstance(loaded, DynamicModule)
    for feeds in runs:
        check(loaded, model, feeds)


@pytest.mark.parametrize("name", MODELS)
def test_one_schedule_has_all_that_data_decide(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_of(MODELS[name])
    with caplog.at_level(logging.WARNING, LOGGER):
        module = compiled(MODELS[name], threads=2)
        check_also_saved(module, model, [{"x": x} for x in inputs()], tmp_path / "saved")
        module.verify()
    assert messages(caplog) == ["all"]


def test_runs_at_once_have_sizes_of_their_own() -> None:
    module, model = compiled(MODELS["several"], threads=2), model_of(MODELS["several"])
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(check, module, model, {"x": x}) for x in (*inputs(), *inputs())]
    for run in runs:
        run.result()
    check(pickle.loads(pickle.dumps(module)), model, {"x": next(inputs())})


def test_the_sizes_of_a_saved_schedule_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(MODELS["compressed rows"]).save(tmp_path / "saved")
    assert main(["check", str(tmp_path / "saved")]) == 0
    assert "no race for all sizes (count of Compress_c from 0 to 40)" in capsys.readouterr().out


def test_what_would_take_too_much_memory_is_divided(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slots, "MOST_MEASURED_BYTES", 1000)
    with caplog.at_level(logging.WARNING, LOGGER):
        module, model = compiled(MODELS["elements"]), model_of(MODELS["elements"])
        for x in inputs():
            check(module, model, {"x": x})
    assert "g.0 is not one schedule: tensors whose sizes data decide" in messages(caplog)[0]


def test_what_holds_for_some_data_only_is_divided(caplog: pytest.LogCaptureFixture) -> None:
    text = """g (float[40, 30] x, float[200] w) => (float[m] y)
        <int64[1] first = {0}, int64[1] end = {200}>
        { b = Cast<to = 9>(x)  c = Compress(x, b)  s = Slice(c, first, end)  y = Add(s, w) }"""
    with caplog.at_level(logging.WARNING, LOGGER):
        module, model = compiled(text), model_of(text)
        for draw in range(2):
            x = np.random.default_rng(draw).standard_normal((40, 30)).astype("f4")
            check(module, model, {"x": x, "w": x.reshape(-1)[:200]})
    assert any("is not one schedule" in message for message in messages(caplog))


def test_what_does_not_fit_the_most_that_there_may_be_is_divided(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = """g (float[1, 9, 5, 5] x, int64[1] k) => (float[1, c, 10, 10] y)
        { t, i = TopK<axis = 1>(x, k)  y = DepthToSpace<blocksize = 2>(t) }"""
    x = np.random.default_rng(0).standard_normal((1, 9, 5, 5)).astype("f4")
    with caplog.at_level(logging.WARNING, LOGGER):
        module, model = compiled(text), model_of(text)
        for k in (4, 8):
            check(module, model, {"x": x, "k": np.array([k])})
    assert any("is not one schedule" in message for message in messages(caplog))
    with pytest.raises(ShapeError, match="9 channels"):
        module.run({"x": x, "k": np.array([9])})


def test_a_task_must_wait_for_the_size_that_it_depends_on() -> None:
    symbolic = segment_of(compiled(MODELS["elements"])).build.schedule
    measuring = certified_for_all_sizes(symbolic).measuring
    ((name, depending),) = measuring.depending.items()
    tasks = [*symbolic.schedule.tasks]
    late = replace(tasks[depending[-1]], stream=63, after=())
    tasks[depending[-1]] = late
    unordered = replace(symbolic, schedule=replace(symbolic.schedule, tasks=tuple(tasks)))
    with pytest.raises(ScheduleError, match=f"race|depends on {name}, and does not wait"):
        certified_for_all_sizes(unordered)


def test_memory_must_have_room_for_all_that_may_be_measured() -> None:
    symbolic = segment_of(compiled(MODELS["elements"])).build.schedule
    (measured,) = (symbol for symbol in symbolic.symbols.values() if symbol.measured)
    more = 64 * extent_of(measured)
    changed = [replace(slot, nbytes=slot.nbytes + more) for slot in symbolic.slots]
    with pytest.raises(ScheduleError, match="memory of a run depends on count of"):
        certified_for_all_sizes(replace(symbolic, slots=tuple(changed)))


def test_a_size_must_be_measured_by_one_task() -> None:
    symbolic = segment_of(compiled(MODELS["elements"])).build.schedule
    allocations = tuple(
        replace(memory, name=f"{MEASURED_SIZE}other")
        if memory.name.startswith(MEASURED_SIZE)
        else memory
        for memory in symbolic.schedule.allocations
    )
    renamed = replace(symbolic.schedule, allocations=allocations)
    with pytest.raises(ScheduleError, match="does not wait for the task that measures it"):
        certified_for_all_sizes(replace(symbolic, schedule=renamed))


COUNTED = {
    "first of a number": """g (float[5, 40] x, int64[1] k) => (float[5, m] e, int64[5, m] i)
        { v, i = TopK<axis = 1>(x, k)  e = Exp(v) }""",
    "first of as many as there are": """g (float[300] x) => (float[m] v, int64[m] i)
        { b = Cast<to = 9>(x)  c = Cast<to = 7>(b)  k = ReduceSum(c)
          v, i = TopK<axis = 0, largest = 0>(x, k) }""",
    "distinct elements": """g (float[20, 30] x, int64[90] j)
        => (float[m] y, int64[m] f, int64[600] v, int64[m] c, int64[q] d)
        { y, f, v, c = Unique(x)  d = Unique<axis = 0>(j) }""",
    "boxes": """g (float[2, 90, 4] boxes, float[2, 3, 90] scores)
        => (int64[m, 3] kept, float[m, 4] b)
        <int64 limit = {9}, float overlap = {0.3}, float[1] least = {0.4}, int64[2] at = {0, 2}>
        { kept = NonMaxSuppression(boxes, scores, limit, overlap, least)
          i = Gather<axis = 1>(kept, at)  b = GatherND(boxes, i) }""",
    "all boxes": """g (float[2, 90, 4] boxes, float[2, 3, 90] scores) => (int64[m, 3] kept)
        <int64[1] limit = {1000}, float overlap = {0.8}>
        { kept = NonMaxSuppression<center_point_box = 1>(boxes, scores, limit, overlap) }""",
}
"""Models with an operator that counts."""


def counted_inputs(name: str) -> Iterator[dict[str, np.ndarray]]:
    """Inputs by which a model gives nothing, something and all."""
    draw = np.random.default_rng(1)
    for share in (0.5, 0.0, 1.0, 0.03):
        match name:
            case "first of a number":
                x = draw.standard_normal((5, 40)).astype("f4")
                yield {"x": x, "k": np.array([int(40 * share)])}
            case "first of as many as there are":
                x = draw.standard_normal(300).astype("f4")
                yield {"x": np.where(draw.random(300) < share, x, 0).astype("f4")}
            case "distinct elements":
                most = 1 + int(5000 * share)
                x = draw.integers(0, most, (20, 30)).astype("f4")
                yield {"x": x, "j": draw.integers(-most, most, 90)}
            case _:
                boxes = draw.random((2, 90, 4)).astype("f4")
                yield {"boxes": boxes, "scores": (draw.random((2, 3, 90)) * share).astype("f4")}


@pytest.mark.parametrize("name", COUNTED)
def test_operators_that_count_are_kernels(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_of(COUNTED[name])
    with caplog.at_level(logging.WARNING, LOGGER):
        module = compiled(COUNTED[name], threads=2)
        check_also_saved(module, model, [*counted_inputs(name)], tmp_path / "saved")
    assert messages(caplog) == ["all"]


@pytest.mark.parametrize("k", [-1, 41])
def test_more_than_there_is_cannot_be_first(k: int) -> None:
    module = compiled(COUNTED["first of a number"])
    x = np.zeros((5, 40), "f4")
    with pytest.raises(RunInputError, match="not from 0 to 40; correct the model or the inputs"):
        module.run({"x": x, "k": np.array([k])})
    assert module.run({"x": x, "k": np.array([2])})["e"].shape == (5, 2)


def test_no_number_is_one_element() -> None:
    module = compiled("g (float[50] x) => (float[m] y, int64[m] f) { y, f = Unique(x) }")
    x = np.repeat(np.array([np.nan, 2, -0.0, 0.0, np.inf], "f4"), 10)
    outputs = module.run({"x": x})
    values, first = np.unique(x, return_index=True)
    np.testing.assert_array_equal(outputs["y"], values)
    np.testing.assert_array_equal(outputs["f"], first)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_parts_of_a_large_tensor_are_counted_by_blocks(share: float) -> None:
    text = "g (bool[200007] x) => (int64[m] z) { i = NonZero(x)  z = Squeeze(i, zero) }"
    module = compiled(text.replace("(int64[m] z)", "(int64[m] z) <int64[1] zero = {0}>"), threads=2)
    x = np.random.default_rng(0).random(200_007) < share
    np.testing.assert_array_equal(module.run({"x": x})["z"], np.flatnonzero(x))


NOT_FOR_FEW = {
    "the largest": "i = ArgMax<axis = 0, keepdims = 0>(c)  y = Cast<to = 1>(i)",
    "an element": "y = Gather<axis = 0>(c, first)",
    "two of them": "y, i = TopK<axis = 0>(c, two)",
    "a slice": "y = Slice(c, first, two)",
}
"""What follows a Compress, and is not the same for none or one element."""


@pytest.mark.parametrize("name", NOT_FOR_FEW)
def test_what_few_elements_do_not_give_is_divided(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"""g (float[400] x) => (float[m] y) <int64[1] first = {{0}}, int64[1] two = {{2}}>
        {{ b = Cast<to = 9>(x)  c = Compress(x, b)  {NOT_FOR_FEW[name]} }}"""
    if name == "the largest":
        text = text.replace("float[m] y", "float y")
    with caplog.at_level(logging.WARNING, LOGGER):
        module, model = compiled(text), model_of(text)
        x = np.random.default_rng(0).standard_normal(400).astype("f4")
        check(module, model, {"x": x})
    assert "g.0 is not one schedule" in messages(caplog)[0]
    if name != "a slice":
        with pytest.raises(RunInputError):
            module.run({"x": np.zeros(400, "f4")})
