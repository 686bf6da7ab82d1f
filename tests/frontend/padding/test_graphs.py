"""Padded graphs against the graphs of the smaller sizes, with padding that is poisoned."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.frontend.graph import Graph, Value
from compiler.frontend.interpreter import evaluate_node
from compiler.frontend.padding.graphs import padding_of
from compiler.frontend.padding.masking import EXTENT, padded_graph
from compiler.frontend.padding.pairs import CannotPad
from compiler.frontend.part import ModelContext, ModelPart, specialise_part

WIDTH = 4
"""The size of the axes that are not padded."""


def specialised(text: str, size: int, constants: Mapping[str, np.ndarray]) -> Graph:
    """The graph of nodes in ONNX's text form for the size of the dimension n."""
    graph = onnx.parser.parse_graph(text)
    names = [output.name for output in graph.output]
    inputs: dict[str, Value] = {}
    for info in graph.input:
        dims = info.type.tensor_type.shape.dim
        shape = tuple(size if d.dim_param else d.dim_value for d in dims)
        dtype = {6: "int32", 7: "int64"}.get(info.type.tensor_type.elem_type, "float32")
        inputs[info.name] = Value(info.name, dtype, shape)
    part = ModelPart(list(graph.node), names, constants)
    found = specialise_part(part, inputs, ModelContext({"": 21}, has_kernel=lambda sizes: True))
    assert not found.obstacles, found.obstacles
    return found.graph


def evaluated(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph."""
    values = {value: inputs[value.name] for value in graph.inputs}
    for operator in graph.operators:
        arrays = [None if v is None else values.get(v, v.array) for v in operator.inputs]
        used = [value is not None for value in operator.outputs]
        with np.errstate(all="ignore"):
            found = evaluate_node(operator.op_type, arrays, operator.attributes, used)
        pairs = zip(operator.outputs, found, strict=True)
        values |= {v: a for v, a in pairs if v is not None and a is not None}
    return [values[v] if v.array is None else v.content for _, v in graph.outputs]


def check(text: str, large: int, small: int, constants: Mapping[str, np.ndarray]) -> None:
    """Compare a padded graph with the smaller one: padding is NaN, or a large integer."""
    bucket, exact = (specialised(text, size, constants) for size in (large, small))
    example = specialised(text, max(1, large - 1), constants)
    whole = padding_of(bucket, example, example)
    padding = padding_of(bucket, example, exact)
    graph = padded_graph(bucket, whole)
    generator = np.random.default_rng(small)
    given = {v.name: _random(generator, v) for v in exact.inputs}
    poisoned = {v.name: _poisoned(given[v.name], v) for v in bucket.inputs}
    extents = whole.extents_of(padding)
    poisoned |= {f"{EXTENT}{number}": np.array(e) for number, e in enumerate(extents)}
    found, expected = evaluated(graph, poisoned), evaluated(exact, given)
    for array, crop, wanted in zip(found, padding.outputs, expected, strict=True):
        np.testing.assert_allclose(crop(array), wanted, rtol=1e-5, atol=1e-6)


def _random(generator: np.random.Generator, value: Value) -> np.ndarray:
    if value.dtype != "float32":
        return generator.integers(0, WIDTH, value.shape).astype(value.dtype)
    return generator.standard_normal(value.shape).astype("f4")


def _poisoned(array: np.ndarray, value: Value) -> np.ndarray:
    poison = np.nan if value.dtype == "float32" else 10**6
    large = np.full(value.shape, poison, array.dtype)
    large[tuple(map(slice, array.shape))] = array
    return large


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
        ("m = ReduceMean(x, axis1)\n y = Sub(x, m)", "ReduceMean .* cannot be padded"),
        ("y = Slice(x, last, none, axis1)", "counts from the end of a padded axis"),
        ("y = Concat<axis = 1>(x, x)", "concatenates a padded axis"),
        ("y = Reshape(x, turned)", "mixes padding with elements"),
        ("s = Shape(x)\n f = Cast<to = 1>(s)\n y = Mul(x, f4)\n", None),
    ],
)
def test_graphs_that_cannot_be_padded_are_refused(nodes: str, reason: str | None):
    constants = {
        "axis1": np.array([1]),
        "last": np.array([-2]),
        "none": np.array([10**6]),
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
