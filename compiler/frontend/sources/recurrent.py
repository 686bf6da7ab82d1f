"""The shapes of recurrent nodes: gates times hidden units, for each direction."""

from compiler.frontend.node import ModelNode, checks
from compiler.net.attributes import Mismatch, Shape
from compiler.net.node import ShapeMismatch
from compiler.net.operators.recurrence import DEFAULT_ACTIVATIONS, GATES
from compiler.net.operators.shapes import has_rank, has_shape, listed


def _hidden(node: ModelNode) -> int:
    """The number of hidden units, by the weights and the attribute."""
    recurrence = node.shape(2)
    has_rank("its recurrence weight R", recurrence, 3, 3)
    wanted = node.attributes.get("hidden_size", recurrence[2])
    if wanted != recurrence[2]:
        raise ShapeMismatch(
            f"its hidden_size is {wanted}, its recurrence weight R has the shape"
            f" {listed(recurrence)}"
        )
    return recurrence[2]


@checks(*GATES)
def _recurrent(node: ModelNode) -> None:
    x = node.shape()
    gates = GATES[node.op_type]
    directions = 2 if node["direction"] == "bidirectional" else 1
    has_rank("its input", x, 3, 3)
    hidden = _hidden(node)
    batch_first = node["layout"]
    batch = x[0 if batch_first else 1]
    width = x[2]
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    wanted: dict[int, tuple[str, Shape]] = {
        1: ("weight W", (directions, gates * hidden, width)),
        2: ("recurrence weight R", (directions, gates * hidden, hidden)),
        3: ("bias B", (directions, 2 * gates * hidden)),
        4: ("sequence_lens", (batch,)),
        5: ("initial_h", state),
        6: ("initial_c", state),
        7: ("peepholes P", (directions, 3 * hidden)),
    }
    why = f"the input has the shape {listed(x)}, with {directions} directions, {hidden} hidden"
    for i, (name, shape) in wanted.items():
        if node.input(i) is not None:
            has_shape(f"its {name}", node.shape(i), shape, why)
    _check_activations(node, directions)


def _check_activations(node: ModelNode, directions: int) -> None:
    names = node.attributes.get("activations")
    wanted = len(DEFAULT_ACTIVATIONS[node.op_type]) * directions
    if names and len(names) != wanted:
        raise Mismatch(f"it has {len(names)} activations {names} instead of {wanted}")
