"""A bound on the size of a model after loops, recurrences and functions are expanded."""

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.artifact.module import Module
from compiler.errors import ModelError, UnsupportedOperatorError
from compiler.frontend.control.unrolling import operator_count
from compiler.frontend.importing import import_model
from compiler.frontend.importing.model import import_graph
from compiler.net.building.expansion import DEEPEST, LIMIT_VARIABLE, Expansion
from compiler.program.model import DynamicModule
from tests.frontend.checks import parse

X = np.array([0.5, -0.25], np.float32)
NESTED = """g (float[2] x) => (float[2] y) {
    [outer] y = Loop (n, , x) <body = o (int64 i, bool c, float[2] a) => (bool d, float[2] b) {
        d = Identity(c)
        [inner] b = Loop (n, , a) <body = p (int64 j, bool e, float[2] u)
            => (bool f, float[2] v) { f = Identity(e) v = Relu(u) }> }> }"""


def functions(calls: list[int]) -> onnx.ModelProto:
    """Functions, each of which calls the previous one the given number of times."""
    opset = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Relu", ["x"], ["y"])]
    made = [helper.make_function("own", "f0", ["x"], ["y"], body, opset)]
    for number, count in enumerate(calls):
        names = ["x", *(f"t{i}" for i in range(count - 1)), "y"]
        pairs = pairwise(names)
        body = [helper.make_node(f"f{number}", [a], [b], domain="own") for a, b in pairs]
        made.append(helper.make_function("own", f"f{number + 1}", ["x"], ["y"], body, opset))
    node = helper.make_node(f"f{len(calls)}", ["x"], ["y"], domain="own", name="top")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, functions=made, opset_imports=opset, ir_version=10)


def test_the_bound_counts_everything():
    expansion = Expansion(3)
    with expansion.inside("Loop 'a'"):
        for step in range(3):
            expansion.count(f"step {step}")
        with pytest.raises(
            ModelError, match=r"Loop 'a' expands to more than 3 .*\(4 so far, at b\)"
        ):
            expansion.count("b")
    with pytest.raises(ModelError, match="the model comes to more than 3"):
        expansion.count("c")


def test_the_environment_moves_the_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "7")
    assert Expansion().most == 7
    monkeypatch.setenv(LIMIT_VARIABLE, "many")
    with pytest.raises(ModelError, match=f"{LIMIT_VARIABLE} is 'many'"):
        Expansion()


def test_nested_loops_share_the_bound(monkeypatch: pytest.MonkeyPatch):
    model = parse(NESTED, n=np.array(30))
    import_model(model)
    monkeypatch.setenv(LIMIT_VARIABLE, "2000")
    refused = r"Loop 'outer' .*: unrolled it would become [34],\d+ nodes; .* shorter loops"
    with pytest.raises(UnsupportedOperatorError, match=refused):
        import_model(model)
    module = compiler.compile(model, target="emu:gfx90a")  # which repeats no graphs
    assert isinstance(module, DynamicModule)
    assert module.run({"x": X})["y"].tolist() == np.maximum(X, 0).tolist()


def nested(depth: int, trips: str = "n") -> str:
    """A multiplication by w in loops in each other, of which the outermost runs `trips` times."""
    text = "b0 = Mul(a0, w)"
    for k in range(1, depth + 1):
        body = f"(int64 i{k}, bool c{k}, float[2] a{k - 1}) => (bool d{k}, float[2] b{k - 1})"
        count = trips if k == depth else "n"
        text = (
            f"b{k} = Loop({count}, , a{k}) <body = l{k} {body} {{ d{k} = Identity(c{k}) {text} }}>"
        )
    inputs = f"float[2] a{depth}" + (", int64 m" if trips == "m" else "")
    return f"g ({inputs}) => (float[2] b{depth}) {{ {text} }}"


SCANNED = """g (float[60, 2] x, float[60, 2] z) => (float[2] y, float[60, 60, 2] rows) {
    zero = Constant<value_floats = [0.0, 0.0]>()
    y, rows = Scan <num_scan_inputs = 1, body = o (float[2] s, float[2] r)
        => (float[2] t, float[60, 2] u) {
            t, u = Scan <num_scan_inputs = 1, body = i (float[2] a, float[2] b)
                => (float[2] c, float[2] d) { p = Mul(a, w) c = Add(p, b) d = Sub(c, r) }> (s, z)
        }> (zero, x) }"""


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        (nested(3), {"a3": X}),
        (nested(4, "m"), {"a4": X, "m": np.array(2)}),
        (SCANNED, {"x": np.ones((60, 2), "f4"), "z": np.ones((60, 2), "f4")}),
    ],
    ids=["three", "run-time", "scans"],
)
def test_loops_that_multiply_are_repeated(text: str, feeds: dict[str, Any]):
    """Each has 60 iterations: unrolled they were 3,600 operators or more."""
    model = parse(text, n=np.array(60), w=np.array([1.0, 0.9999], np.float32))
    graph = import_graph(model, regions=True)
    assert operator_count(graph.operators) < 400
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    module = compiler.compile(model, budget=0)
    assert isinstance(module, Module)
    for found, wanted in zip(module.run(feeds).values(), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_loops_that_nest_deep_are_tried_once_each():
    model = parse(nested(20), n=np.array(60), w=np.ones(2, np.float32))
    graph = import_graph(model, regions=True)
    assert operator_count(graph.operators) < 400


def test_short_loops_in_each_other_are_unrolled():
    model = parse(nested(2), n=np.array(12), w=np.ones(2, np.float32))
    graph = import_graph(model, regions=True)
    assert {operator.type for operator in graph.operators} == {"Mul"}


def test_a_loop_without_an_end_meets_the_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "1000")
    body = "body = o (int64 i, bool c, float[2] a) => (bool d, float[2] b) { d = Identity(c) %s }"
    text = f"g (float[2] x) => (float[2] y) {{ [end] y = Loop (, , x) <{body}> }}"
    for step in ("b = Identity(a)", "b = Relu(a)"):
        with pytest.raises(ModelError, match="Loop 'end' expands"):
            import_model(parse(text % step))


def test_a_loop_may_run_more_than_a_thousand_times():
    body = (
        "body = o (int64 i, bool c, int64 a) => (bool d, int64 b) { d = Identity(c) b = Add(a, i) }"
    )
    text = f"""g (float[2] x) => (float[2] y) {{
        s = Loop (n, , z) <{body}> f = Cast<to=1>(s) y = Mul(x, f) }}"""
    model = parse(text, n=np.array(1500), z=np.array(0))
    x = np.ones(2, np.float32)
    assert compiler.compile(model).run({"x": x})["y"].tolist() == [sum(range(1500))] * 2


def test_recurrences_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "500")
    model = parse(
        "g (float[400,1,2] x) => (float[400,1,1,2] y) { [rnn] y = RNN<hidden_size=2>(x, w, r) }",
        w=np.ones((1, 2, 2), np.float32),
        r=np.ones((1, 2, 2), np.float32),
    )
    with pytest.raises(ModelError, match=r"more than 500 .* at \w+ 'rnn'"):
        import_model(model)
    monkeypatch.setenv(LIMIT_VARIABLE, "300")
    with pytest.raises(ModelError, match=r"\(1 so far, 400 to come, at 400 steps of RNN\)"):
        import_model(model)


def test_functions_that_call_twice_share_the_bound(monkeypatch: pytest.MonkeyPatch):
    assert import_model(functions([2] * 3))
    monkeypatch.setenv(LIMIT_VARIABLE, "3000")
    with pytest.raises(ModelError, match="f22 'top' expands to more than 3,000"):
        import_model(functions([2] * 22))


def test_calls_are_counted_before_they_are_expanded():
    with pytest.raises(ModelError, match=r"f60 'top' .*\(1 so far, [\d,]+ to come, at f60 'top'\)"):
        import_model(functions([2] * 60))


def test_tensors_of_a_map_are_counted_by_the_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "500")
    model = parse("""g (float[200] x) => (int64 n) {
        parts = SplitToSequence(x)
        maps = SequenceMap(parts) <body = b (float[1] p) => (float[1] q) { r = Abs(p) q = Neg(r) }>
        n = SequenceLength(maps) }""")
    with pytest.raises(ModelError, match=r"\(208 so far, [\d,]+ to come, at 200 tensors"):
        import_model(model)


def test_functions_nest_only_so_deep():
    assert import_model(functions([1] * (DEEPEST - 1)))
    with pytest.raises(ModelError, match=f"f80 'top' nests .* more than {DEEPEST} deep"):
        import_model(functions([1] * 80))


@pytest.mark.parametrize("trips", [0, 2])
def test_a_loop_that_never_runs_stacks_nothing(trips: int):
    model = parse(
        """g (float[2,3] x) => (float[2,3] y, float[n,3,2] s) {
            y, s = Loop (n, , x) <body = o (int64 i, bool c, float[2,3] a)
                => (bool d, float[2,3] b, float[3,2] t) {
                    d = Identity(c) b = Relu(a) t = Transpose(b) }> }""",
        n=np.array(trips),
    )
    x = np.random.default_rng().standard_normal((2, 3)).astype(np.float32)
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    found = compiler.compile(model).run({"x": x})
    for name, expected in zip("ys", session.run(None, {"x": x}), strict=True):
        assert found[name].shape == expected.shape
        np.testing.assert_array_equal(found[name], expected)


def test_many_parts_are_no_operators():
    model = parse("""g (float[2000000000] x) => (int64 n) {
        parts = SplitToSequence(x)
        n = SequenceLength(parts)
    }""")
    assert import_model(model)


def test_many_parts_are_not_taken_apart():
    model = parse("""g (float[2000000000] x, int64 i) => (float[1] y) {
        parts = SplitToSequence(x)
        others = SequenceErase(parts)
        y = SequenceAt(others, i)
    }""")
    with pytest.raises(UnsupportedOperatorError, match="it takes 2,000,000,000 tensors apart"):
        import_model(model)
