"""Reductions along axes, arg-reductions, top-k and softmaxes."""

from typing import Any

import numpy as np

from tests.fuzz.catalogue.moves import ranked, some_axis
from tests.fuzz.catalogue.registry import generates
from tests.fuzz.draw import FLOATS, NUMBERS
from tests.fuzz.grower import Grower

_POSITIVE = ("ReduceLogSum",)
_SINCE = {"ReduceSum": 13}


@generates(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd"
    " ReduceSum ReduceSumSquare"
)
def reduce(g: Grower, op: str) -> None:
    """Axes are an input since opset 18 (ReduceSum: 13)."""
    dtypes = FLOATS if op in ("ReduceLogSum", "ReduceLogSumExp") else NUMBERS
    values = (0.1, 2.0) if op in _POSITIVE else (-2.0, 2.0)
    x = g.tensor(dtypes, values=values, within=op in _POSITIVE)
    rank = g.values[x].ndim
    chosen = [] if g.draw.chance(0.3) else g.draw.some(range(rank))
    axes = [a - rank if g.draw.chance(0.3) else a for a in chosen]
    keep = g.draw.choice([None, 0, 1])
    if g.opset < _SINCE.get(op, 18):
        g.emit(op, [x], axes=axes or None, keepdims=keep)
        return
    given = [g.ints(axes)] if axes or g.draw.chance(0.2) else []
    noop = 1 if g.draw.chance(0.15) else None
    g.emit(op, [x, *given], keepdims=keep, noop_with_empty_axes=noop)


@generates("ArgMax ArgMin")
def arg(g: Grower, op: str) -> None:
    """First or last of equal elements."""
    x = ranked(g, 1, 4, NUMBERS)
    last = 1 if g.opset >= 12 and g.draw.chance(0.3) else None
    axis = some_axis(g, g.values[x].ndim) if g.opset >= 11 else 0
    g.emit(op, [x], axis=axis, keepdims=g.draw.choice([None, 0, 1]), select_last_index=last)


@generates("TopK")
def topk(g: Grower, op: str) -> None:
    """Largest and smallest, of constants k."""
    x = ranked(g, 1, 4, NUMBERS)
    axis = some_axis(g, g.values[x].ndim)
    k = g.draw.randint(0 if g.draw.chance(0.05) else 1, max(1, g.values[x].shape[axis]))
    if g.opset < 10:
        g.emit(op, [x], 2, axis=axis, k=k)
        return
    smallest: dict[str, Any] = {"largest": g.draw.choice([None, 0, 1])} if g.opset >= 11 else {}
    g.emit(op, [x, g.ints([k])], 2, axis=axis, **smallest)


@generates("Softmax LogSoftmax Hardmax")
def softmax(g: Grower, op: str) -> None:
    """Before opset 13 over the axis and all that follow."""
    x = ranked(g, 1, 4, FLOATS)
    axis = some_axis(g, g.values[x].ndim) if g.opset >= 11 else g.draw.randrange(g.values[x].ndim)
    g.emit(op, [x], axis=axis if g.draw.chance(0.8) else None)


@generates("LpNormalization")
def lp_normalization(g: Grower, op: str) -> None:
    """L1 and L2."""
    x = ranked(g, 1, 4, FLOATS)
    axis = g.draw.choice([None, some_axis(g, g.values[x].ndim)])
    if not g.draw.specials:
        norm = np.abs(g.values[x]).sum(-1 if axis is None else axis)
        g.require(bool((norm > 0.05).all()))
    g.emit(op, [x], axis=axis, p=g.draw.choice([None, 1, 2]))
