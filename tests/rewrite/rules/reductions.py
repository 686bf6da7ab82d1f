"""The meaning of reductions and normalisations in proofs."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from tests.rewrite.rules.denotations import (
    combined,
    denotes,
    parameter,
    ratio,
    reciprocal,
)
from tests.rewrite.rules.divisions import Index
from tests.rewrite.rules.pools import averaged
from tests.rewrite.rules.sums import Sum, call, scaled, times, total
from tests.rewrite.rules.tensors import (
    Indices,
    Symbolic,
    Use,
    aligned,
    broadcast,
)


def over(
    use: Use, x: Symbolic, axes: Sequence[int], outer: dict[int, Index], call_name: str
) -> Sum:
    """The sum of a tensor over some axes, or a function of the set of its elements."""

    def body(inner: Indices) -> Sum:
        place = dict(zip(axes, inner, strict=True)) | outer
        value = x.at(tuple(place[axis] for axis in range(len(x.shape))))
        return call(use.reasoner, "element", value) if call_name else value

    value = total(use.reasoner, [x.shape[axis] for axis in axes], body)
    return call(use.reasoner, call_name, value) if call_name else value


def reduced_axes(use: Use) -> tuple[int, ...]:
    """The axes of a reduction."""
    return tuple(use["axes"])


def reduction(use: Use, axes: tuple[int, ...], keep: bool) -> Symbolic:
    """A reduction of some axes by the operator's kind."""
    (x,) = use.inputs
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape) if keep or a in kept)
    mean = use.kind in ("ReduceMean", "GlobalAveragePool")
    name = {"ReduceMax": "largest", "GlobalMaxPool": "largest", "ReduceMin": "least"}

    def at(indices: Indices) -> Sum:
        own = [indices[axis] for axis in kept] if keep else indices
        value = over(use, x, axes, dict(zip(kept, own, strict=True)), name.get(use.kind, ""))
        return averaged(use, value, [x.shape[a] for a in axes]) if mean else value

    return Symbolic(shape, at)


@denotes("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
def _reduce(use: Use) -> Symbolic:
    return reduction(use, reduced_axes(use), bool(use["keepdims"]))


@denotes("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(use: Use) -> Symbolic:
    return reduction(use, tuple(range(2, len(use.inputs[0].shape))), keep=True)


@denotes("Softmax")
def _softmax(use: Use) -> Symbolic:
    (x,) = use.inputs
    axis = use["axis"]
    powers = combined(use, lambda values: call(use.reasoner, "Exp", values[0]))

    def at(indices: Indices) -> Sum:
        outer = {a: i for a, i in enumerate(indices) if a != axis}
        return ratio(use, powers.at(indices), over(use, powers, [axis], outer, ""))

    return Symbolic(x.shape, at)


@denotes("LayerNormalization")
def _layer_normalization(use: Use) -> Symbolic:
    x = use.inputs[0]
    first = use["axis"]
    axes = tuple(range(first, len(x.shape)))
    mean = reduction(replace(use, kind="ReduceMean", inputs=(x,)), axes, keep=True)

    def centred(indices: Indices) -> Sum:
        average = mean.at((*indices[:first], *(0 for _ in axes)))
        return x.at(indices) + scaled(average, Fraction(-1))

    return normalised(use, Symbolic(x.shape, centred), axes)


@denotes("RMSNormalization")
def _rms_normalization(use: Use) -> Symbolic:
    x = use.inputs[0]
    return normalised(use, x, tuple(range(use["axis"], len(x.shape))))


def normalised(use: Use, x: Symbolic, axes: tuple[int, ...]) -> Symbolic:
    """A tensor divided by the root of the mean of its squares, scaled and shifted."""
    scale, *biases = use.inputs[1:]
    for item in (scale, *biases):
        use.require_same(broadcast(use, [x.shape, item.shape]), x.shape)
    squares = Symbolic(x.shape, lambda i: times(use.reasoner, x.at(i), x.at(i)))
    mean = reduction(replace(use, kind="ReduceMean", inputs=(squares,)), axes, keep=True)

    def at(indices: Indices) -> Sum:
        spread = mean.at((*indices[: axes[0]], *(0 for _ in axes))) + parameter(use["epsilon"])
        root = call(use.reasoner, "Sqrt", spread)
        value = times(use.reasoner, x.at(indices), reciprocal(use, root))
        value = times(use.reasoner, value, scale.at(aligned(use, scale.shape, x.shape, indices)))
        added = [bias.at(aligned(use, bias.shape, x.shape, indices)) for bias in biases]
        return value + tuple(term for item in added for term in item)

    return Symbolic(x.shape, at)
