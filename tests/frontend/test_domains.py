"""The default domain of operators by either name, in models and in their functions."""

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import compiler
from compiler.frontend.domains import opsets_of, with_one_default_domain
from tests.frontend.checks import run

X, W = np.array([1, 2, 3], np.float32), np.array([5, 7, 8], np.float32)
FEEDS = {"x": X, "w": W}


def added(size: str, node: str, *opsets: tuple[str, int]) -> onnx.ModelProto:
    """A model of an Add whose node has some domain."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 18]>
        g (float[{size}] x, float[{size}] w) => (float[{size}] y) {{ y = Add (x, w) }}"""
    )
    model.graph.node[0].domain = node
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*opset) for opset in opsets)
    return model


@pytest.mark.parametrize("size", ["3", "n"])
@pytest.mark.parametrize(
    ("node", "opsets"),
    [
        ("ai.onnx", [("", 18)]),
        ("", [("ai.onnx", 18)]),
        ("ai.onnx", [("ai.onnx", 18)]),
        ("ai.onnx", [("", 18), ("ai.onnx", 18)]),
        ("", [("ai.onnx", 11), ("", 18)]),
    ],
)
def test_the_default_domain_has_two_names(size: str, node: str, opsets: list[tuple[str, int]]):
    model = added(size, node, *opsets)
    before = model.SerializeToString()
    (found,) = compiler.compile(model, budget=0).run(FEEDS).values()
    np.testing.assert_array_equal(found, run(model, FEEDS)[0])
    assert model.SerializeToString() == before


@pytest.mark.parametrize("size", ["3", "n"])
def test_bodies_and_functions_name_it_too(size: str):
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 18, "own": 1]>
        g (float[{size}] x, float[{size}] w, bool c) => (float[{size}] y) {{
            y = If (c) <
                then_branch = t () => (float[{size}] a) {{ a = own.both (x, w) }},
                else_branch = e () => (float[{size}] b) {{ b = Neg (x) }}
            >
        }}
        <domain: "own", opset_import: ["": 18]> both (p, q) => (r) {{ r = Mul (p, q) }}"""
    )
    (branch,) = (a.g for a in model.graph.node[0].attribute if a.name == "else_branch")
    branch.node[0].domain = "ai.onnx"
    model.functions[0].node[0].domain = model.functions[0].opset_import[0].domain = "ai.onnx"
    module = compiler.compile(model, budget=0)
    for flag, expected in ((True, X * W), (False, -X)):
        found = module.run({**FEEDS, "c": np.array(flag)})["y"]
        np.testing.assert_array_equal(found, expected)


def test_the_highest_version_of_an_opset_counts():
    """By onnx.proto nodes bind to the highest version of their domain."""
    opsets = [helper.make_opsetid(*opset) for opset in (("ai.onnx", 13), ("", 11), ("own", 1))]
    assert opsets_of(opsets) == {"": 13, "own": 1}


def test_a_model_of_one_name_is_not_copied():
    model = added("3", "", ("ai.onnx", 18))
    assert with_one_default_domain(model) is model


@pytest.mark.parametrize("size", ["3", "n"])
@pytest.mark.parametrize(
    ("domain", "version", "name"),
    [("", 20, "Gelu"), ("ai.onnx", 20, "Gelu"), ("com.microsoft", 1, "Gelu"), ("", 18, "Gelu")],
)
def test_a_session_computes_operators_that_functions_are_named_like(
    size: str, domain: str, version: int, name: str
):
    """Opset 18 has no Gelu."""
    opset = version if domain != "com.microsoft" else 18
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = added(size, "", *((i.domain, i.version) for i in imports))
    negated = [helper.make_node("Neg", ["a"], ["b"])]
    model.functions.append(helper.make_function(domain, name, ["a"], ["b"], negated, imports[:1]))
    model.graph.node[0].op_type, model.graph.node[0].domain = name, domain
    del model.graph.node[0].input[1:]
    session = compiler.InferenceSession(model.SerializeToString())
    (found,) = session.run(None, FEEDS)
    expected = -X if opset == 18 and not domain else run(model, FEEDS)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
