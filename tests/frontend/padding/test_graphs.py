"""Graphs of one padded dimension."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.frontend.padding.pairs import CannotPad
from tests.frontend.padding import checks
from tests.frontend.padding.checks import Arrays


def check(text: str, large: int, small: int, constants: Arrays) -> None:
    """Compare a padded graph with the smaller one, by the size of the dimension n."""
    checks.check(text, {"n": large}, {"n": small}, constants)


ATTENTION = """g (float[1, n, 4] x) => (float[1, n, 4] y, float[1, 4] last) {
    shape = Constant<value_ints = [1, -1, 2, 2]>()
    flat = Constant<value_ints = [1, -1, 4]>()
    q0 = MatMul(x, w)
    q1 = Reshape(q0, shape)
    q = Transpose<perm = [0, 2, 1, 3]>(q1)
    k = Transpose<perm = [0, 2, 3, 1]>(q1)
    s = MatMul(q, k)
    p = Softmax<axis = -1>(s)
    c0 = MatMul(p, q)
    c1 = Transpose<perm = [0, 2, 1, 3]>(c0)
    y = Reshape(c1, flat)
    axes = Constant<value_ints = [1]>()
    last = ReduceMax<keepdims = 0>(y, axes)
}"""


@pytest.mark.parametrize("small", [1, 2, 6, 7])
def test_an_attention_reads_no_padding(small: int):
    w = np.random.default_rng(0).standard_normal((4, 4)).astype("f4")
    check(ATTENTION, 7, small, {"w": w})


_STEPS = (
    "{out} = Relu({a})",
    "{out} = Add({a}, {b})",
    "{out} = Mul({a}, c)",
    "{out} = Div({a}, {b})",
    "{out} = MatMul({a}, w)",
    "{out} = Softmax<axis = {axis}>({a})",
    "{out} = LogSoftmax<axis = {axis}>({a})",
    "t{out} = Transpose<perm = [0, 2, 1]>({a})\n s{out} = MatMul({b}, t{out})\n"
    " {out} = MatMul(s{out}, {a})",
    "m{out} = ReduceMax({a}, axis{axis})\n {out} = Sub({a}, m{out})",
    "m{out} = ReduceSum({a}, axis{axis})\n {out} = Sub({a}, m{out})",
    "m{out} = ReduceMean({a}, axis{axis})\n {out} = Sub({a}, m{out})",
    "{out} = LayerNormalization({a}, scale)",
    "{out} = CumSum({a}, axis1)",
    "{out} = Concat<axis = 0>({a}, {b})",
    "p{out} = Slice({a}, zero, two, axis1)\n {out} = Concat<axis = 0>({a}, {b})",
    "{out} = Where(ok, {a}, {b})",
)
"""Operators on tensors of the shape [any, n, 4]."""


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """The text of a graph of tensors [1, n, 4], with a reduction at its end."""
    lines: list[str] = []
    values: list[str] = ["x", "y"]
    for index in range(draw(st.integers(1, 6))):
        step = draw(st.sampled_from(_STEPS))
        same = [v for v in values if "cat" not in v]
        a, b = draw(st.sampled_from(same)), draw(st.sampled_from(same))
        axis = draw(st.sampled_from([1, 2]))
        out = f"v{index}" + ("cat" if "Concat" in step else "")
        lines.append(step.format(a=a, b=b, axis=axis, out=out))
        values.append(out)
    lines.append(f"total = ReduceSum<keepdims = 0>({values[-1]}, axis1)")
    body = "\n ".join(lines)
    outputs = f"float[a, n, 4] {values[-1]}, float[a, 4] total"
    return f"g (float[1, n, 4] x, float[1, n, 4] y) => ({outputs}) {{\n {body}\n}}"


CONSTANTS = {
    "c": np.array(0.5, "f4"),
    "w": np.random.default_rng(1).standard_normal((4, 4)).astype("f4"),
    "scale": np.ones(4, "f4"),
    "axis1": np.array([1]),
    "axis2": np.array([2]),
    "zero": np.array([0]),
    "two": np.array([2]),
    "ok": np.array([True, False, True, True]),
}


@given(graphs(), st.integers(3, 9), st.data())
def test_any_graph_is_right_or_refused(text: str, large: int, data: st.DataObject):
    try:
        check(text, large, data.draw(st.integers(1, large)), CONSTANTS)
    except CannotPad:
        return


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("y = MeanVarianceNormalization<axes = [1]>(x)", "needs all of a padded axis"),
        ("y = Slice(x, last, none, axis1, back)", "counts from the end of a padded axis"),
        ("y = Concat<axis = 1>(x, x)", "concatenates a padded axis"),
        ("y = Reshape(x, turned)", "mixes padding with elements"),
        ("s = Shape(x)\n f = Cast<to = 1>(s)\n y = Mul(x, f4)\n", None),
    ],
)
def test_graphs_that_cannot_be_padded_are_refused(nodes: str, reason: str | None):
    constants = {
        "axis1": np.array([1]),
        "last": np.array([-2]),
        "none": np.array([-(10**6)]),
        "back": np.array([-1]),
        "turned": np.array([4, -1]),
        "f4": np.ones(4, "f4"),
    }
    text = f"g (float[1, n, 4] x) => (float[b, c, d] y) {{\n {nodes}\n}}"
    if reason is None:
        check(text, 6, 4, constants)
        return
    with pytest.raises(CannotPad, match=reason):
        check(text, 6, 4, constants)


@pytest.mark.parametrize(
    ("node", "outputs", "right"),
    [
        ("y = LSTM (x, w, r)", "float[n, 1, 1, 4] y", True),
        ("y, h = LSTM (x, w, r)", "float[n, 1, 1, 4] y, float[1, 1, 4] h", False),
        ('y = LSTM <direction = "reverse"> (x, w, r)', "float[n, 1, 1, 4] y", False),
        (
            'y, h = LSTM <direction = "reverse"> (x, w, r, , lengths)',
            "float[n, 1, 1, 4] y, float[1, 1, 4] h",
            True,
        ),
        ("unused, h = LSTM (x, w, r, , lengths)", "float[1, 1, 4] h", True),
    ],
)
def test_padded_steps_come_last(node: str, outputs: str, right: bool):
    generator = np.random.default_rng(6)
    constants = {name: generator.standard_normal((1, 16, 4)).astype("f4") for name in "wr"}
    text = f"g (float[n, 1, 4] x, int32[1] lengths) => ({outputs}) {{\n {node}\n}}"
    if right:
        check(text, 6, 4, constants)
        return
    with pytest.raises(CannotPad, match="needs all of its steps"):
        check(text, 6, 4, constants)


def test_a_constant_that_depends_on_the_size_is_refused():
    text = """g (float[1, n, 4] x) => (float[1, n, 4] y) {
        s = Shape<start = 1, end = 2>(x)
        f = Cast<to = 1>(s)
        y = Div(x, f)
    }"""
    with pytest.raises(CannotPad, match="depends on the size"):
        check(text, 6, 4, {})
