"""Which Transposes around a depthwise convolution its kernel does: it reads and writes images whose
channels are next to each other in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy
from xdsl.ir import SSAValue

from compiler.graph.windows import GEMM_TYPES
from compiler.ir.dataflow import GroupOp, OperatorOp, WeightOp
from compiler.ir.layouts import BLOCK_BYTES
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attributes_of
from compiler.net.operators import KINDS, Kind, facts_of

ElementOrder = numpy.ndarray
"""An array of the shape of a value, whose strides say where its elements are in another value."""

MOST_TAPS, MOST_TAPS_AT_ONE_SIDE = 49, 25
"""Taps up to which a convolution had better do both Transposes, or only the one before it: more are
faster on blocked images. Three kernels took 2.3 to 3.4 times as long for nine taps on an H100, and
0.8 to 1.3 times for 49."""


@dataclass(frozen=True)
class Chain:
    """The operators from one group's input or result to another's, none of which computes."""

    group: GroupOp
    views: tuple[OperatorOp, ...]


@dataclass(frozen=True)
class ChannelsLast:
    """The group of a depthwise convolution, the groups of Transposes `before` it, by its inputs'
    numbers, and the one `after` it, which may go on element by element."""

    convolution: GroupOp
    before: Mapping[int, Chain]
    after: Chain | None


def contiguous(shape: Sequence[int]) -> ElementOrder:
    """The order of a row-major value in itself."""
    return numpy.empty(tuple(shape), numpy.int8)


def order_after(
    type_name: str,
    attributes: Mapping[str, Any],
    sources: Sequence[ElementOrder],
    shape: Sequence[int],
) -> ElementOrder | None:
    """The order of an operator's result of a shape, of which these operands have an order; None
    where elements are computed from others."""
    first, *others = sources
    if facts_of(type_name).permutes:
        return first.transpose(attributes["perm"])
    if KINDS[type_name] is Kind.VIEW:
        return reshaped(first, tuple(shape))
    alike = all(source.shape == tuple(shape) for source in sources)
    same = alike and all(_steps(other) == _steps(first) for other in others)
    return first if same and KINDS[type_name] is Kind.ELEMENTWISE else None


def reshaped(order: ElementOrder, shape: tuple[int, ...]) -> ElementOrder | None:
    """An order in another shape; None where no strides give it."""
    result = order.reshape(shape)
    return result if numpy.may_share_memory(result, order) else None


def has_channels_last(order: ElementOrder, image: Sequence[int]) -> bool:
    """Whether a value holds the elements of an image (N, C, *spatial) with channels last."""
    outer = image[0]
    channels = image[1]
    pixels = prod(image[2:])
    if not order.size or order.shape[-1:] != (channels,):
        return False
    rows = reshaped(order, (outer, pixels, channels))
    wanted = contiguous((outer, channels, pixels)).transpose(0, 2, 1)
    return rows is not None and _steps(rows) == _steps(wanted)


def _steps(order: ElementOrder) -> tuple[tuple[int, int], ...]:
    """Extents and strides of the axes that have more than one element."""
    pairs = zip(order.shape, order.strides, strict=True)
    return tuple((extent, stride) for extent, stride in pairs if extent > 1)


def find_channels_last(group: GroupOp) -> ChannelsLast | None:
    """The Transposes that a group's depthwise convolution does; None where it gains by none."""
    convolution = _depthwise(group)
    if convolution is None:
        return None
    arguments: list[SSAValue] = list(group.body.block.args)
    image = convolution.inputs[0]
    if image not in arguments or len(group.outputs) != 1:
        return None
    chains = {i: _chain_before(value) for i, value in enumerate(group.inputs)}
    before = {i: chain for i, chain in chains.items() if chain is not None}
    if arguments.index(image) not in before:
        return None
    first = arguments.index(image)
    after = _chain_after(group, convolution)
    wide = [
        i
        for i, a in enumerate(arguments)
        if prod(shape_of(a.type)[2:]) > 1 and not _is_weight(group, i)
    ]
    taps = prod(shape_of(convolution.inputs[1].type)[2:])
    if after is not None and all(i in before for i in wide) and taps <= MOST_TAPS:
        return ChannelsLast(group, before, after)
    few = taps <= MOST_TAPS_AT_ONE_SIDE and _is_convolved(group.outputs[0])
    return ChannelsLast(group, {first: before[first]}, None) if few and wide == [first] else None


def _is_convolved(value: SSAValue) -> bool:
    """Whether only convolutions read an image whose channels fill blocks: it will be blocked, so
    that vectors of channels are stored as such."""
    users = [use.operation for use in value.uses]
    return shape_of(value.type)[1] % BLOCK_BYTES == 0 and all(
        isinstance(user, GroupOp) and any(op.type_name == "Conv" for op in user.operators)
        for user in users
    )


def _depthwise(group: GroupOp) -> OperatorOp | None:
    """The convolution of each channel alone of a group of otherwise elementwise operators."""
    others = [op for op in group.operators if KINDS[op.type_name] is not Kind.ELEMENTWISE]
    if len(others) != 1 or others[0].type_name != "Conv":
        return None
    convolution = others[0]
    image, weight = (shape_of(value.type) for value in convolution.inputs[:2])
    channels = image[1]
    alone = convolution["group"] == channels == weight[0] > 1
    arguments: list[SSAValue] = list(group.body.block.args)
    known = convolution.inputs[1] in arguments and convolution.inputs[1].has_one_use()
    if not alone or not known or not 3 <= len(image) <= 4:
        return None
    constant = _is_weight(group, arguments.index(convolution.inputs[1]))
    return convolution if constant and dtype_of(convolution.inputs[0].type) in GEMM_TYPES else None


def _is_weight(group: GroupOp, number: int) -> bool:
    return isinstance(group.inputs[number].owner, WeightOp)


def _chain_before(value: SSAValue) -> Chain | None:
    """The group of Transposes, and the views after it, that give an image its channels last."""
    image = shape_of(value.type)
    views = list[OperatorOp]()
    while isinstance(value.owner, OperatorOp) and KINDS[value.owner.type_name] is Kind.VIEW:
        views.insert(0, value.owner)
        value = value.owner.inputs[0]
    group = value.owner
    if not isinstance(group, GroupOp) or len(group.inputs) != 1 or len(group.outputs) != 1:
        return None
    types = {op.type_name for op in group.operators if KINDS[op.type_name] is not Kind.VIEW}
    permutes = len(types) > 0 and all(facts_of(type_name).permutes for type_name in types)
    source = group.body.block.args[0]
    names: dict[SSAValue, SSAValue] = {group.outputs[0]: group.results_yielded[0]}
    orders: dict[SSAValue, ElementOrder] = {source: contiguous(shape_of(source.type))}
    order_of = _orders([*group.operators, *views], orders, names)
    order = order_of.get(views[-1].outputs[0] if views else group.results_yielded[0])
    if not permutes or order is None or len(image) < 3 or order.strides[1] != 1:
        return None
    return Chain(group, tuple(views))


def _chain_after(group: GroupOp, convolution: OperatorOp) -> Chain | None:
    """The group that alone reads a convolution's result, if all of its results are that with
    channels last."""
    value = group.outputs[0]
    views = list[OperatorOp]()
    user = value.get_user_of_unique_use()
    while isinstance(user, OperatorOp) and KINDS[user.type_name] is Kind.VIEW:
        views.append(user)
        value = user.outputs[0]
        user = value.get_user_of_unique_use()
    if not isinstance(user, GroupOp) or not _is_movable(user):
        return None
    result = convolution.outputs[0]
    names: dict[SSAValue, SSAValue] = {group.outputs[0]: group.results_yielded[0]}
    names |= dict(zip(user.body.block.args, user.inputs, strict=True))
    operators = [*group.operators, *views, *user.operators]
    image = shape_of(result.type)
    order_of = _orders(operators, {result: contiguous(image)}, names)
    ends = [order_of.get(value) for value in user.results_yielded]
    last = all(order is not None and has_channels_last(order, image) for order in ends)
    return Chain(user, tuple(views)) if last else None


def _is_movable(group: GroupOp) -> bool:
    """Whether a group has Transposes, views and elementwise operators only."""
    return group.control is None and all(
        facts_of(op.type_name).permutes or KINDS[op.type_name] in (Kind.ELEMENTWISE, Kind.VIEW)
        for op in group.operators
    )


def _orders(
    operators: Sequence[OperatorOp],
    orders: Mapping[SSAValue, ElementOrder],
    names: Mapping[SSAValue, SSAValue],
) -> dict[SSAValue, ElementOrder | None]:
    """The order of each value that follows from those given; `names` are values' other names."""
    order_of: dict[SSAValue, ElementOrder | None] = {**orders}
    for op in operators:
        inputs = [_named(value, names) for value in op.inputs]
        sources = [order_of[value] for value in inputs if value in order_of]
        if sources and op.outputs[0] not in order_of:
            known = [source for source in sources if source is not None]
            shape = shape_of(op.outputs[0].type)
            whole = len(known) == len(sources) and len(op.outputs) == 1
            after = order_after(op.type_name, attributes_of(op), known, shape) if whole else None
            order_of |= dict.fromkeys(op.outputs, after)
    return order_of


def _named(value: SSAValue, names: Mapping[SSAValue, SSAValue]) -> SSAValue:
    while value in names:
        value = names[value]
    return value
