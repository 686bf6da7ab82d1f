"""Models that are compiled once for all sizes compute what onnxruntime does at each of them."""

import logging
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import FlowloomError, KernelError
from compiler.program.model import DynamicModule
from compiler.program.static import StaticSegment
from compiler.program.symbolic import SymbolicSegment
from tests.fuzz.case import Case
from tests.fuzz.compare import compared, judges
from tests.fuzz.graphs import random_graph
from tests.fuzz.oracle import Refused
from tests.program.checks import check, compiled, model_of
from tests.program.symbolic.graphs import Sizes, opened
from tests.program.symbolic.test_graphs import EXPORTS, one_node

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
    text = """g (float[n, 70] x) => (float[n, 70] y) <int64 axis = {0}> { y = CumSum(x, axis) }"""
    module, model = compiled(text), model_of(text)
    with caplog.at_level(logging.WARNING, LOGGER):
        for n in (20, 30):
            check(module, model, {"x": tensor(n, 70)})
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
    assert not caplog.records


def test_threads_run_several_sizes_at_once() -> None:
    module, model = compiled(LAYER, threads=1), model_of(LAYER)
    with ThreadPoolExecutor(4) as pool:
        inputs = [{"x": tensor(2 + i % 3, 5 + i, 8)} for i in range(24)]
        runs = [pool.submit(check, module, model, feeds) for feeds in inputs]
        for run in runs:
            run.result()


def other_sizes(sizes: Sizes, seed: int) -> list[Sizes]:
    """The sizes and two larger ones, some of them equal."""
    draw = random.Random(seed)
    others = [{n: v + draw.choice([0, 1, 2, 5]) for n, v in sizes.items()} for _ in range(2)]
    return [sizes, *others]


def judged(case: Case, seed: int) -> int:
    """Compare runs of a case whose sizes are open with what judges it; how many there were."""
    model, sizes = opened(case.proto)
    module = compiler.compile(model, threads=1, semantics=case.semantics)
    if not isinstance(module, DynamicModule):
        return 0
    runs = 0
    for own in other_sizes(sizes, seed):
        feeds = dict(case.feeds)
        for name, array in case.feeds.items():
            shape = [own.get(f"{name}_{axis}", n) for axis, n in enumerate(array.shape)]
            if shape != list(array.shape):
                picked = np.random.default_rng(seed).integers(0, array.size, shape)
                feeds[name] = array.reshape(-1)[picked]
        try:
            expected = judges(case.changed(model=model.SerializeToString(), feeds=feeds))
            results = module.run(feeds) if expected else None
        except (FlowloomError, Refused):
            continue
        if results is not None:
            failure = compared(expected, results)
            assert failure is None, f"{seed} {own}: {failure.message}"
            runs += 1
    return runs


@pytest.mark.parametrize("block", range(4))
def test_random_models_are_right_at_all_sizes(block: int) -> None:
    runs = 0
    for seed in range(100 * block, 100 * block + 8):
        for case in (one_node(seed, "cpu"), random_graph(seed, "cpu", 10)):
            if case is not None and all(array.size for array in case.feeds.values()):
                runs += judged(case, seed)
    assert runs > 8


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
        raise KernelError(f"no kernel for {sizes}")

    monkeypatch.setattr(SymbolicSegment, "at", refused)
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOGGER):
        check(module, model, {"x": tensor(3, 30, 8)})
    refusal, compilation = messages(caplog)
    assert "is compiled for each size alone: no kernel for" in refusal
    assert "compiled g.0 for x float32[3, 30, 8] in" in compilation


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
