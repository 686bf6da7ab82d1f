"""Recurrences as ONNX nodes: their inputs are projected, so W is the identity."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from compiler.net.operators.recurrence import ACTIVATION_PARAMETERS, STATES

AddConstant = Callable[[str, np.ndarray], str]


def recurrence_nodes(
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, Any],
    weight: Sequence[int],
    dtype: np.dtype,
    store: AddConstant,
) -> list[onnx.NodeProto]:
    """The RNN, GRU or LSTM of a Recurrence whose weight R has a shape.

    `store` adds a constant under a name like the given one, and says which.
    """
    directions, rows, hidden = weight
    cell = attributes["cell"]
    own = [*inputs, *[""] * (6 - len(inputs))]
    identity = np.eye(directions * rows, dtype=dtype).reshape(directions, rows, -1)
    nodes = list[onnx.NodeProto]()
    bias = ""
    if own[2]:
        zeros = store("zeros", np.zeros((directions, 5 * hidden), dtype))
        bias = f"{outputs[0] or outputs[1]}_bias"
        nodes.append(helper.make_node("Concat", [zeros, own[2]], [bias], axis=1))
    states = STATES[cell]
    given = [own[0], store("identity", identity), own[1], bias, own[3], *own[4 : 4 + states]]
    kept = outputs[: 1 + states]
    nodes.append(helper.make_node(cell, given, kept, **_attributes(attributes, directions, hidden)))
    return nodes


def _attributes(given: Mapping[str, Any], directions: int, hidden: int) -> dict[str, Any]:
    names = list(given["activations"]) * directions
    found: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": given["direction"],
        "activations": names,
    }
    for key in ("alpha", "beta"):
        values = list(given[f"activation_{key}"]) * directions
        pairs = zip(names, values, strict=True)
        listed = [value for name, value in pairs if key in ACTIVATION_PARAMETERS[name]]
        if listed:
            found[f"activation_{key}"] = listed
    if given.get("clip"):
        found["clip"] = given["clip"]
    if given.get("input_forget"):
        found["input_forget"] = 1
    if given["cell"] == "GRU":
        found["linear_before_reset"] = given["linear_before_reset"]
    return found
