"""Padding under operators that read or write at indices from data."""

from collections.abc import Mapping

import numpy as np

from compiler.frontend.padding.axes import Axis, Crop
from compiler.frontend.padding.effects import (
    HIGHEST,
    LOWEST,
    NAN,
    Effect,
    Mask,
    Need,
    Rule,
    Wrap,
    expect_single,
    expect_whole,
    resized,
    unified,
)
from compiler.frontend.padding.pairs import OperatorPair, Pair


def _wraps(pair: OperatorPair, axis: int, position: int | None = None) -> list[Need]:
    """The needs of indices into an axis; constants from the front have none."""
    data, indices = pair.operand(0).axes[axis], pair.operand(1)
    if not data.open:
        return []
    expect_single(pair, data)
    known = indices.small.array
    chosen = known if known is None or position is None else known[..., position]
    if chosen is not None and not (chosen < 0).any():
        return []
    return [Wrap(1, axis, position)]


def _gather(pair: OperatorPair) -> Effect:
    data, indices = pair.operand(0), pair.operand(1)
    axis: int = pair.operator["axis"]
    axes = (*data.axes[:axis], *indices.axes, *data.axes[axis + 1 :])
    if data.axes[axis].open and indices.large.array is not None:
        if _are_places(indices, data.axes[axis]):
            return Effect([axes])
        if not np.array_equal(Crop.of(indices.axes)(indices.large.array), indices.small.content):
            raise pair.refusal("reads at constants that depend on the size", data.axes[axis])
    return Effect([axes], _wraps(pair, axis))


def _are_places(indices: Pair, axis: Axis) -> bool:
    """Whether constants are the places, in the bucket, of the elements that the run's are."""
    size, _, extent = axis.sizes
    large, small = Crop.of(indices.axes)(indices.large.content), indices.small.content
    large, small = (np.where(a < 0, a + n, a) for a, n in ((large, size), (small, extent)))
    if not small.size or not ((small >= 0) & (small < extent)).all():
        return not small.size
    places = np.unravel_index(small, [factor.extent for factor in axis.factors])
    return np.array_equal(np.ravel_multi_index(places, [f.size for f in axis.factors]), large)


def _elements(pair: OperatorPair) -> Effect:
    """A GatherElements: along other axes, an index reads at its own position."""
    axis: int = pair.operator["axis"]
    _expect_aligned(pair, axis)
    return Effect([pair.operand(1).axes], _wraps(pair, axis))


def _expect_aligned(pair: OperatorPair, axis: int) -> None:
    """Raise CannotPad unless positions along all other axes are those of the data."""
    axes = zip(pair.operand(0).axes, pair.operand(1).axes, strict=True)
    for number, (data, indices) in enumerate(axes):
        if number != axis:
            resized(pair, data, indices)
            resized(pair, indices, data)


def _tuples(pair: OperatorPair) -> Effect:
    data, indices = pair.operand(0), pair.operand(1)
    batch, count = int(pair.operator["batch_dims"]), indices.large.shape[-1]
    expect_whole(pair, [indices.large.rank - 1], index=1)
    lead = indices.axes[:-1]
    shared = [unified(pair, a, b) for a, b in zip(data.axes[:batch], lead, strict=False)]
    needs = [need for i in range(count) for need in _wraps(pair, batch + i, i)]
    return Effect([(*shared, *lead[batch:], *data.axes[batch + count :])], needs)


def _scatter_elements(pair: OperatorPair) -> Effect:
    """Along other axes, padding is written at its own position, which is padding."""
    axis: int = pair.operator["axis"]
    _expect_aligned(pair, axis)
    expect_whole(pair, [axis], index=1)
    indices = pair.operand(1)
    for number in indices.open:
        unified(pair, pair.operand(0).axes[number], indices.axes[number])
    return Effect([pair.operand(0).axes], _wraps(pair, axis))


def _scatter_tuples(pair: OperatorPair) -> Effect:
    """Tuples of indices must not be padding, which would be written anywhere."""
    data, indices, updates = (pair.operand(index) for index in range(3))
    count = indices.large.shape[-1]
    expect_whole(pair, range(indices.large.rank), index=1)
    for given, kept in zip(updates.axes[indices.large.rank - 1 :], data.axes[count:], strict=True):
        unified(pair, given, kept)
    return Effect([data.axes], [need for i in range(count) for need in _wraps(pair, i, i)])


def _top_k(pair: OperatorPair) -> Effect:
    """The first K of a sorted axis, in which padding comes last."""
    data = pair.operand(0)
    axis: int = pair.operator["axis"]
    expect_single(pair, data.axes[axis])
    fill = LOWEST if pair.operator["largest"] else _largest(data)
    axes = _replaced(data, axis, pair.output.axes[axis])
    return Effect([axes, axes], [Mask(0, axis, fill)] if axis in data.open else [])


def _largest(data: Pair) -> float:
    """The element that is sorted after all others: NaN of floats."""
    return NAN if "float" in data.large.dtype else HIGHEST


def _replaced(data: Pair, axis: int, by: Axis) -> tuple[Axis, ...]:
    return (*data.axes[:axis], by, *data.axes[axis + 1 :])


def _one_hot(pair: OperatorPair) -> Effect:
    """A new axis for each index, whose length is the same in all runs."""
    indices = pair.operand(0)
    axis: int = pair.operator["axis"]
    if pair.operator["depth"] != pair.smaller["depth"]:
        raise pair.refusal("has a depth that depends on the size", *indices.axes)
    axes = (*indices.axes[:axis], pair.output.axes[axis], *indices.axes[axis:])
    return Effect([axes])


INDEXING_RULES: Mapping[str, Rule] = {
    "Gather": _gather,
    "GatherElements": _elements,
    "GatherND": _tuples,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_tuples,
    "TopK": _top_k,
    "OneHot": _one_hot,
}
"""The rules of this family, by operator."""
