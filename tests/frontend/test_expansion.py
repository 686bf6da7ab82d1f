"""A bound on the size of a model after loops, recurrences and functions are expanded."""

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.errors import ModelError
from compiler.frontend.expansion import DEEPEST, LIMIT_VARIABLE, Expansion
from compiler.frontend.importing import import_model
from tests.frontend.checks import parse

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
    with pytest.raises(ModelError, match=r"Loop 'outer' expands to more than 2,000 .* set "):
        import_model(model)


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


def test_functions_that_call_twice_share_the_bound(monkeypatch: pytest.MonkeyPatch):
    assert import_model(functions([2] * 3))
    monkeypatch.setenv(LIMIT_VARIABLE, "3000")
    with pytest.raises(ModelError, match="f22 'top' expands to more than 3,000"):
        import_model(functions([2] * 22))


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


def test_a_sequence_of_too_many_parts_is_refused_at_once():
    model = parse("""g (float[9000000000000] x) => (int64 n) {
        parts = SplitToSequence(x)
        n = SequenceLength(parts)
    }""")
    with pytest.raises(ModelError, match="at 9,000,000,000,000 parts of a tensor"):
        import_model(model)
