"""Operators that move elements: views, cuts, joins, gathers, scatters."""

from math import prod
from typing import Any

import numpy as np

from tests.fuzz.catalogue.elementwise import broadcastable
from tests.fuzz.catalogue.registry import generates
from tests.fuzz.draw import ANY, NUMBERS, Shape
from tests.fuzz.grower import Grower


def some_axis(g: Grower, rank: int) -> int:
    """An axis, counted from either end."""
    g.require(rank > 0)
    return g.draw.randint(-rank, rank - 1)


def ranked(g: Grower, low: int, high: int = 4, dtypes: tuple[str, ...] = ANY) -> str:
    """A tensor of bounded rank."""
    return g.tensor(dtypes, lambda s: low <= len(s) <= high, lambda: g.draw.shape(low, high))


@generates("Reshape")
def reshape(g: Grower, op: str) -> None:
    """Merged and split dimensions, with zeros and -1."""
    x = ranked(g, 0)
    shape = list(g.values[x].shape)
    target = factored(g, prod(shape)) if g.draw.chance(0.6) else [*shape, 1]
    target = [0 if i < len(shape) and t == shape[i] and g.draw.chance(0.3) else t
              for i, t in enumerate(target)]  # fmt: skip
    if target and prod(shape) and g.draw.chance(0.3):
        target[g.draw.randrange(len(target))] = -1
    g.emit(op, [x, g.ints(target)])


def factored(g: Grower, size: int) -> list[int]:
    """A random shape of as many elements."""
    dims: list[int] = []
    while size > 1 and len(dims) < 3:
        divisors = [d for d in range(1, size + 1) if size % d == 0]
        dims.append(g.draw.choice(divisors))
        size //= dims[-1]
    return [*dims, size] if size != 1 or not dims else dims


@generates("Flatten")
def flatten(g: Grower, op: str) -> None:
    """At any axis."""
    x = ranked(g, 1)
    rank = g.values[x].ndim
    g.emit(op, [x], axis=g.draw.choice([None, g.draw.randint(0, rank)]))


@generates("Squeeze Unsqueeze")
def squeeze(g: Grower, op: str) -> None:
    """Axes were attributes before opset 13."""
    x = ranked(g, 0, 3)
    shape = g.values[x].shape
    if op == "Squeeze":
        axes = [i for i, size in enumerate(shape) if size == 1]
        g.require(bool(axes))
        axes = [] if g.opset >= 13 and g.draw.chance(0.1) else g.draw.some(axes) or axes
    else:
        axes = sorted(g.draw.sample(range(len(shape) + 2), 2))[: g.draw.randint(1, 2)]
        axes = [a for a in axes if a < len(shape) + len(axes)] or [0]
    if g.opset < 13:
        g.emit(op, [x], axes=axes)
    else:
        rank = len(shape) + (len(axes) if op == "Unsqueeze" else 0)
        g.emit(op, [x, g.ints([a - rank if g.draw.chance(0.3) else a for a in axes])])


@generates("Transpose")
def transpose(g: Grower, op: str) -> None:
    """Any permutation."""
    x = ranked(g, 0)
    perm = list(range(g.values[x].ndim))
    g.draw.shuffle(perm)
    g.emit(op, [x], perm=perm if perm and g.draw.chance(0.8) else None)


@generates("Expand")
def expand(g: Grower, op: str) -> None:
    """To a shape that broadcasts with the tensor's."""
    x = ranked(g, 0, 3)
    shape = g.values[x].shape
    target = [g.draw.choice([s, 1]) if s != 1 else g.draw.choice([1, 2, 3]) for s in shape]
    g.emit(op, [x, g.ints([*([2] if g.draw.chance(0.3) else []), *target])])


@generates("Tile")
def tile(g: Grower, op: str) -> None:
    """One to three times along each axis."""
    x = ranked(g, 1)
    g.emit(op, [x, g.ints([g.draw.choice([1, 1, 2, 3]) for _ in g.values[x].shape])])


@generates("Concat")
def concat(g: Grower, op: str) -> None:
    """One to four tensors that differ along the axis only."""
    x = ranked(g, 1)
    shape, dtype = g.values[x].shape, g.values[x].dtype.name
    axis = some_axis(g, len(shape)) if g.opset >= 11 else g.draw.randrange(len(shape))
    place = axis % len(shape)

    def fits(s: Shape) -> bool:
        return len(s) == len(shape) and all(
            a == b for i, (a, b) in enumerate(zip(s, shape, strict=True)) if i != place
        )

    def made() -> Shape:
        return (*shape[:place], g.draw.size(), *shape[place + 1 :])

    others = [g.tensor([dtype], fits, made) for _ in range(g.draw.randint(0, 3))]
    g.emit(op, [x, *others], axis=axis)


@generates("Split")
def split(g: Grower, op: str) -> None:
    """Even and uneven parts."""
    x = ranked(g, 1)
    axis = some_axis(g, g.values[x].ndim)
    size = g.values[x].shape[axis]
    parts = g.draw.randint(1, min(4, size)) if size else 1
    cuts = sorted(g.draw.sample(range(1, size), parts - 1)) if size > 1 else []
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    if size % parts == 0 and g.draw.chance(0.3):
        g.emit(op, [x], parts, axis=axis, num_outputs=parts if g.opset >= 18 else None)
    elif g.opset < 13:
        g.emit(op, [x], len(sizes), axis=axis, split=sizes)
    else:
        g.emit(op, [x, g.ints(sizes)], len(sizes), axis=axis)


@generates("Slice")
def slices(g: Grower, op: str) -> None:
    """Any bounds and steps, beyond the ends too."""
    x = ranked(g, 1)
    shape = g.values[x].shape
    axes = g.draw.some(range(len(shape)), 0.6) or [0]
    g.draw.shuffle(axes)
    steps = [g.draw.choice([1, 1, 2, 3, -1, -2]) for _ in axes]
    bounds = [sorted((g.draw.randint(0, shape[a]), g.draw.randint(0, shape[a]))) for a in axes]
    starts = [b - 1 if s < 0 else a for (a, b), s in zip(bounds, steps, strict=True)]
    ends = [a - 1 if s < 0 else b for (a, b), s in zip(bounds, steps, strict=True)]
    ends = [-(2**31) if s < 0 and e < 0 else e for e, s in zip(ends, steps, strict=True)]
    starts = [s - shape[a] if s and g.draw.chance(0.2) else s
              for s, a in zip(starts, axes, strict=True)]  # fmt: skip
    if g.opset < 10:
        g.require(all(step == 1 for step in steps))
        g.emit(op, [x], starts=starts, ends=ends, axes=axes)
    else:
        extra = [g.ints(steps)] if any(s != 1 for s in steps) or g.draw.chance(0.3) else []
        g.emit(op, [x, g.ints(starts), g.ints(ends), g.ints(axes), *extra])


@generates("Pad")
def pad(g: Grower, op: str) -> None:
    """Every mode, negative pads too."""
    x = ranked(g, 1, 4, NUMBERS)
    shape = g.values[x].shape
    modes = ["constant", "constant", "reflect", "edge"] + ["wrap"] * (g.opset >= 19)
    mode = g.draw.choice(modes)
    most = [min(3, s - 1) if mode == "reflect" else min(3, s) for s in shape]
    pads = [g.draw.choice([0, g.draw.randint(0, max(m, 0))]) for m in most * 2]
    if g.draw.chance(0.2):
        pads = [
            -1 if s > 3 and g.draw.chance(0.5) else p for p, s in zip(pads, shape * 2, strict=True)
        ]
    if g.opset < 11:
        g.emit(op, [x], mode=mode, pads=pads, value=1.5 if g.draw.chance(0.5) else None)
        return
    value = g.new(np.array(3, g.values[x].dtype)) if g.draw.chance(0.5) else ""
    said = None if mode == "constant" and g.draw.chance(0.5) else mode
    g.emit(op, [x, g.ints(pads), value], mode=said)


@generates("DepthToSpace SpaceToDepth")
def blocks(g: Grower, op: str) -> None:
    """Both modes."""
    block = g.draw.choice([1, 2, 3])
    c, h, w = (g.draw.randint(1, 3) for _ in range(3))
    deep = (g.draw.randint(1, 2), c * block**2, h, w)
    wide = (deep[0], c, h * block, w * block)
    shape = deep if op == "DepthToSpace" else wide
    x = g.new(g.draw.array(shape, g.draw.dtype(("float32", "float64", "float16", "uint8", "int8"))))
    modes = [None, "DCR", "CRD"] if op == "DepthToSpace" and g.opset >= 11 else [None]
    g.emit(op, [x], blocksize=block, mode=g.draw.choice(modes))


@generates("Trilu")
def triangle(g: Grower, op: str) -> None:
    """Either half, moved by k."""
    x = ranked(g, 2)
    k = [g.constant(np.array(g.draw.randint(-3, 3), np.int64))] if g.draw.chance(0.6) else []
    g.emit(op, [x, *k], upper=g.draw.choice([None, 0, 1]))


def indices(g: Grower, shape: Shape, size: int, negative: bool = True) -> str:
    """A new tensor of indices into `size` elements."""
    g.require(size > 0)
    low = -size if negative and g.draw.chance(0.4) else 0
    dtype = g.draw.choice(["int64", "int32"])
    return g.new(g.draw.numpy.integers(low, size, shape).astype(dtype))


@generates("Gather")
def gather(g: Grower, op: str) -> None:
    """Indices of any rank."""
    x = ranked(g, 1)
    axis = some_axis(g, g.values[x].ndim)
    shape = g.draw.shape(0, 2, 40)
    found = indices(g, shape, g.values[x].shape[axis], g.opset >= 11)
    g.emit(op, [x, found], axis=axis)


@generates("GatherElements")
def gather_elements(g: Grower, op: str) -> None:
    """Indices may be smaller than the data."""
    x = ranked(g, 1)
    shape = g.values[x].shape
    axis = some_axis(g, len(shape))
    smaller = [g.draw.randint(1, s) if s and g.draw.chance(0.4) else s for s in shape]
    smaller[axis] = g.draw.size()
    g.emit(op, [x, indices(g, tuple(smaller), shape[axis])], axis=axis)


def _nd_indices(g: Grower, shape: Shape, lead: Shape, depth: int) -> str:
    columns = [g.draw.numpy.integers(-s if g.draw.chance(0.3) else 0, s, lead) for s in shape]
    return g.new(np.stack(columns[:depth], -1).astype(np.int64))


@generates("GatherND")
def gather_nd(g: Grower, op: str) -> None:
    """With and without batch dimensions."""
    x = ranked(g, 1)
    shape = g.values[x].shape
    g.require(0 not in shape)
    batch = g.draw.randint(0, len(shape) - 1) if g.opset >= 12 and g.draw.chance(0.4) else 0
    depth = g.draw.randint(1, len(shape) - batch)
    lead = (*shape[:batch], *g.draw.shape(0, 2, 12))
    found = _nd_indices(g, shape[batch:], lead, depth)
    g.emit(op, [x, found], batch_dims=batch or None)


@generates("Scatter ScatterElements")
def scatter_elements(g: Grower, op: str) -> None:
    """Distinct indices, or a reduction."""
    x = ranked(g, 1, 3, NUMBERS)
    shape = g.values[x].shape
    axis = some_axis(g, len(shape))
    smaller = [g.draw.randint(1, s) if s else 0 for s in shape]
    reductions = [None, "add", "mul"] if g.opset >= 16 else [None]
    reductions += ["min", "max"] if g.opset >= 18 else []
    reduction = g.draw.choice(reductions) if op == "ScatterElements" else None
    order = g.draw.numpy.random(tuple(shape)).argsort(axis)
    found = order[tuple(slice(n) for n in smaller)]
    if reduction:
        g.require(shape[axis] > 0)
        found = found % max(1, shape[axis] - 1)
    updates = g.new(g.draw.array(smaller, g.values[x].dtype.name))
    g.emit(op, [x, g.new(found.astype(np.int64)), updates], axis=axis, reduction=reduction)


@generates("ScatterND")
def scatter_nd(g: Grower, op: str) -> None:
    """Distinct indices, or a reduction."""
    x = ranked(g, 1, 3, NUMBERS)
    shape = g.values[x].shape
    g.require(0 not in shape)
    depth = g.draw.randint(1, len(shape))
    places = g.draw.sample(range(prod(shape[:depth])), min(3, prod(shape[:depth])))
    found = np.stack(np.unravel_index(places, shape[:depth]), -1).astype(np.int64)
    reduction = g.draw.choice([None, "add", "mul"]) if g.opset >= 16 else None
    if reduction:
        found = found[g.draw.numpy.integers(0, len(found), len(found) + 1)]
    updates = g.new(g.draw.array((len(found), *shape[depth:]), g.values[x].dtype.name))
    g.emit(op, [x, g.new(found), updates], reduction=reduction)


@generates("OneHot")
def one_hot(g: Grower, op: str) -> None:
    """Some indices are out of range: their rows are off."""
    depth = g.draw.randint(1, 5)
    found = g.new(g.draw.numpy.integers(-depth - 1, depth + 2, g.draw.shape(1, 3, 60)))
    values = g.constant(g.draw.array((2,), g.draw.dtype(("float32", "int64", "int32"))))
    g.emit(op, [found, g.constant(np.array(depth)), values], axis=g.draw.choice([None, 0, 1, -1]))


@generates("ReverseSequence")
def reverse(g: Grower, op: str) -> None:
    """Lengths at run time."""
    x = ranked(g, 2)
    shape = g.values[x].shape
    time = g.draw.randint(0, 1)
    g.require(shape[time] > 0)
    lengths = np.array([g.draw.randint(1, shape[time]) for _ in range(shape[1 - time])])
    g.emit(op, [x, g.new(lengths)], time_axis=time, batch_axis=1 - time)


@generates("CumSum")
def scan(g: Grower, op: str) -> None:
    """All four variants."""
    x = ranked(g, 1, 4, ("float32", "float64", "int32", "int64"))
    axis = g.constant(np.array(some_axis(g, g.values[x].ndim), np.int64))
    flags: dict[str, Any] = {name: 1 for name in g.draw.some(["exclusive", "reverse"])}
    g.emit(op, [x, axis], **flags)


@generates("Shape Size EyeLike")
def known_shape(g: Grower, op: str) -> None:
    """What depends on a shape only."""
    x = ranked(g, 2, 2, NUMBERS) if op == "EyeLike" else ranked(g, 0)
    cut: dict[str, Any] = (
        {"start": 1} if op == "Shape" and g.opset >= 15 and g.draw.chance(0.5) else {}
    )
    moved: dict[str, Any] = {"k": g.draw.randint(-2, 2)} if op == "EyeLike" else {}
    g.emit(op, [x], **cut, **moved)


@generates("SequenceConstruct SplitToSequence")
def sequences(g: Grower, op: str) -> None:
    """A sequence and back to tensors; long ones are rows of one tensor."""
    x = ranked(g, 1, 3)
    if op == "SequenceConstruct":
        parts = [x] + [g.like(x, g.values[x].shape) for _ in range(g.draw.randint(1, 2))]
        (sequence,) = g.emit(op, parts)
    else:
        if g.draw.chance(0.4):
            x = g.like(x, (g.draw.randint(65, 150), *g.values[x].shape[1:]))
        sizes = [g.constant(np.array(g.draw.randint(1, 3)))] if g.draw.chance(0.4) else []
        # ONNX says that keepdims means nothing where sizes are given; onnxruntime obeys it
        keep = None if sizes else g.draw.choice([None, 0, 1])
        (sequence,) = g.emit(op, [x, *sizes], axis=0, keepdims=keep)
    if g.draw.chance(0.3):
        (sequence,) = g.emit("SequenceErase", [sequence, g.constant(np.array(0))])
    g.require(bool(g.values[sequence]))
    if g.draw.chance(0.5):
        g.emit("SequenceAt", [sequence, g.constant(np.array(g.draw.choice([0, -1])))])
    else:
        shapes = {tensor.shape for tensor in g.values[sequence]}
        rank = g.values[sequence][0].ndim
        new = (g.draw.choice([None, 1]) if rank else 1) if len(shapes) == 1 else None
        axis = g.draw.randint(0, rank - 1 + (new or 0)) if len(shapes) == 1 else 0
        g.emit("ConcatFromSequence", [sequence], axis=axis, new_axis=new)


@generates("Constant ConstantOfShape Range")
def constants(g: Grower, op: str) -> None:
    """What depends on constants only."""
    if op == "Constant":
        g.constant(g.draw.array(g.draw.shape(0, 3), g.draw.dtype(ANY)))
    elif op == "Range":
        bounds = [np.array(v, g.draw.choice([np.int64, np.int64])) for v in (0, 7, 2)]
        g.emit(op, [g.constant(b) for b in bounds])
    else:
        g.emit(op, [g.ints(broadcastable(g, g.draw.shape(0, 3)))])
