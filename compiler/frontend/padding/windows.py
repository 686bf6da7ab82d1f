"""Padding under convolutions, pooling and resizing."""

from collections.abc import Mapping, Sequence

from compiler.frontend.padding.axes import ONE, Axes
from compiler.frontend.padding.effects import (
    LOWEST,
    NAN,
    Effect,
    Mask,
    MeanCount,
    Need,
    Rule,
    expect_single,
    expect_whole,
    fill_of,
    resized,
)
from compiler.frontend.padding.pairs import OperatorPair


def _convolution(pair: OperatorPair) -> Effect:
    """A convolution: along a padded axis it reads zeros after the elements."""
    expect_whole(pair, [1])
    expect_whole(pair, range(pair.operand(1).large.rank), index=1)
    integers = pair.operator.op_type == "ConvInteger"
    axes = _spatial(pair)
    fill = fill_of(pair, 2) if axes and integers else 0.0
    return Effect([_outputs(pair, channels=False)], [Mask(0, axis, fill) for axis in axes])


def _pool(pair: OperatorPair) -> Effect:
    axes, op_type = _spatial(pair), pair.operator.op_type
    if axes and pair.outputs[1:] and pair.outputs[1] is not None:
        expect_whole(pair, axes)
    fill = LOWEST if op_type == "MaxPool" else 0.0
    outputs = [_outputs(pair, channels=True)] * len(pair.outputs)
    return Effect(outputs, [Mask(0, axis, fill) for axis in axes])


def _average(pair: OperatorPair) -> Effect:
    """A mean of windows, which counts their elements: no window may reach past the end."""
    attributes = pair.operator.attributes
    if any(attributes.get("pads") or ()) or attributes.get("ceil_mode"):
        expect_whole(pair, _spatial(pair))
    return Effect([_outputs(pair, channels=True)])


def _spatial(pair: OperatorPair) -> Sequence[int]:
    """The padded axes along which windows move."""
    data = pair.operand(0)
    found = [axis for axis in data.open if axis > 1]
    for axis in found:
        expect_single(pair, data.axes[axis])
    return found


def _outputs(pair: OperatorPair, *, channels: bool) -> Axes:
    """The axes of a result with the batch of its operand, and its channels unless they are new."""
    before, after = pair.operand(0).axes, pair.output.axes
    kept = before[:2] if channels else (before[0], after[1])
    moved = [resized(pair, a, b) for a, b in zip(before[2:], after[2:], strict=True)]
    return *kept, *moved


def _global_pool(pair: OperatorPair) -> Effect:
    data, op_type = pair.operand(0), pair.operator.op_type
    spatial = [axis for axis in data.open if axis > 1]
    fill = LOWEST if op_type == "GlobalMaxPool" else 0.0
    needs: list[Need] = [Mask(0, axis, fill) for axis in spatial]
    if op_type == "GlobalAveragePool":
        needs += [MeanCount(axis) for axis in spatial]
    return Effect([(*data.axes[:2], *[ONE] * (data.large.rank - 2))], needs)


def _resize(pair: OperatorPair) -> Effect:
    """A Resize that keeps padded axes as they are."""
    before, after = pair.operand(0).axes, pair.output.axes
    kept = [a.sizes == b.sizes for a, b in zip(before, after, strict=True)]
    scales = _scales(pair)
    changed = [
        axis
        for number, axis in enumerate(before)
        if axis.open and not (kept[number] and scales.get(number, 1.0) == 1.0)
    ]
    if changed:
        raise pair.refusal("changes the size of a padded axis", *changed)
    return Effect([tuple(a if a.open else b for a, b in zip(before, after, strict=True))])


def _scales(pair: OperatorPair) -> Mapping[int, float]:
    """The scale of each axis that is resized by one, and NaN where the axis alone is not enough."""
    axes, scales = pair.operator["axes"], pair.operator["scales"]
    mode = pair.operator["coordinate_transformation_mode"]
    policy = pair.operator["keep_aspect_ratio_policy"]
    if mode == "tf_crop_and_resize" or policy != "stretch":
        return dict.fromkeys(axes, NAN)
    return dict(zip(axes, scales, strict=True)) if scales else {}


WINDOW_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvFloat8", "ConvTranspose"), _convolution),
    **dict.fromkeys(("MaxPool", "LpPool"), _pool),
    "AveragePool": _average,
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), _global_pool),
    "Resize": _resize,
}
"""The rules of this family, by operator."""
