"""Padding under operators that move elements to places that shapes decide."""

from collections.abc import Mapping

from compiler.frontend.padding.axes import Axis, Factor, regrouped
from compiler.frontend.padding.effects import (
    Effect,
    Mask,
    Need,
    Rule,
    Tail,
    expect_single,
    expect_whole,
    fill_of,
    resized,
    resized_each,
    unified,
)
from compiler.frontend.padding.pairs import OperatorPair
from compiler.net.operators import RECURRENCE


def view(pair: OperatorPair) -> Effect:
    """A reshape, which merges and splits the factors of axes."""
    before, boxes = pair.operand(0).axes, pair.output.axes
    found = regrouped(before, pair.output.large.shape)
    if found is None or any(a.sizes != b.sizes for a, b in zip(found, boxes, strict=True)):
        raise pair.refusal("mixes padding with elements", *before)
    return Effect([found])


def _transpose(pair: OperatorPair) -> Effect:
    axes, order = pair.operand(0).axes, [int(axis) for axis in pair.operator.attributes["perm"]]
    return Effect([tuple(axes[axis] for axis in order)])


def _expand(pair: OperatorPair) -> Effect:
    """An Expand; all that it repeats are elements."""
    data, output = pair.operand(0).axes, pair.output.axes
    aligned = output[: len(output) - len(data)] + data
    pairs = zip(aligned, output, strict=True)
    return Effect([tuple(given if given.factors else made for given, made in pairs)])


def _concat(pair: OperatorPair) -> Effect:
    """A Concat, of which the last operand may be padded along its axis."""
    operands = [operand for operand in pair.inputs if operand is not None]
    axis: int = pair.operator["axis"]
    if any(operand.axes[axis].open for operand in operands[:-1]):
        raise pair.refusal("concatenates a padded axis", *(o.axes[axis] for o in operands))
    columns = zip(*(operand.axes for operand in operands), strict=True)
    axes = [
        resized(pair, column[-1], after) if number == axis else unified(pair, *column)
        for number, (column, after) in enumerate(zip(columns, pair.output.axes, strict=True))
    ]
    return Effect([tuple(axes)])


def _split(pair: OperatorPair) -> Effect:
    axis = pair.operator["axis"]
    expect_whole(pair, [axis])
    return Effect([() if out is None else resized_each(pair, out) for out in pair.outputs])


def _slice(pair: OperatorPair) -> Effect:
    """A slice that begins at the same index from the front, or from the end."""
    data, needs = pair.operand(0), list[Need]()
    starts, small, steps = pair.operator["start"], pair.smaller["start"], pair.operator["step"]
    for axis in data.open:
        if starts[axis] != small[axis]:
            needs.append(_tail(pair, axis, (starts[axis], small[axis]), steps[axis]))
        elif steps[axis] < 1:
            raise pair.refusal("counts back from the end of a padded axis", data.axes[axis])
    return Effect([resized_each(pair, pair.output)], needs)


def _tail(pair: OperatorPair, axis: int, starts: tuple[int, int], step: int) -> Tail:
    """The slice of as many elements, as far from the end, in the bucket and the smaller graph."""
    before, after = pair.operand(0).axes[axis], pair.output.axes[axis]
    expect_single(pair, before)
    distances = {before.sizes[0] - starts[0], before.sizes[2] - starts[1]}
    if len(distances) > 1 or after.open or step < 1:
        raise pair.refusal("counts from the end of a padded axis", before)
    return Tail(axis, min(distances), after.sizes[0], step)


def _pad(pair: OperatorPair) -> Effect:
    """A Pad; after the elements of a padded axis comes its constant, in place of the padding."""
    data = pair.operand(0)
    numbers, rank = pair.operator["pads"], data.large.rank
    if numbers != pair.smaller["pads"]:
        raise pair.refusal("adds elements by the size", *data.axes)
    pads = list(zip(numbers[:rank], numbers[rank:], strict=True))
    ends = [axis for axis in data.open if pads[axis][1]]
    constant = pair.operator["mode"] == "constant"
    if not constant or any(min(pads[axis]) < 0 for axis in data.open):
        expect_whole(pair, [axis for axis in data.open if any(pads[axis])])
    fill = fill_of(pair, 1) if ends else 0.0
    needs = [Mask(0, axis, fill) for axis in ends]
    return Effect([resized_each(pair, pair.output)], needs)


def _tile(pair: OperatorPair) -> Effect:
    """A Tile, whose repetitions are a factor before the axis."""
    data, output = pair.operand(0).axes, pair.output.axes
    return Effect([tuple(_repeated(pair, a, b) for a, b in zip(data, output, strict=True))])


def _repeated(pair: OperatorPair, before: Axis, after: Axis) -> Axis:
    """An axis whose elements are repeated, as often as the sizes of the result say."""
    if any(not size or total % size for size, total in zip(before.sizes, after.sizes, strict=True)):
        raise pair.refusal("repeats no elements", before)
    times = (total // size for size, total in zip(before.sizes, after.sizes, strict=True))
    large, example, small = times
    return Axis.of([Factor(large, example, small), *before.factors])


def _blocks(pair: OperatorPair) -> Effect:
    """DepthToSpace and SpaceToDepth, of whole channels."""
    expect_whole(pair, [1])
    return Effect([resized_each(pair, pair.output)])


def _reversed(pair: OperatorPair) -> Effect:
    """A ReverseSequence, whose lengths are within the elements."""
    data, lengths = pair.operand(0), pair.operand(1)
    time: int = pair.operator["time_axis"]
    batch: int = pair.operator["batch_axis"]
    expect_single(pair, data.axes[time])
    unified(pair, data.axes[batch], lengths.axes[0])
    return Effect([data.axes])


def _triangle(pair: OperatorPair) -> Effect:
    data = pair.operand(0)
    for axis in data.axes[-2:]:
        expect_single(pair, axis)
    if pair.operator["k"] != pair.smaller["k"]:
        raise pair.refusal("begins at a diagonal that depends on the size", *data.axes)
    return Effect([data.axes])


def _cumulative(pair: OperatorPair) -> Effect:
    """A CumSum; a reversed one begins with the padding."""
    data = pair.operand(0)
    axis: int = pair.operator["axis"]
    expect_single(pair, data.axes[axis])
    backward = pair.operator["reverse"] and axis in data.open
    return Effect([data.axes], [Mask(0, axis, 0.0)] if backward else [])


def _recurrence(pair: OperatorPair) -> Effect:
    """Steps in order whose last states nobody reads; with lengths those are the sequences' own."""
    lengths, (steps, given, _) = pair.given(3), pair.operand(0).axes
    forward = pair.operator["direction"] == "forward"
    last = any(output is not None for output in pair.outputs[1:])
    expect_single(pair, steps)
    if steps.open and lengths is None and (last or not forward):
        raise pair.refusal("needs all of its steps", steps)
    states = [state.axes[1] for state in (pair.given(4), pair.given(5)) if state is not None]
    batch = unified(pair, given, *states, *([] if lengths is None else [lengths.axes[0]]))
    weights = pair.operand(1).axes
    state = weights[0], batch, weights[2]
    return Effect([(steps, *state), state, state])


MOVEMENT_RULES: Mapping[str, Rule] = {
    "Transpose": _transpose,
    "Expand": _expand,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Tile": _tile,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
    "ReverseSequence": _reversed,
    "Trilu": _triangle,
    "CumSum": _cumulative,
    RECURRENCE: _recurrence,
}
"""The rules of this family, by operator."""
