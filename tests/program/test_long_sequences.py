"""Sequences of many tensors, which are rows of one: a kernel serves all of them."""

import logging
from time import process_time

import numpy as np
import onnx
import pytest

import compiler
from compiler.artifact.module import Module
from compiler.errors import InputDataError
from compiler.program.model import DynamicModule
from tests.frontend.checks import parse
from tests.program.checks import assert_equal, reference

OF_ALL_SIZES = {
    "the same again": "s = SplitToSequence(x) y = ConcatFromSequence<axis = 0>(s)",
    "with a shorter part": "s = SplitToSequence(x, three) y = ConcatFromSequence<axis = 0>(s)",
    "along a new axis": """s = SplitToSequence<keepdims = 0>(x)
        y = ConcatFromSequence<axis = -1, new_axis = 1>(s)""",
    "across": "s = SplitToSequence(x) y = ConcatFromSequence<axis = 1>(s)",
    "of given sizes": """s = SplitToSequence<axis = 1>(w, sizes)
        t = ConcatFromSequence<axis = 0>(s) f = ReduceSum<keepdims = 0>(t) y = Add(x, f)""",
    "picked": """s = SplitToSequence(x, three) a = SequenceAt(s, five) l = SequenceLength(s)
        c = Cast<to = 1>(l) y = Mul(a, c)""",
    "picked by data": """s = SplitToSequence(x) a = SequenceAt(s, i) b = SequenceAt(s, last)
        y = Sub(a, b)""",
    "extended": """s = SplitToSequence(x) a = SequenceAt(s, zero)
        t = SequenceInsert(s, a) y = ConcatFromSequence<axis = 0>(t)""",
}
REPEATED = {
    "mapped": """s = SplitToSequence(x, three) r = SplitToSequence(x, three)
        t, u = SequenceMap(s, r, last) <body = b (float[a,4] e, float[a,4] f, int64 k) =>
          (float[1,4] o, float[a,4] p) {
          o = ReduceMax<keepdims = 1>(e, axes) q = Mul(e, f) g = Cast<to = 1>(k) h = Add(q, g)
          p = Sub(h, row) }>
        v = ConcatFromSequence<axis = 0>(t) z = ConcatFromSequence<axis = 0>(u)
        y = Concat<axis = 0>(v, z)""",
    "appended to by a loop": """s = SplitToSequence(x) l = SequenceLength(s)
        e = SequenceConstruct(row) k = Identity(row)
        t, m, z = Loop(l, true, e, k) <body = b (int64 j, bool go, seq(float[d,4]) before,
          float[1,4] m) => (bool still, seq(float[d,4]) after, float[1,4] more, float[1,4] n) {
          still = Identity(go) f = SequenceAt(s, j) more = Max(m, f) n = Sub(f, more)
          after = SequenceInsert(before, n) }>
        v = ConcatFromSequence<axis = 0>(t) q = ReduceSum<keepdims = 0>(z, axes)
        y = Concat<axis = 0>(v, m, q)""",
}
SINGLE = {
    "mapped with tensors of others": """s = SplitToSequence(x) a = SequenceAt(s, five)
        b = SequenceErase(s, zero) c = SequenceInsert(b, a)
        t = SequenceMap(s, c) <body = b (float[1,4] e, float[1,4] f) => (float[1,4] o)
          { o = Sub(e, f) }> y = ConcatFromSequence<axis = 0>(t)""",
    "made anew in each iteration": """e = SequenceConstruct(row)
        d = SequenceConstruct(row, row)
        t = Loop(hundred, true, d) <body = b (int64 j, bool go, seq(float[d,4]) before) =>
          (bool still, seq(float[d,4]) after) { still = Identity(go) k = Mod(j, five)
          f = Gather(x, k) n = Unsqueeze(f, axes) after = SequenceInsert(e, n) }>
        y = ConcatFromSequence<axis = 0>(t)""",
    "inserted inside": """s = SplitToSequence(x) a = SequenceAt(s, five)
        t = SequenceInsert(s, a, zero) y = ConcatFromSequence<axis = 0>(t)""",
}
OF_COUNTED = """s = SplitToSequence(x)
    t, u = SequenceMap(s) <body = b (float[1,4] e) => (float[2,c] o, float[1,4] p) {
      n = NonZero(e) o = Cast<to = 1>(n) p = Relu(e) }>
    v = ConcatFromSequence<axis = 1>(t) q = ReduceSum(v, axes)
    z = ConcatFromSequence<axis = 1>(u) y = Concat<axis = 1>(q, z)"""
LONG = {**OF_ALL_SIZES, **REPEATED}


def long_model(text: str, rows: int | str) -> onnx.ModelProto:
    """A model of a sequence of as many tensors as `x` has rows, or of a third of them."""
    return parse(
        f"g (float[{rows},4] x, int64 i) => (float[p,q] y) {{ {text} }}",
        w=np.arange(130, dtype=np.float32).reshape(1, 130),
        sizes=np.array([2] * 65),
        row=np.array([[0, 0.5, -0.5, 3]], np.float32),
        three=np.array(3),
        five=np.array(5),
        hundred=np.array(100),
        zero=np.array(0),
        last=np.array(-1),
        true=np.array(True),
        axes=np.array([0]),
    )


def inputs_of(model: onnx.ModelProto, rows: int) -> dict[str, np.ndarray]:
    """Random inputs of the model."""
    x = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
    return {"x": x, "i": np.array(rows // 2)}


def check(module: Module | DynamicModule, model: onnx.ModelProto, rows: int) -> None:
    """Compare a run with onnxruntime's."""
    inputs = inputs_of(model, rows)
    assert_equal(module.run(inputs)["y"], reference(model, inputs)["y"])


@pytest.mark.parametrize("name", LONG)
def test_kernels_do_not_grow_with_the_tensors(name: str):
    tasks = set[int]()
    for rows in (300, 3001):
        model = long_model(LONG[name], rows)
        module = compiler.compile(model)
        assert isinstance(module, Module)
        check(module, model, rows)
        tasks.add(len(module.schedule.tasks))
    assert max(tasks) <= 12


@pytest.mark.parametrize("name", OF_ALL_SIZES)
def test_sequences_are_compiled_for_all_lengths(name: str, caplog: pytest.LogCaptureFixture):
    """Once, or for lengths that differ in the size of the last part, or by where a position is."""
    model = long_model(OF_ALL_SIZES[name], "rows")
    module = compiler.compile(model)
    with caplog.at_level(logging.WARNING, "compiler.program"):
        for rows in (100, 17, 301, 20_000):
            check(module, model, rows)
    compilations = [r.getMessage() for r in caplog.records if " in " in r.getMessage()]
    assert all("for all sizes" in message for message in compilations)
    assert len(compilations) == (3 if name == "picked" else 1)


@pytest.mark.parametrize("name", [*REPEATED, *SINGLE])
def test_sequences_of_any_length(name: str):
    text = {**REPEATED, **SINGLE}[name]
    model = long_model(text, "rows")
    module = compiler.compile(model)
    for rows in (100, 6, 67):
        check(module, model, rows)


@pytest.mark.parametrize("name", SINGLE)
def test_tensors_that_are_not_rows_of_one(name: str):
    for rows in (100, 3000):
        model = long_model(SINGLE[name], rows)
        check(compiler.compile(model), model, rows)


@pytest.mark.parametrize("rows", [5, 70, "rows"])
def test_tensors_whose_sizes_data_decide_are_mapped(rows: int | str):
    model = long_model(OF_COUNTED, rows)
    module = compiler.compile(model)
    for size in (rows,) if isinstance(rows, int) else (5, 70):
        check(module, model, size)


def test_many_strings_are_taken_apart():
    text = """s = SplitToSequence<keepdims = 0>(x) a = SequenceAt(s, i) t = SequenceErase(s, i)
        u = SequenceInsert(t, a) y = ConcatFromSequence<axis = 0, new_axis = 1>(u)"""
    model = parse(f"g (string[rows] x, int64 i) => (string[p] y) {{ {text} }}")
    module = compiler.compile(model)
    for rows in (70, 5):
        inputs = {"x": np.array([f"text {row}" for row in range(rows)]), "i": np.array(2)}
        np.testing.assert_array_equal(module.run(inputs)["y"], reference(model, inputs)["y"])


@pytest.mark.parametrize("name", LONG)
def test_long_sequences_on_the_emulator(name: str):
    model = long_model(LONG[name], 70)
    check(compiler.compile(model, target="emu"), model, 70)


def test_positions_that_data_decide_are_checked():
    model = long_model(OF_ALL_SIZES["picked by data"], 100)
    module = compiler.compile(model, check_indices=True)
    inputs = inputs_of(model, 100)
    module.run(inputs)
    with pytest.raises(InputDataError, match=r"SequenceAt .* must be in \[-100, 99\]"):
        module.run({**inputs, "i": np.array(100)})


def test_a_loop_on_the_host_appends_in_a_moment():
    """Its trip count is data: a step may not make all of the tensors anew."""
    text = REPEATED["appended to by a loop"].replace("Loop(l,", "Loop(i,")
    model = long_model(text.replace("l = SequenceLength(s)", ""), "rows")
    module = compiler.compile(model)
    inputs = inputs_of(model, 1000)
    module.run(inputs)
    started = process_time()
    found = module.run(inputs)["y"]
    assert process_time() - started < 10
    assert_equal(found, reference(model, inputs)["y"])
