"""All steps of an RNN, GRU or LSTM whose inputs are projected."""

from math import prod

from compiler.net.attributes import Attribute, Mismatch, Shape, flag, number, one_of
from compiler.net.facts import Facts
from compiler.net.node import TypedNode
from compiler.net.operators.shapes import has_rank, has_shape, listed
from compiler.net.spec import Kind, OpSpec, operator
from compiler.tensors.dtypes import FLOATS

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""How many gates a cell has, each with its rows of the weights."""

STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
"""How many states a cell has, the first of which is its output."""


ACTIVATION_PARAMETERS: dict[str, dict[str, float]] = {
    "Affine": {"alpha": 1.0, "beta": 0.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "Relu": {},
    "ScaledTanh": {"alpha": 1.0, "beta": 1.0},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {"alpha": 1.0},
}
"""The activation functions that a cell may have, with the defaults of their parameters."""

ZERO_IN_ONNXRUNTIME = ("Affine", "ScaledTanh", "ThresholdedRelu")
"""Those whose parameters are 0 in onnxruntime where a node has none."""

DEFAULT_ACTIVATIONS = {
    "RNN": ("Tanh",),
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
}
"""The activation functions of one direction of each cell that names none."""


def _recurrence(node: TypedNode) -> list[Shape]:
    x = node.shape()
    weight = node.shape(1)
    cell = node["cell"]
    has_rank("its input", x, 3, 3)
    has_rank("its weight R", weight, 3, 3)
    (steps, batch, _), (directions, _, hidden), gates = x, weight, GATES[cell]
    wanted = 2 if node["direction"] == "bidirectional" else 1
    if directions != wanted:
        raise Mismatch(f"its weight R has {directions} directions instead of {wanted}")
    if cell != "GRU" and not node["linear_before_reset"]:
        raise Mismatch(f"its linear_before_reset is 0, but a {cell} has no reset gate")
    state = (directions, batch, hidden)
    why = f"the input has the shape {listed(x)}, with {directions} directions, {hidden} hidden"
    has_shape("its input", x, (steps, batch, directions * gates * hidden), why)
    has_shape("its weight R", weight, (directions, gates * hidden, hidden), why)
    optional = {2: ("bias", (directions, hidden)), 3: ("lengths", (batch,))}
    optional |= {4: ("initial_h", state), 5: ("initial_c", state)}
    for index, (name, shape) in optional.items():
        value = node.input(index)
        if value is not None:
            has_shape(f"its {name}", value.shape, shape, why)
    for name in ("activations", "activation_alpha", "activation_beta"):
        if len(node[name]) != (count := len(DEFAULT_ACTIVATIONS[cell])):
            raise Mismatch(f"its {name} are {node[name]}, a {cell} has {count}")
    return [(steps, directions, batch, hidden), state, state]


RECURRENCE = "Recurrence"
"""The operator of all steps of an RNN, GRU or LSTM."""

RECURRENCES: dict[str, OpSpec] = {
    RECURRENCE: operator(
        Kind.OPAQUE,
        "T T T? int32? T? T? -> T? T? T?",
        _recurrence,
        {
            "cell": one_of(*GATES),
            "direction": one_of("forward", "reverse", "bidirectional"),
            "activations": Attribute("strings", required=True),
            "activation_alpha": Attribute("floats", required=True),
            "activation_beta": Attribute("floats", required=True),
            "clip": number(0.0),
            "input_forget": flag(0),
            "linear_before_reset": flag(1),
        },
        facts=Facts(
            work=lambda node, results: 2 * prod(node.shape()) * node.shape(1)[-1], sized=True
        ),
        T=FLOATS,
    ),
}
"""The entries of this family, by operator.

The operands are the projected inputs (steps, batch, directions * gates * hidden) with their biases,
the weights R, a GRU's bias of what its reset gate scales (directions, hidden), lengths and initial
states, as ONNX's. A GRU resets after the GEMM of the state, or before, without such a bias, if
`linear_before_reset` is 0. Activations are each direction's; a `clip` of 0 is none.
"""
