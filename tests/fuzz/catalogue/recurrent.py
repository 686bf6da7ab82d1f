"""RNN, GRU and LSTM."""

from typing import Any

import numpy as np

from compiler.net.operators.recurrence import ACTIVATION_PARAMETERS
from tests.fuzz.catalogue.registry import generates
from tests.fuzz.grower import Grower

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


@generates("RNN GRU LSTM")
def recurrent(g: Grower, op: str) -> None:
    """Every optional input, direction and attribute."""
    draw, gates = g.draw, _GATES[op]
    steps, batch, width, hidden = (draw.randint(1, 4) for _ in range(4))
    direction = draw.choice(["forward", "reverse", "bidirectional"])
    count = 2 if direction == "bidirectional" else 1

    def floats(*shape: int) -> str:
        return g.tensor(["float32"], lambda s: s == shape, lambda: shape, (-1, 1))

    first = g.opset >= 14 and draw.chance(0.2)
    x = floats(batch, steps, width) if first else floats(steps, batch, width)
    state = (batch, count, hidden) if first else (count, batch, hidden)
    optional = [
        lambda: floats(count, 2 * gates * hidden),
        lambda: g.new(draw.numpy.integers(0, steps + 1, batch).astype(np.int32)),
        lambda: floats(*state),
    ]
    optional += [lambda: floats(*state), lambda: floats(count, 3 * hidden)] * (op == "LSTM")
    extra = [make() if draw.chance(0.5) else "" for make in optional]
    weights = [floats(count, gates * hidden, width), floats(count, gates * hidden, hidden)]
    attributes = _attributes(g, op, count)
    outputs = 3 if op == "LSTM" else 2
    g.emit(
        op,
        [x, *weights, *extra],
        draw.choice([1, outputs]),
        hidden_size=hidden,
        direction=direction if direction != "forward" else None,
        layout=1 if first else None,
        **attributes,
    )


def _attributes(g: Grower, op: str, count: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if g.draw.chance(0.3):
        names = g.draw.choices([*ACTIVATION_PARAMETERS], k=_FUNCTIONS[op] * count)
        attributes["activations"] = names
        for key in ("alpha", "beta"):
            most = sum(key in ACTIVATION_PARAMETERS[name] for name in names)
            values = [g.draw.choice([0.25, 0.7, 1.5]) for _ in range(g.draw.randint(0, most))]
            attributes[f"activation_{key}"] = values or None
    if g.draw.chance(0.2):
        attributes["clip"] = 0.7
    if op == "GRU" and g.draw.chance(0.4):
        attributes["linear_before_reset"] = 1
    if op == "LSTM" and g.draw.chance(0.2):
        attributes["input_forget"] = 1
    return attributes
