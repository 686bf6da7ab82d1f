"""The shapes of recurrent nodes: gates times hidden units, for each direction."""

from compiler.frontend.sources.source import Check, Source
from compiler.net.attributes import Mismatch, Shape
from compiler.net.operators.recurrence import DEFAULT_ACTIVATIONS, GATES
from compiler.net.operators.shapes import has_rank, has_shape, listed
from compiler.net.spec import ShapeMismatch


def _directions(source: Source) -> int:
    return 2 if source["direction"] == "bidirectional" else 1


def _hidden(source: Source) -> int:
    """The number of hidden units, by the weights and the attribute."""
    recurrence = source.shape(2)
    has_rank("its recurrence weight R", recurrence, 3, 3)
    wanted = source.attributes.get("hidden_size", recurrence[2])
    if wanted != recurrence[2]:
        raise ShapeMismatch(
            f"its hidden_size is {wanted}, its recurrence weight R has the shape"
            f" {listed(recurrence)}"
        )
    return recurrence[2]


def _recurrent(source: Source) -> None:
    x, gates, directions = source.shape(), GATES[source.op_type], _directions(source)
    has_rank("its input", x, 3, 3)
    hidden = _hidden(source)
    batch_first = source["layout"]
    batch, width = x[0 if batch_first else 1], x[2]
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
        if source.input(i) is not None:
            has_shape(f"its {name}", source.shape(i), shape, why)
    _check_activations(source, directions)


def _check_activations(source: Source, directions: int) -> None:
    names = source.attributes.get("activations")
    wanted = len(DEFAULT_ACTIVATIONS[source.op_type]) * directions
    if names and len(names) != wanted:
        raise Mismatch(f"it has {len(names)} activations {names} instead of {wanted}")


RECURRENT: dict[str, Check] = dict.fromkeys(GATES, _recurrent)
"""The checks of this family, by operator."""
