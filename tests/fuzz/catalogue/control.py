"""Control flow with constant conditions, functions of the model's own, and chains of look-ups."""

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


@generates("SequenceMap")
def maps(g: Grower, op: str) -> None:
    """A body on each tensor of a sequence and a tensor that all share; another is captured.

    Data decide the sizes of some results.
    """
    g.require(g.opset >= 17)
    x = _float(g)
    shape = g.values[x].shape
    (sequence,) = g.emit("SequenceConstruct", [x, *[g.like(x, shape)] * g.draw.randint(1, 2)])
    item, shared, inner, out = (g.name(p) for p in ("e", "s", "h", "o"))
    nodes = [
        helper.make_node("Mul", [item, shared], [inner]),
        helper.make_node("Add", [inner, x], [out]),
    ]
    results = _infos(g, x, out)
    counted = bool(shape) and g.draw.chance(0.3)
    if counted:
        nodes[1:] = [helper.make_node("NonZero", [inner], [out])]
        results = [helper.make_tensor_value_info(out, TensorProto.INT64, [len(shape), None])]
    body = helper.make_graph(nodes, "body", _infos(g, x, item, shared), results)
    (mapped,) = g.emit(op, [sequence, g.like(x, shape)], body=body)
    new_axis = None if counted else g.draw.choice([None, 1])
    g.emit("ConcatFromSequence", [mapped], axis=int(counted), new_axis=new_axis)


@generates("LookUps")
def look_ups(g: Grower, op: str) -> None:
    """Indices that follow from what earlier ones found, as in a search that is written out."""
    size = g.draw.randint(2, 8)
    table = g.new(g.draw.numpy.integers(-size, size, (size,)))
    at, seen = g.new(g.draw.numpy.integers(0, size, g.draw.shape(1, 2))), ""
    two, length = (g.constant(np.array(number, np.int64)) for number in (2, size))
    for _ in range(g.draw.randint(1, 6)):
        seen = seen or at
        (total,) = g.emit("Add", [at, seen])
        (half,) = g.emit("Div", [total, two])
        (odd,) = g.emit("Mod", [total, two])
        (inside,) = g.emit("Mod", [half, length])
        (found,) = g.emit("Gather", [table, inside])
        (less,) = g.emit("Less", [found, g.draw.choice([odd, half])])
        (seen,) = g.emit("Where", [less, inside, g.draw.choice([found, seen])])
        (at,) = g.emit("Where", [less, g.draw.choice([odd, at]), inside])


@generates("Function")
def functions(g: Grower, op: str) -> None:
    """A function that hands an attribute on, or calls another one that has a default for it.

    onnxruntime does not call a function that has the name of an operator.
    """
    name, inner = g.name("f"), g.name("f")
    imports = [helper.make_opsetid("", g.opset), helper.make_opsetid("local", 1)]
    if g.semantics == "onnxruntime" and g.draw.chance(0.3):
        operator, other = g.draw.sample(_BODIES, 2)
        nodes = [helper.make_node(other, ["a"], ["b"])]
        domain = g.draw.choice(["", "ai.onnx"])
        g.model.functions.append(
            helper.make_function(domain, operator, ["a"], ["b"], nodes, imports)
        )
        g.emit(operator, [_float(g)])
        return
    alpha = helper.make_node("LeakyRelu", ["a"], ["b"])
    alpha.attribute.add(name="alpha", ref_attr_name="slope", type=1)
    default = helper.make_attribute("slope", g.draw.choice([0.25, 0.75]))
    made = helper.make_function(
        "local", inner, ["a"], ["b"], [alpha], imports, attribute_protos=[default]
    )
    g.model.functions.append(made)
    first, call = alpha, helper.make_node(inner, ["a"], ["b"], domain="local")
    if g.draw.chance(0.7):
        first = call
        if g.draw.chance(0.5):
            call.attribute.add(name="slope", ref_attr_name="slope", type=1)
    nodes = [first, helper.make_node(g.draw.choice(_BODIES), ["b"], ["c"])]
    function = helper.make_function("local", name, ["a"], ["c"], nodes, imports, ["slope"])
    g.model.functions.append(function)
    g.emit(name, [_float(g)], domain="local", slope=g.draw.choice([0.1, 0.5]))
