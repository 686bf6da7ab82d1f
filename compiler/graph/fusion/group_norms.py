"""Which operators together are a GroupNormalization."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from compiler.graph.rewriting.weights import derived_key, reshaped_key
from compiler.ir.dataflow import ConstantOp, OperatorOp, WeightOp
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array


@dataclass(frozen=True)
class GroupNorm:
    """A GroupNormalization of an image: `normalization` is the one of its rows of groups.

    `scale` and `bias` are the keys of weights with an element for each channel.
    """

    image: SSAValue
    normalization: OperatorOp
    groups: int
    scale: str
    bias: str


def find_group_norm(add: OperatorOp) -> GroupNorm | None:
    """The GroupNormalization that ends with an Add; None where an operator has other users.

    Its groups are the rows of a Reshape, on which an InstanceNormalization acts; each channel is
    scaled after they are images again.
    """
    shifted = _scaled(add, "Add")
    product = _only_use(shifted[0], "Mul") if shifted else None
    scaled = _scaled(product, "Mul") if product else None
    image = _only_use(scaled[0], "Reshape") if scaled else None
    rows = _only_use(image.inputs[0], "InstanceNormalization") if image else None
    split = _only_use(rows.inputs[0], "Reshape") if rows else None
    if not (shifted and scaled and rows and split):
        return None
    source, (batch, channels, *pixels) = split.inputs[0], shape_of(add.outputs[0].type)
    outer, groups, *rest = shape_of(rows.inputs[0].type)
    alike = shape_of(source.type) == (batch, channels, *pixels) and batch == outer
    if not alike or channels % groups or prod(rest) * groups != channels * prod(pixels):
        return None
    keys = _channel_keys(rows, groups, [scaled[1].key.data, shifted[1].key.data], channels)
    return GroupNorm(source, rows, groups, *keys) if keys else None


def _channel_keys(
    rows: OperatorOp, groups: int, weights: Sequence[str], channels: int
) -> tuple[str, str] | None:
    """The keys of the scale and bias of each channel: those of its group, then its own."""
    by_group = [_key(value) for value in rows.inputs[1:]]
    if not all(by_group):
        return None
    scale, bias = (reshaped_key(key, (groups, channels // groups)) for key in weights)
    scales, biases = (
        derived_key("Mul", [scale, reshaped_key(key, (groups, 1))], {}) for key in by_group
    )
    shifted = derived_key("Add", [biases, bias], {})
    return reshaped_key(scales, (channels,)), reshaped_key(shifted, (channels,))


def _only_use(value: SSAValue, type_name: str) -> OperatorOp | None:
    """The operator of a type that computes a value with one user."""
    owner = value.owner
    is_of_type = isinstance(owner, OperatorOp) and owner.type_name == type_name
    return owner if isinstance(owner, OperatorOp) and is_of_type and value.has_one_use() else None


def _scaled(op: OperatorOp, type_name: str) -> tuple[SSAValue, WeightOp] | None:
    """The image and the weight of an operator that has one weight a channel."""
    if op.type_name != type_name or len(op.inputs) != 2:
        return None
    shape = shape_of(op.outputs[0].type)
    for image, weight in (op.inputs, list(op.inputs)[::-1]):
        owner = weight.owner
        if isinstance(owner, WeightOp) and shape_of(image.type) == shape:
            return (image, owner) if _is_by_channel(shape_of(weight.type), shape) else None
    return None


def _is_by_channel(shape: Sequence[int], image: Sequence[int]) -> bool:
    """Whether a shape that broadcasts to an image's has an element for each channel."""
    wide = [1] * (len(image) - len(shape)) + list(shape)
    return len(image) > 2 and wide == [1, image[1]] + [1] * (len(image) - 2)


def _key(value: SSAValue) -> str:
    """The key of a weight or constant; empty for a value that an operator computes."""
    match value.owner:
        case WeightOp() as weight:
            return weight.key.data
        case ConstantOp() as constant:
            array = attribute_to_array(constant.value)
            attributes = {"value": array.tolist(), "shape": array.shape}
            return derived_key("constant", [], {**attributes, "dtype": dtype_of(value.type)})
        case _:
            return ""
