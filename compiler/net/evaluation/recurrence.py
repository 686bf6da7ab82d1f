"""All steps of an RNN, GRU or LSTM, one cell after another."""

from collections.abc import Callable

import numpy as np

from compiler.net.evaluation.registry import EVALUATIONS, Array, evaluates
from compiler.net.evaluation.rounding import converted_array, double
from compiler.net.node import Node, TypedNode
from compiler.net.spec import KnownTensor

Activate = Callable[[Array], Array]


def _function(name: str, alpha: float, beta: float, clip: float) -> Activate:
    """An activation function; its argument is clipped where that is not 0."""
    lines: dict[str, Activate] = {
        "Affine": lambda x: alpha * x + beta,
        "ScaledTanh": lambda x: alpha * np.tanh(beta * x),
    }

    def operator(x: Array) -> Array:
        operand = KnownTensor("float64", x.shape, x)
        node: TypedNode = Node(name, {"alpha": alpha, "beta": beta}, [operand], ())
        return np.asarray(EVALUATIONS[name](node))

    inner = lines.get(name, operator)
    return (lambda x: inner(np.clip(x, -clip, clip))) if clip else inner


def _cell(
    node: TypedNode, x: Array, weight: Array, bias: Array | float, state: list[Array]
) -> list[Array]:
    """The states after a step, by the gates of the inputs and the weights of the state's."""
    r = state[0] @ weight.T
    names, alphas, betas = (
        node[key] for key in ("activations", "activation_alpha", "activation_beta")
    )
    clip = node["clip"]
    rows = zip(names, alphas, betas, strict=True)
    functions = [_function(name, alpha, beta, clip) for name, alpha, beta in rows]
    if node["cell"] == "RNN":
        return [functions[0](x + r)]
    if node["cell"] == "GRU":
        (xz, xr, xh), (hz, hr, hh) = np.split(x, 3, 1), np.split(r, 3, 1)
        update, reset = functions[0](xz + hz), functions[0](xr + hr)
        after = bool(node["linear_before_reset"])
        candidate = weight[2 * hh.shape[1] :].T
        scaled = reset * (hh + bias) if after else (reset * state[0]) @ candidate
        fresh = functions[1](xh + scaled)
        return [(1 - update) * fresh + update * state[0]]
    i, o, f, c = np.split(x + r, 4, 1)
    write = functions[0](i)
    keep = 1 - write if node["input_forget"] else functions[0](f)
    memory = write * functions[1](c) + keep * state[1]
    return [functions[0](o) * functions[2](memory), memory]


def _direction(node: TypedNode, index: int, backwards: bool) -> tuple[Array, list[Array]]:
    """The outputs of all steps of a direction, and its last states."""
    steps, batch, _ = node.array(0).shape
    weight = double(node.array(1)[index])
    rows, hidden = weight.shape
    x = double(node.array(0))[:, :, index * rows : (index + 1) * rows]
    states = 2 if node["cell"] == "LSTM" else 1
    zero = np.zeros((batch, hidden))
    state = [double(node.array(4 + i)[index]) if node.has(4 + i) else zero for i in range(states)]
    bias = double(node.array(2)[index]) if node.has(2) else 0.0
    lengths = node.array(3) if node.has(3) else np.full(batch, steps)
    outputs = np.zeros((steps, batch, hidden))
    for step in reversed(range(steps)) if backwards else range(steps):
        running = (step < lengths)[:, None]
        following = _cell(node, x[step], weight, bias, state)
        outputs[step] = np.where(running, following[0], 0)
        pairs = zip(following, state, strict=True)
        state = [np.where(running, new, old) for new, old in pairs]
    return outputs, state


@evaluates("Recurrence")
def evaluate_recurrence(node: TypedNode) -> list[Array]:
    """The outputs of all steps (steps, directions, batch, hidden), and the last states."""
    direction = node["direction"]
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    directions = [_direction(node, index, back) for index, back in enumerate(backwards)]
    outputs = np.stack([outputs for outputs, _ in directions], 1)
    last = [np.stack(states) for states in zip(*(states for _, states in directions), strict=True)]
    return [converted_array(array, node.array(0).dtype) for array in (outputs, *last)]
