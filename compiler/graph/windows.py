"""Trace an operand of a MatMul through views and scalar scales to a strided view of its source."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod

from compiler.graph.network import Network, NetworkNode
from compiler.graph.strides import StridedWindow
from compiler.ir.operators import KINDS, Kind

GEMM_TYPES = ("float32", "float16", "bfloat16")

MATRIX = (-2, -1)
"""The matrix axes of a MatMul's operand; those before them are batch axes."""

TraceStep = Callable[[Network, NetworkNode, StridedWindow, int], StridedWindow | None]


def window_through(
    network: Network, node: NetworkNode, window: StridedWindow, output: int
) -> StridedWindow | None:
    """An operator's output as a window of the buffer of which its input 0 is `window`.

    None for an operator that computes, or whose result is not a strided window.
    """
    kind = KINDS.get(node.type)
    step = _reshape if kind is Kind.VIEW else _STEPS.get(node.type)
    return None if step is None else step(network, node, window, output)


def _reshape(
    network: Network, node: NetworkNode, window: StridedWindow, output: int
) -> StridedWindow | None:
    return window.reshaped(network.values[output].shape)


def _transpose(
    network: Network, node: NetworkNode, window: StridedWindow, output: int
) -> StridedWindow | None:
    axes = range(len(window.shape))
    return window.transposed(node.attributes.get("perm") or list(reversed(axes)))


def _expand(
    network: Network, node: NetworkNode, window: StridedWindow, output: int
) -> StridedWindow | None:
    return window.broadcast(network.values[output].shape)


def _split(
    network: Network, node: NetworkNode, window: StridedWindow, output: int
) -> StridedWindow | None:
    axis = int(node.attributes.get("axis", 0)) % len(window.shape)
    extents = [network.values[value].shape[axis] for value in node.outputs]
    part = node.outputs.index(output)
    return window.sliced(axis, sum(extents[:part]), extents[part])


def _gather(
    network: Network, node: NetworkNode, window: StridedWindow, output: int
) -> StridedWindow | None:
    """A Gather of one constant index."""
    index = network.constants.get(-1 if node.inputs[1] is None else node.inputs[1])
    if index is None or index.size != 1:
        return None
    axis = int(node.attributes.get("axis", 0)) % len(window.shape)
    selected = window.sliced(axis, int(index.ravel()[0]) % window.shape[axis], 1)
    return selected and selected.reshaped(network.values[output].shape)


def _slice(
    network: Network, node: NetworkNode, window: StridedWindow, output: int
) -> StridedWindow | None:
    given = [network.constants.get(-1 if v is None else v) for v in node.inputs[1:]]
    starts, ends = given[:2]
    if starts is None or ends is None:
        return None
    axes = given[2] if len(given) > 2 and given[2] is not None else range(len(starts))
    steps = given[3] if len(given) > 3 and given[3] is not None else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 1:
            return None
        axis = int(axis) % len(window.shape)
        part = range(window.shape[axis])[int(start) : int(end) : int(step)]
        if not part:
            return None
        sliced = window.sliced(axis, part.start, len(part), int(step))
        if sliced is None:
            return None
        window = sliced
    return window


_STEPS: dict[str, TraceStep] = {
    "Transpose": _transpose,
    "Expand": _expand,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
}


@dataclass(frozen=True)
class StridedOperand:
    """`factor` times a window of the value `source`; `operators` are those that it replaces.

    If there is a value `keep`, a bool for each row, then the rows are zero where it is false.
    """

    source: int
    window: StridedWindow
    factor: float = 1.0
    operators: tuple[int, ...] = ()
    keep: int | None = None


@dataclass(frozen=True, slots=True)
class _Mask:
    """Zeros at the indices of an axis where the bools of a value are false."""

    axis: int
    keep: int


@dataclass(frozen=True, slots=True)
class _Link:
    """One operator on the path to an operand: `after` is `factor` times a window of `before`."""

    operator: int
    before: int
    after: int
    factor: float
    mask: _Mask | None = None


def trace_operand(
    network: Network,
    producers: Mapping[int, int],
    value: int,
    ends: Set[int] = frozenset(),
    *,
    masked: bool = False,
) -> StridedOperand:
    """A MatMul's operand as a window of its farthest possible source.

    Each of its matrix axes has one stride. The path does not go past values in `ends`. A `masked`
    operand may have rows of zeros.
    """
    links = list(_links(network, producers, value, ends, masked))
    for length in range(len(links), 0, -1):
        operand = _follow(network, links[:length])
        if operand is not None and is_matrix(operand.window):
            return operand
    return StridedOperand(value, StridedWindow.contiguous(network.values[value].shape))


def is_matrix(window: StridedWindow) -> bool:
    """Whether the last two axes have one stride each."""
    return all(window.stride(axis) is not None for axis in MATRIX)


def _links(
    network: Network, producers: Mapping[int, int], value: int, ends: Set[int], masked: bool
) -> Iterator[_Link]:
    """The chain of views, selections, scales and casts that computes a value, last one first."""
    while value not in ends and (number := producers.get(value)) is not None:
        node = network.operators[number]
        link = _scaling(network, node, number) or _naming(network, node, number, value)
        if link is None and masked:
            link, masked = _masking(network, number), False
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


def _naming(network: Network, node: NetworkNode, number: int, value: int) -> _Link | None:
    before = node.inputs[0] if node.inputs else None
    known = KINDS.get(node.type) is Kind.VIEW or node.type in _STEPS or is_widening(network, node)
    return _Link(number, before, value, 1.0) if known and before is not None else None


def is_widening(network: Network, node: NetworkNode) -> bool:
    """Whether an operator is a lossless Cast of a float type to float32."""
    return node.type == "Cast" and all(
        network.values[v].dtype in kinds
        for v, kinds in ((node.inputs[0], GEMM_TYPES), (node.outputs[0], ("float32",)))
        if v is not None
    )


def _scaling(network: Network, node: NetworkNode, number: int) -> _Link | None:
    """A Mul or Div by a constant of one element."""
    if node.type not in ("Mul", "Div"):
        return None
    for position, other in ((0, 1), (1, 0)) if node.type == "Mul" else ((0, 1),):
        before, scalar = node.inputs[position], network.constants.get(node.inputs[other] or 0)
        same = before is not None and network.values[before] == network.values[node.outputs[0]]
        if before is not None and same and scalar is not None and scalar.size == 1:
            factor = float(scalar.ravel()[0])
            if node.type == "Div" and factor == 0:
                return None
            return _Link(
                number, before, node.outputs[0], factor if node.type == "Mul" else 1 / factor
            )
    return None


def _follow(network: Network, links: Sequence[_Link]) -> StridedOperand | None:
    """The operand at the first link as a window of the value that the last one reads."""
    source, factor = links[-1].before, 1.0
    window: StridedWindow | None = StridedWindow.contiguous(network.values[source].shape)
    for link in reversed(links):
        node = network.operators[link.operator]
        factor *= link.factor
        if link.mask is None and node.type not in ("Mul", "Div", "Cast"):
            window = window_through(network, node, window, link.after)
        if window is None:
            return None
    masks = [index for index, link in enumerate(links) if link.mask is not None]
    if not all(_masks_rows(network, links[: index + 1]) for index in masks):
        return None
    keep = next((link.mask.keep for link in links if link.mask is not None), None)
    return StridedOperand(source, window, factor, tuple(link.operator for link in links), keep)


def _masks_rows(network: Network, links: Sequence[_Link]) -> bool:
    """Whether the axis that the last link masks is the rows of the operand at the first one."""
    mask, shape = links[-1].mask, network.values[links[-1].after].shape
    assert mask is not None
    rows, stride = shape[mask.axis], prod(shape[mask.axis + 1 :])
    whole = StridedOperand(links[-1].after, StridedWindow.contiguous(shape))
    masked = _follow(network, links[:-1]) if len(links) > 1 else whole
    if masked is None or rows < 2 or masked.window.axes[-2:-1] != (((rows, stride),),):
        return False
    window = masked.window
    others = [run for axis in (*window.axes[:-2], window.axes[-1]) for run in axis]
    inner = sum((extent - 1) * step for extent, step in others if step < stride)
    apart = all(step < stride or step % (rows * stride) == 0 for _, step in others)
    return apart and window.offset + inner < stride
