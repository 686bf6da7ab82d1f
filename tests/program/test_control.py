"""If, Loop and Scan whose conditions, trip counts or shapes a run decides, against onnxruntime."""

import logging

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import ShapeError
from compiler.program.control import LOOP_PATIENCE
from tests.program.checks import check, compiled, model_of, reference

BRANCHES = """g (bool c, float[n, 16] x) => (float[m, 16] y) {
    y = If (c) <
        then_branch = small () => (float[a, 16] t) { t = Relu(x) },
        else_branch = large () => (float[b, 16] e) { e = Concat<axis = 0>(x, x) }
    >
}"""

GROWS = """g (int64 trips, bool go, float[n] x) => (float[m] last, float[k] sums) {
    last, sums = Loop (trips, go, x) <
        body = step (int64 i, bool c, float[p] v) => (bool d, float[q] w, float[] total) {
            d = Identity(c)
            w = Concat<axis = 0>(v, x)
            total = ReduceSum<keepdims = 0>(w)
        }
    >
}"""

WHILE = """g (float x, float limit) => (float y, int64[k] rows) {
    yes = Constant<value = bool {1}>()
    none = Constant<value_string = "">()
    y, rows = Loop (, yes, x) <
        body = step (int64 i, bool c, float v) => (bool d, float w, int64 row) {
            w = Add(v, v)
            d = Less(w, limit)
            row = Identity(i)
        }
    >
}""".replace('    none = Constant<value_string = "">()\n', "")

SCAN = """g (float[4] start, float[n, 4] x) => (float[4] last, float[n, 4] all) {
    last, all = Scan <num_scan_inputs = 1, body = step (float[4] s, float[4] v)
        => (float[4] t, float[4] row) {
            t = Add(s, v)
            row = Mul(t, v)
        }
    > (start, x)
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_a_run_chooses_the_branch(condition: bool):
    x = np.random.default_rng(0).standard_normal((9, 16)).astype("f4")
    check(compiled(BRANCHES), model_of(BRANCHES), {"c": np.array(condition), "x": x})


@pytest.mark.parametrize(("trips", "go"), [(3, True), (0, True), (3, False)])
def test_carried_shapes_change_from_iteration_to_iteration(trips: int, go: bool):
    inputs = {"trips": np.array(trips), "go": np.array(go), "x": np.arange(3, dtype="f4")}
    check(compiled(GROWS), model_of(GROWS), inputs)


def test_a_condition_ends_a_loop_without_a_trip_count():
    inputs = {"x": np.float32(0.01), "limit": np.float32(1e6)}
    given = {name: np.asarray(value) for name, value in inputs.items()}
    check(compiled(WHILE), model_of(WHILE), given)


def test_a_loop_may_run_thousands_of_times():
    text = GROWS.replace("Concat<axis = 0>(v, x)", "Add(v, x)").replace("float[q]", "float[p]")
    module = compiled(text)
    given = {"trips": np.array(3000), "go": np.array(True), "x": np.ones(2, "f4")}
    assert module.run(given)["last"].tolist() == [3001, 3001]


@pytest.mark.parametrize("length", [1, 5])
def test_a_scan_is_as_long_as_its_sequence(length: int):
    generator = np.random.default_rng(length)
    start, x = (generator.standard_normal(s).astype("f4") for s in ((4,), (length, 4)))
    check(compiled(SCAN), model_of(SCAN), {"start": start, "x": x})


def test_a_scan_of_nothing_returns_its_state():
    start = np.arange(4, dtype="f4")
    found = compiled(SCAN).run({"start": start, "x": np.zeros((0, 4), "f4")})
    np.testing.assert_array_equal(found["last"], start)
    assert found["all"].shape == (0, 4)


NESTED = """g (int64 outer, int64 inner, float[n] x) => (float[n] y) {
    yes = Constant<value = bool {1}>()
    half = Constant<value_float = 0.5>()
    y = Loop (outer, yes, x) <
        body = rows (int64 i, bool c, float[n] v) => (bool d, float[n] w) {
            d = Identity(c)
            bound = Sub(inner, i)
            w = Loop (bound, c, v) <
                body = columns (int64 j, bool e, float[n] a) => (bool f, float[n] b) {
                    f = Identity(e)
                    scaled = Mul(a, half)
                    b = Add(scaled, x)
                }
            >
        }
    >
}"""


def test_nested_bodies_read_the_tensors_around_them():
    x = np.random.default_rng(0).standard_normal(80).astype("f4")
    inputs = {"outer": np.array(3), "inner": np.array(2), "x": x}
    check(compiled(NESTED), model_of(NESTED), inputs)


def test_a_condition_is_one_element():
    module = compiled(BRANCHES.replace("bool c", "bool[k] c"))
    with pytest.raises(ShapeError, match="its condition has the shape"):
        module.run({"c": np.array([True, False]), "x": np.ones((2, 16), "f4")})


def with_columns(text: str) -> str:
    """The graph for rows of 20 columns."""
    for old in ("float[n] x", "float[p] v", "float[q] w", "float[m] last"):
        text = text.replace(old, old.replace("]", ", 20]"))
    return text


def test_bodies_whose_shapes_change_are_interpreted_at_first(caplog: pytest.LogCaptureFixture):
    text = with_columns(GROWS)
    module, model = compiled(text), model_of(text)
    x = np.random.default_rng(0).standard_normal((5, 20)).astype("f4")
    inputs = {"trips": np.array(4), "go": np.array(True), "x": x}
    with caplog.at_level(logging.WARNING, "compiler.program"):
        check(module, model, inputs)
        assert not caplog.records
        for _ in range(LOOP_PATIENCE):
            check(module, model, inputs)
    assert len(caplog.records) == 1


LOOP_OF_ROWS = """g (float[3] x, int64 n, bool go) => (float[a] last, float[b, c] rows) {
    last, rows = Loop(n, go, x) <body = step (int64 i, bool c, float[3] s)
        => (bool c2, float[d] s2, float[e] row) {
            c2 = Identity(c)
            s2 = Add(s, x)
            row = Mul(s, s)
        }>
}"""


@pytest.mark.parametrize("trips", [(0,), (2, 0, 3, 0), (-1, 1)])
def test_a_loop_without_iterations_has_rows_of_the_shape_of_others(trips: tuple[int, ...]):
    """The shape of the scan output is not declared in the body."""
    module = compiled(LOOP_OF_ROWS, budget=0)
    x = np.arange(3, dtype=np.float32)
    for count in trips:
        feeds = {"x": x, "n": np.array(count), "go": np.array(True)}
        assert module.run(feeds)["rows"].shape == (max(count, 0), 3)


SIBLINGS = """g (bool c, float[n, 4] x) => (float[k, 4] y, float[m, 4] z)
    {{ y = If(c) <then_branch = {first}, else_branch = {other}>
       z = If(c) <then_branch = {second}, else_branch = {other}> }}"""
BODY = """t () => (q) {{ w = Constant<value = float {{{number}}}>() b = {op}(x, w) r = Tanh(b)
    q = Concat<axis = 0>(r, r) }}"""
OTHER = "e () => (q) { r = Exp(x) q = Relu(r) }"


@pytest.mark.parametrize("second", [("Add", 2.0), ("Mul", 1.0)])
@pytest.mark.parametrize("names", [("", ""), ("same", "same"), ("", "If_y")])
def test_bodies_whose_names_are_equal_are_not_taken_for_each_other(
    names: tuple[str, str], second: tuple[str, float]
) -> None:
    first = BODY.format(op="Add", number=1.0)
    model = model_of(
        SIBLINGS.format(
            first=first, second=BODY.format(op=second[0], number=second[1]), other=OTHER
        )
    )
    unnamed = onnx.ModelProto()
    unnamed.CopyFrom(model)
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    module = compiler.compile(model)
    for rows, condition in ((40, True), (50, True), (40, False), (2, True)):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        inputs = {"c": np.array(condition), "x": x}
        expected = reference(unnamed, inputs)  # onnxruntime refuses equal names
        for name, result in module.run(inputs).items():
            np.testing.assert_allclose(result, expected[name], rtol=1e-5)
