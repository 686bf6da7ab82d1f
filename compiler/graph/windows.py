"""Trace an operand of a MatMul through views and scalar scales to a strided view of its source."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod

from compiler.graph.network import Network, Node
from compiler.net.attributes import Mismatch
from compiler.net.maps import strided
from compiler.net.operators import broadcasts, facts_of
from compiler.net.operators.movement import is_movement, maps_of
from compiler.net.spec import KnownTensor, to_infer
from compiler.tensors.strides import StridedWindow

GEMM_TYPES = ("float32", "float16", "bfloat16")

LARGEST_FLOATS = {"float32": 3.4028e38, "float16": 65504.0, "bfloat16": 3.3895e38}
"""About the largest number of each type: a Clip to more has no ceiling."""

MATRIX = (-2, -1)
"""The matrix axes of a MatMul's operand; those before them are batch axes."""


def window_through(
    network: Network, node: Node[int], window: StridedWindow, output: int
) -> StridedWindow | None:
    """An operator's output as a window of the buffer of which its input 0 is `window`.

    None for an operator that computes, or whose result is not a strided window.
    """
    if not is_movement(node.type):
        return None
    constants = [None if v is None else network.constants.get(v) for v in node.inputs]
    inputs = [
        None
        if value is None
        else KnownTensor(network.values[value].dtype, network.values[value].shape, constant)
        for value, constant in zip(node.inputs, constants, strict=True)
    ]
    shapes = [network.values[value].shape for value in node.outputs]
    typed = Node(node.type, node.attributes, inputs, to_infer(len(shapes)))
    try:
        maps = maps_of(typed, shapes)[node.outputs.index(output)]
    except Mismatch:  # what decides the maps is computed at run time
        return None
    if len(maps) != 1 or maps[0].operand != 0:
        return None
    return strided(maps[0], window, network.values[output].shape, constants)


@dataclass(frozen=True)
class StridedOperand:
    """`factor` times a window of the value `source`; `operators` are those that it replaces.

    If there is a value `keep`, a bool for each row, then the rows are zero where it is false. With
    a `norm_floor` vectors are divided by their Euclidean norms, or by the floor if that is more.
    """

    source: int
    window: StridedWindow
    factor: float = 1.0
    operators: tuple[int, ...] = ()
    keep: int | None = None
    norm_floor: float | None = None


@dataclass(frozen=True, slots=True)
class _Mask:
    """Zeros at the indices of an axis where the bools of a value are false."""

    axis: int
    keep: int


@dataclass(frozen=True, slots=True)
class _Norm:
    """A division by the norms along an axis, which other operators compute."""

    axis: int
    floor: float
    operators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Link:
    """One operator on the path to an operand: `after` is `factor` times a window of `before`."""

    operator: int
    before: int
    after: int
    factor: float
    mask: _Mask | None = None
    norm: _Norm | None = None

    @property
    def operators(self) -> tuple[int, ...]:
        """The operator, and those that compute a divisor."""
        return (self.operator,) if self.norm is None else (self.operator, *self.norm.operators)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The operands that are allowed besides scaled windows: with rows of zeros, or with vectors
    along a matrix axis that are divided by their norms."""

    masked: bool = False
    unit_axis: int | None = None


PLAIN = Allowed()


def trace_operand(
    network: Network,
    producers: Mapping[int, int],
    value: int,
    ends: Set[int] = frozenset(),
    allowed: Allowed = PLAIN,
) -> StridedOperand:
    """A MatMul's operand as a window of its farthest possible source.

    Each of its matrix axes has one stride. The path does not go past values in `ends`.
    """
    links = list(_links(network, producers, value, ends, allowed))
    for length in range(len(links), 0, -1):
        operand = _follow(network, links[:length], allowed)
        if operand is not None and is_matrix(operand.window):
            return operand
    return StridedOperand(value, StridedWindow.contiguous(network.values[value].shape))


def is_matrix(window: StridedWindow) -> bool:
    """Whether the last two axes have one stride each."""
    return all(window.stride(axis) is not None for axis in MATRIX)


def _links(
    network: Network, producers: Mapping[int, int], value: int, ends: Set[int], allowed: Allowed
) -> Iterator[_Link]:
    """The chain of views, selections, scales and casts that computes a value, last one first."""
    while value not in ends and (number := producers.get(value)) is not None:
        node = network.operators[number]
        link = _scaling(network, node, number) or _naming(network, node, number, value)
        if link is None and allowed.masked:
            link = _masking(network, number)
            allowed = replace(allowed, masked=False)
        elif link is None and allowed.unit_axis is not None:
            link = _norming(network, producers, number)
            allowed = replace(allowed, unit_axis=None)
        if link is None:
            return
        yield link
        value = link.before


def _masking(network: Network, number: int) -> _Link | None:
    """A Where that keeps some indices of an axis, and is zero at the others."""
    node = network.operators[number]
    if node.type != "Where":
        return None
    keep, before, zero = (-1 if value is None else value for value in node.inputs)
    shape, kept = network.values[before].shape, network.values[keep].shape
    axes = [axis - len(kept) for axis, extent in enumerate(kept) if extent != 1]
    constant = network.constants.get(zero)
    if len(axes) != 1 or len(kept) > len(shape) or shape[axes[0]] != kept[axes[0]]:
        return None
    if constant is None or constant.size != 1 or constant.any():
        return None
    return _Link(number, before, node.outputs[0], 1.0, _Mask(axes[0] + len(shape), keep))


def _norming(network: Network, producers: Mapping[int, int], number: int) -> _Link | None:
    """A Div by the Euclidean norms along an axis."""
    node = network.operators[number]
    before, *divisors = node.inputs
    if node.type != "Div" or before is None:
        return None
    norm = _norm_of(network, producers, before, divisors[0])
    return norm and _Link(number, before, node.outputs[0], 1.0, norm=norm)


def _norm_of(
    network: Network, producers: Mapping[int, int], before: int, divisor: int | None
) -> _Norm | None:
    """The norms of a value that another one is, or that with numbers where norms are less."""
    path = list[int]()
    floor = 0.0
    while divisor is not None and divisor in producers:
        path.append(producers[divisor])
        node = network.operators[path[-1]]
        if node.type == "ReduceL2":
            axis = _only_axis(network, node) if node.inputs[0] == before else None
            return None if axis is None else _Norm(axis, floor, tuple(path))
        bound = 0.0 if broadcasts(node.type) else _lower_bound(network, node)
        if bound is None:
            return None
        divisor = node.inputs[0]
        floor = max(floor, bound)
    return None


def _only_axis(network: Network, node: Node[int]) -> int | None:
    """The axis that a reduction leaves with one element; None where it does more or less."""
    before, after = (network.values[v].shape for v in (node.inputs[0] or 0, node.outputs[0]))
    changed = [axis for axis, extent in enumerate(before) if after[axis : axis + 1] != (extent,)]
    return changed[0] if len(before) == len(after) and len(changed) == 1 else None


def _lower_bound(network: Network, node: Node[int]) -> float | None:
    """The number below which an operator replaces elements, if it does nothing else."""
    known = [network.constants.get(-1 if value is None else value) for value in node.inputs[1:]]
    numbers = [None if array is None or array.size != 1 else float(array.item()) for array in known]
    if node.type == "Max" and len(numbers) == 1:
        return numbers[0]
    largest = LARGEST_FLOATS.get(network.values[node.outputs[0]].dtype)
    if not facts_of(node.type).clips or not numbers or largest is None:
        return None
    ceilings = [value for value in node.inputs[2:] if value is not None]
    return numbers[0] if not ceilings or (numbers[1] or 0.0) >= largest else None


def _naming(network: Network, node: Node[int], number: int, value: int) -> _Link | None:
    before = node.inputs[0] if node.inputs else None
    known = is_movement(node.type) or is_widening(network, node)
    return _Link(number, before, value, 1.0) if known and before is not None else None


def is_widening(network: Network, node: Node[int]) -> bool:
    """Whether an operator is a lossless Cast of a float type to float32."""
    return facts_of(node.type).converts and all(
        network.values[v].dtype in kinds
        for v, kinds in ((node.inputs[0], GEMM_TYPES), (node.outputs[0], ("float32",)))
        if v is not None
    )


def _scaling(network: Network, node: Node[int], number: int) -> _Link | None:
    """A Mul or Div by a constant of one element."""
    divides = node.type == "Div"
    if not divides and node.type != "Mul":
        return None
    for position, other in ((0, 1),) if divides else ((0, 1), (1, 0)):
        before = node.inputs[position]
        scalar = network.constants.get(node.inputs[other] or 0)
        same = before is not None and network.values[before] == network.values[node.outputs[0]]
        if before is not None and same and scalar is not None and scalar.size == 1:
            factor = float(scalar.ravel()[0])
            if divides and factor == 0:
                return None
            return _Link(number, before, node.outputs[0], 1 / factor if divides else factor)
    return None


def _follow(
    network: Network, links: Sequence[_Link], allowed: Allowed = PLAIN
) -> StridedOperand | None:
    """The operand at the first link as a window of the value that the last one reads."""
    source = links[-1].before
    factor = 1.0
    window: StridedWindow | None = StridedWindow.contiguous(network.values[source].shape)
    for link in reversed(links):
        node = network.operators[link.operator]
        if link.norm is not None and factor != 1:
            return None
        factor *= link.factor
        if is_movement(node.type):
            window = window_through(network, node, window, link.after)
        if window is None:
            return None
    keep = floor = None
    for index, link in enumerate(links):
        path = links[: index + 1]
        if link.mask is not None:
            keep = link.mask.keep
            if not _becomes(network, path, link.mask.axis, -2):
                return None
        if link.norm is not None and allowed.unit_axis is not None:
            floor = link.norm.floor
            if not _becomes(network, path, link.norm.axis, allowed.unit_axis):
                return None
    operators = tuple(operator for link in links for operator in link.operators)
    return StridedOperand(source, window, factor, operators, keep=keep, norm_floor=floor)


def _becomes(network: Network, links: Sequence[_Link], axis: int, place: int) -> bool:
    """Whether an axis of what the last link computes is a matrix axis of the operand at the first
    one, and no other axis is part of it."""
    shape = network.values[links[-1].after].shape
    extent = shape[axis]
    stride = prod(shape[axis + 1 :])
    whole = StridedOperand(links[-1].after, StridedWindow.contiguous(shape))
    traced = _follow(network, links[:-1]) if len(links) > 1 else whole
    if traced is None or extent < 2 or traced.window.axes[place] != ((extent, stride),):
        return False
    window = traced.window
    place = place + len(traced.window.axes)
    others = [run for i, runs in enumerate(window.axes) for run in runs if i != place]
    inner = sum((count - 1) * step for count, step in others if step < stride)
    apart = all(step < stride or step % (extent * stride) == 0 for _, step in others)
    return apart and window.offset + inner < stride
