"""Functions of a model's own equal onnxruntime's, nested and with attributes of every origin: in
models of any size, whose calls are inlined, and as static graphs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper, parser

import compiler
from compiler.errors import ModelError, UnsupportedOperatorError
from compiler.frontend.control.functions import without_functions
from compiler.net.building.expansion import LIMIT_VARIABLE
from tests.frontend.control.checks import reference

Array = NDArray[Any]
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
FEEDS = {"x": X, "go": np.array(True), "n": np.array(2), "on": np.array(True)}

LEAKY = """<domain: "own", opset_import: ["" : 21]> leaky <slope: float = 0.25> (a) => (b)
    { b = LeakyRelu <alpha : float = @slope> (a) }"""

MODELS = {
    "references in nested calls": (
        "y = own.outer <s = 0.5> (x)",
        """<domain: "own", opset_import: ["" : 21, "own" : 1]> outer <s> (a) => (c)
        { n = Neg (a) b = own.leaky <slope : float = @s> (n) c = Add (b, a) }""",
    ),
    "defaults in nested calls": (
        "y = own.outer (x)",
        """<domain: "own", opset_import: ["" : 21, "own" : 1]> outer <s: float = 0.5> (a) => (c)
        { n = Neg (a) b = own.leaky (n) d = own.leaky <slope : float = @s> (n) c = Mul (b, d) }""",
    ),
    "an attribute without a value": (
        "y = own.plain (x)",
        """<domain: "own", opset_import: ["" : 21]> plain <slope> (a) => (b)
        { b = LeakyRelu <alpha : float = @slope> (a) }""",
    ),
    "calls in bodies": (
        "y = own.choose <s = 0.75> (x, go)",
        """<domain: "own", opset_import: ["" : 21, "own" : 1]> choose <s> (a, c) => (b) {
        n = Neg (a) b = If (c) <
          then_branch = t () => (float[k,3] p) { p = own.leaky <slope : float = @s> (n) },
          else_branch = e () => (float[k,3] q) { q = own.leaky (n) }> }""",
    ),
    "calls in a loop": (
        """y = Loop (n, on, x) <body = l (int64 i, bool g, float[r,3] s) => (bool h, float[r,3] u)
        { h = Identity (g) v = own.leaky <slope = 0.5> (s) u = Add (v, x) }>""",
        "",
    ),
    "an input left out": (
        "y = own.clip (x)",
        """<domain: "own", opset_import: ["" : 21]> clip (a, low) => (b) { b = Clip (a, low) }""",
    ),
    "results left out and used twice": (
        ", b, c = own.three (x) d = Add (b, c) y = own.leaky (d)",
        """<domain: "own", opset_import: ["" : 21]> three (a) => (b, c, d)
        { b = Neg (a) c = Abs (a) d = Mul (c, a) }""",
    ),
    "a number and axes": (
        "y = own.shift <v = 3.5, order = [0, 1]> (x)",
        """<domain: "own", opset_import: ["" : 21]> shift <v, order> (a) => (b)
        { k = Constant <value_float : float = @v> () c = Add (a, k)
        b = Transpose <perm : ints = @order> (c) }""",
    ),
    "functions of the standard": (
        "y = own.smooth (x)",
        """<domain: "own", opset_import: ["" : 21]> smooth (a) => (b)
        { c = Mish (a) d = Gelu <approximate = "tanh"> (c) b = Softplus (d) }""",
    ),
}


def model_of(name: str, rows: str) -> onnx.ModelProto:
    """A model with functions."""
    body, functions = MODELS[name]
    return parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        g (float[{rows},3] x, bool go, int64 n, bool on) => (float[{rows},3] y)
        {{ {body} }} {LEAKY} {functions}"""
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rows", ["2", "rows"])
def test_functions_of_the_model(name: str, rows: str):
    model = model_of(name, rows)
    found = compiler.compile(model).run(FEEDS)["y"]
    np.testing.assert_allclose(found, reference(model, FEEDS)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_inlined_models_are_valid(name: str):
    model = without_functions(model_of(name, "rows"))
    checker: Any = onnx.checker
    checker.check_model(model)
    assert not model.functions
    np.testing.assert_allclose(
        reference(model, FEEDS)[0],
        reference(model_of(name, "rows"), FEEDS)[0],
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_function_that_returns_its_input():
    model = model_of("an input left out", "rows")
    del model.functions[1].node[:]
    model.functions[1].output[:] = model.functions[1].input[:1]
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("clip", ["x"], ["c"], domain="own"))
    model.graph.node.append(helper.make_node("Neg", ["c"], ["y"]))
    np.testing.assert_array_equal(compiler.compile(model).run(FEEDS)["y"], -X)


@pytest.mark.parametrize("rows", ["2", "rows"])
def test_a_call_of_more_inputs_is_refused(rows: str):
    model = model_of("an input left out", rows)
    model.graph.node[0].input[:] = ["x", "", "x"]
    with pytest.raises(ModelError, match="it has 3 inputs, the function has 2"):
        compiler.compile(model)


@pytest.mark.parametrize("rows", ["2", "rows"])
def test_calls_that_double_are_refused(rows: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "2000")
    model = model_of("an input left out", rows)
    for level in range(40):
        inner = "leaky" if level == 0 else f"f{level - 1}"
        nodes = [helper.make_node(inner, [a], [b], domain="own") for a, b in ("ab", "bc")]
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
        model.functions.append(helper.make_function("own", f"f{level}", "a", "c", nodes, opsets))
    model.graph.node[0].op_type = "f39"
    with pytest.raises(ModelError, match="expands to more than"):
        compiler.compile(model)


@st.composite
def nested_functions(draw: st.DrawFn) -> onnx.ModelProto:
    """A model of functions that call each other, with attributes of every origin."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    functions: list[onnx.FunctionProto] = []
    for level in range(draw(st.integers(1, 4))):
        nodes, values = list[onnx.NodeProto](), ["a", "b"]
        for step in range(draw(st.integers(1, 3))):
            callee = draw(st.sampled_from(["LeakyRelu", *(f.name for f in functions)]))
            own = callee == "LeakyRelu"
            inputs = [draw(st.sampled_from(values)) for _ in range(1 if own else 2)]
            domain = "" if own else "own"
            node = helper.make_node(callee, inputs, [f"v{step}"], domain=domain)
            attribute = "alpha" if own else "slope"
            origin = draw(st.sampled_from(["reference", "number", "none"]))
            if origin == "reference":
                node.attribute.add(name=attribute, ref_attr_name="slope", type=1)
            elif origin == "number":
                number = draw(st.sampled_from([0.125, 0.5, 2.0]))
                node.attribute.append(helper.make_attribute(attribute, number))
            nodes.append(node)
            values.append(f"v{step}")
        nodes.append(helper.make_node("Sub", [values[-1], values[0]], ["c"]))
        default = [helper.make_attribute("slope", draw(st.sampled_from([0.25, 0.75])))]
        has_default = draw(st.booleans())
        functions.append(
            helper.make_function(
                "own",
                f"f{level}",
                ["a", "b"],
                ["c"],
                nodes,
                opsets,
                attributes=[] if has_default else ["slope"],
                attribute_protos=default if has_default else [],
            )
        )
    call = helper.make_node(functions[-1].name, ["x", "x"], ["m"], domain="own")
    if draw(st.booleans()):
        call.attribute.append(helper.make_attribute("slope", 0.375))
    last = helper.make_node(functions[0].name, ["m", "x"], ["y"], domain="own")
    infos = [helper.make_tensor_value_info(name, 1, ["rows", 3]) for name in "xy"]
    graph = helper.make_graph([call, last], "g", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)


@settings(max_examples=6, deadline=None)
@given(nested_functions())
def test_any_functions(model: onnx.ModelProto):
    wanted = reference(model, {"x": X})[0]
    for shapes in (None, {"x": [2, 3]}):
        found = compiler.compile(model, input_shapes=shapes).run({"x": X})["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def _of_opset(opset: int, body: str, size: str = "2", call: str = "y = own.f (x, go)") -> Any:
    """A model of opset 21 with a function of another."""
    return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 21, "own": 1]>
        g (float[{size}, 2, 3] x, bool go) => (float[a, b, c] y) {{ {call} }}
        <domain: "own", opset_import: ["": {opset}]> f (a, go) => (b) {{ {body} }}""")


def _softmax(x: Array, axes: tuple[int, ...]) -> Array:
    shares = np.exp(x.astype(np.float64))
    return shares / shares.sum(axes, keepdims=True)


def _softmax_from_the_second(x: Array) -> Array:
    return _softmax(x, (1, 2))


def _softmax_of_the_last(x: Array) -> Array:
    return _softmax(x, (2,))


def _summed(x: Array) -> Array:
    return x.sum(1, keepdims=True)


def _sliced(x: Array) -> Array:
    return x[:, :, 1:]


@pytest.mark.parametrize("size", ["2", "n"])
@pytest.mark.parametrize("call", ["y = own.f (x, go)", "s = own.f (x, go) n = Neg (s) y = Neg (n)"])
@pytest.mark.parametrize(
    ("opset", "body", "expected"),
    [
        (12, "b = Softmax (a)", _softmax_from_the_second),
        (13, "b = Softmax (a)", _softmax_of_the_last),
        (11, "b = ReduceSum <axes = [1], keepdims = 1> (a)", _summed),
        (9, "b = Slice <starts = [1], ends = [9], axes = [2]> (a)", _sliced),
        (
            11,
            """b = If (go) <then_branch = t () => (float[k, l, m] p) { p = Softmax (a) },
            else_branch = e () => (float[k, l, m] q) { q = Neg (a) }>""",
            _softmax_from_the_second,
        ),
    ],
)
def test_a_function_has_the_operators_of_the_opset_that_it_imports(
    opset: int,
    body: str,
    expected: Callable[[Array], Array],
    call: str,
    size: str,
    tmp_path: Path,
):
    x = np.random.default_rng(1).standard_normal((2, 2, 3)).astype(np.float32)
    feeds = {"x": x, "go": np.array(True)}
    module = compiler.compile(_of_opset(opset, body, size, call), budget=0)
    module.save(tmp_path / "saved")
    for made in (module, compiler.load(tmp_path / "saved")):
        np.testing.assert_allclose(made.run(feeds)["y"], expected(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", ["2", "n"])
@pytest.mark.parametrize(
    ("opset", "body", "message"),
    [
        (12, "b = Foo (a)", "Foo .*has no such operator"),
        (40, "b = Neg (a)", "the function 'f' uses opset 40"),
        (0, "b = Neg (a)", "the function 'f' uses opset 0"),
        (12, "b = Neg (a, a)", "not valid ONNX"),
    ],
)
def test_a_function_of_another_opset_is_checked(size: str, opset: int, body: str, message: str):
    with pytest.raises((ModelError, UnsupportedOperatorError), match=message):
        compiler.compile(_of_opset(opset, body, size), budget=0)
