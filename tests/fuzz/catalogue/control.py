"""Control flow with constant conditions, and functions of the model's own."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.catalogue.registry import generates
from tests.fuzz.grower import Grower

_BODIES = ("Relu", "Tanh", "Abs", "Sigmoid", "Neg")


def _infos(g: Grower, x: str, *names: str) -> list[onnx.ValueInfoProto]:
    """Tensors of the type of `x`."""
    element = helper.np_dtype_to_tensor_dtype(g.values[x].dtype)
    return [helper.make_tensor_value_info(name, element, None) for name in names]


def _with_weight(
    g: Grower, x: str, nodes: list[onnx.NodeProto], like: str = ""
) -> list[TensorProto]:
    """Let a body's first node read `x`, of the type of `like`, plus a weight of the body.

    Gives the initializers of the body; the weight may be a Constant in it instead.
    """
    if g.draw.chance(0.4):
        return []
    weight, sum = g.name("w"), g.name("b")
    dtype = g.values[like or x].dtype
    tensor = numpy_helper.from_array(g.draw.array((), "float32").astype(dtype), weight)
    nodes[0].input[0] = sum
    nodes.insert(0, helper.make_node("Add", [x, weight], [sum]))
    if g.draw.chance(0.5):
        return [tensor]
    nodes.insert(0, helper.make_node("Constant", [], [weight], value=tensor))
    return []


def _float(g: Grower, low: int = 1) -> str:
    return g.tensor(
        ["float32"], lambda s: len(s) >= low and 0 not in s, lambda: g.draw.shape(low, 3)
    )


@generates("If")
def branches(g: Grower, op: str) -> None:
    """Both branches take a tensor from outside."""
    x = _float(g)
    condition = g.constant(np.array(g.draw.chance(0.5)))

    def branch(name: str) -> onnx.GraphProto:
        inner = g.name()
        nodes = [helper.make_node(g.draw.choice(_BODIES), [x], [inner])]
        weights = _with_weight(g, x, nodes)
        return helper.make_graph(nodes, name, [], _infos(g, x, inner), weights)

    g.emit(op, [condition], then_branch=branch("then"), else_branch=branch("else"))


@generates("Loop")
def loops(g: Grower, op: str) -> None:
    """A constant count, one state, one stacked result."""
    x = _float(g)
    count, state, after, row, go = (g.name(p) for p in ("i", "s", "a", "r", "k"))
    step, keep = g.name("d"), g.name("m")
    nodes = [
        helper.make_node("Mul", [state, x], [step]),
        helper.make_node(g.draw.choice(_BODIES), [step], [after]),
        helper.make_node("Sub", [after, x], [row]),
        helper.make_node("Identity", [keep], [go]),
    ]
    ins = [
        helper.make_tensor_value_info(count, TensorProto.INT64, []),
        helper.make_tensor_value_info(keep, TensorProto.BOOL, []),
        *_infos(g, x, state),
    ]
    outs = [helper.make_tensor_value_info(go, TensorProto.BOOL, []), *_infos(g, x, after, row)]
    weights = _with_weight(g, state, nodes, x)
    body = helper.make_graph(nodes, "body", ins, outs, weights)
    trips = g.constant(np.array(g.draw.randint(1, 4), np.int64))
    g.emit(op, [trips, g.constant(np.array(True)), g.like(x, g.values[x].shape)], 2, body=body)


@generates("Scan")
def scans(g: Grower, op: str) -> None:
    """One state, one sequence, either direction."""
    g.require(g.opset >= 9)
    x = _float(g, 2)
    shape = g.values[x].shape
    state, item, after, row = (g.name(p) for p in ("s", "e", "a", "r"))
    nodes = [
        helper.make_node("Add", [state, item], [after]),
        helper.make_node(g.draw.choice(_BODIES), [after], [row]),
    ]
    weights = _with_weight(g, state, nodes, x)
    ins, outs = _infos(g, x, state, item), _infos(g, x, after, row)
    body = helper.make_graph(nodes, "body", ins, outs, weights)
    back: dict[str, Any] = {
        name: [1] for name in g.draw.some(["scan_input_directions", "scan_output_directions"])
    }
    start = g.like(x, shape[1:])
    g.emit(op, [start, x], 2, body=body, num_scan_inputs=1, **back)


@generates("Function")
def functions(g: Grower, op: str) -> None:
    """A function of two nodes, with an attribute that it hands on."""
    name = g.name("f")
    alpha = helper.make_node("LeakyRelu", ["a"], ["b"])
    alpha.attribute.add(name="alpha", ref_attr_name="slope", type=1)
    nodes = [alpha, helper.make_node(g.draw.choice(_BODIES), ["b"], ["c"])]
    imports = [helper.make_opsetid("", g.opset)]
    function = helper.make_function("local", name, ["a"], ["c"], nodes, imports, ["slope"])
    g.model.functions.append(function)
    g.emit(name, [_float(g)], domain="local", slope=g.draw.choice([0.1, 0.5]))
