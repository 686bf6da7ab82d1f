"""Operators in float64, as literal as the ONNX specification: one result element at a time."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import ceil, floor

import numpy as np

from tests.operator_cases import Array, Case

Index = tuple[int, ...]


def _given(case: Case, name: str, rank: int, default: int) -> list[int]:
    return list(case.attributes.get(name) or [default] * rank)


def _taps(
    case: Case, kernel: Sequence[int], place: Index, shape: Sequence[int]
) -> Iterator[tuple[Index, Index]]:
    """Each element of the kernel with the position that it meets, in the padding too."""
    rank = len(kernel)
    strides, dilations = (_given(case, name, rank, 1) for name in ("strides", "dilations"))
    pads = _given(case, "pads", 2 * rank, 0)
    for tap in product(*map(range, kernel)):
        axes = zip(place, strides, tap, dilations, pads[:rank], strict=True)
        yield tap, tuple(p * s + t * d - pad for p, s, t, d, pad in axes)


def _inside(position: Index, shape: Sequence[int]) -> bool:
    return all(0 <= x < n for x, n in zip(position, shape, strict=True))


def _window_sizes(case: Case, kernel: Sequence[int], spatial: Sequence[int]) -> list[int]:
    """The size of the result: rounded up with ceil_mode, no window beginning in the end's pad."""
    rank = len(kernel)
    strides, dilations = (_given(case, name, rank, 1) for name in ("strides", "dilations"))
    pads = _given(case, "pads", 2 * rank, 0)
    sizes: list[int] = []
    for i, n in enumerate(spatial):
        room = (n + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1) / strides[i]
        size = (ceil if case.attributes.get("ceil_mode") else floor)(room) + 1
        if case.attributes.get("ceil_mode") and (size - 1) * strides[i] >= n + pads[i]:
            size -= 1
        sizes.append(size)
    return sizes


def _exact(case: Case, index: int) -> Array:
    array = case.inputs[index]
    assert array is not None
    return array.astype(np.float64)


def _pooled(case: Case, finish: Callable[[list[float], int], float]) -> Array:
    """`finish(elements inside, elements that count with the declared padding)` of each window."""
    x, kernel = _exact(case, 0), case.attributes["kernel_shape"]
    spatial, rank = x.shape[2:], len(case.attributes["kernel_shape"])
    pads = _given(case, "pads", 2 * rank, 0)
    result = np.zeros((*x.shape[:2], *_window_sizes(case, kernel, spatial)))
    for n, c, *place in np.ndindex(result.shape):
        met = [at for _, at in _taps(case, kernel, tuple(place), spatial)]
        values = [float(x[(n, c, *at)]) for at in met if _inside(at, spatial)]
        axes = [range(-pads[i], spatial[i] + pads[i + rank]) for i in range(rank)]
        counted = sum(all(p in axis for p, axis in zip(at, axes, strict=True)) for at in met)
        result[(n, c, *place)] = finish(values, counted)
    return result


def max_pool(case: Case) -> Array:
    """The largest element of each window."""
    return _pooled(case, lambda values, _: max(values, default=-np.inf))


def average_pool(case: Case) -> Array:
    """The mean of each window."""
    include = case.attributes.get("count_include_pad", 0)
    return _pooled(case, lambda v, counted: sum(v) / max(counted if include else len(v), 1))


def lp_pool(case: Case) -> Array:
    """The p-norm of each window."""
    p = case.attributes.get("p", 2)
    return _pooled(case, lambda values, _: sum(abs(v) ** p for v in values) ** (1 / p))


def conv(case: Case) -> Array:
    """Convolution."""
    x, w = _exact(case, 0), _exact(case, 1)
    groups, spatial, kernel = case.attributes.get("group", 1), x.shape[2:], w.shape[2:]
    each = w.shape[0] // groups
    result = np.zeros((x.shape[0], w.shape[0], *_window_sizes(case, kernel, spatial)))
    for n, m, *place in np.ndindex(result.shape):
        first = m // each * w.shape[1]
        total = _exact(case, 2)[m] if len(case.inputs) > 2 else 0.0
        for tap, at in _taps(case, kernel, tuple(place), spatial):
            if _inside(at, spatial):
                channels = range(w.shape[1])
                total += sum(x[(n, first + c, *at)] * w[(m, c, *tap)] for c in channels)
        result[(n, m, *place)] = total
    return result


def conv_transpose(case: Case) -> Array:
    """Transposed convolution: each input element is spread over the result."""
    x, w = _exact(case, 0), _exact(case, 1)
    groups, rank = case.attributes.get("group", 1), x.ndim - 2
    strides, dilations = (_given(case, name, rank, 1) for name in ("strides", "dilations"))
    pads, extra = _given(case, "pads", 2 * rank, 0), _given(case, "output_padding", rank, 0)
    sizes = [
        strides[i] * (x.shape[2 + i] - 1) + extra[i] + (w.shape[2 + i] - 1) * dilations[i] + 1
        - pads[i] - pads[i + rank]
        for i in range(rank)
    ]  # fmt: skip
    result = np.zeros((x.shape[0], w.shape[1] * groups, *sizes))
    if len(case.inputs) > 2:
        result += _exact(case, 2).reshape(-1, *[1] * rank)
    each = x.shape[1] // groups
    for n, c, *place in np.ndindex(x.shape):
        for m, *tap in np.ndindex(w.shape[1:]):
            axes = zip(place, strides, tap, dilations, pads[:rank], strict=True)
            at = tuple(p * s + t * d - pad for p, s, t, d, pad in axes)
            if _inside(at, sizes):
                to = (n, c // each * w.shape[1] + m, *at)
                result[to] += x[(n, c, *place)] * w[(c, m, *tap)]
    return result


def lrn(case: Case) -> Array:
    """Local response normalisation."""
    x, size = _exact(case, 0), case.attributes["size"]
    alpha, beta, bias = (
        np.float32(case.attributes.get(name, default)).astype(np.float64)
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    result, last = np.zeros(x.shape), x.shape[1] - 1
    for n, c, *place in np.ndindex(x.shape):
        low, high = max(0, c - floor((size - 1) / 2)), min(last, c + ceil((size - 1) / 2))
        squares = sum(x[(n, i, *place)] ** 2 for i in range(low, high + 1))
        result[(n, c, *place)] = x[(n, c, *place)] / (bias + alpha / size * squares) ** beta
    return result


def scatter_elements(case: Case) -> Array:
    """Elements stored or combined one after another."""
    result, updates = _exact(case, 0), _exact(case, 2)
    indices, axis = case.inputs[1], case.attributes.get("axis", 0)
    assert indices is not None
    for place in np.ndindex(indices.shape):
        at = list(place)
        at[axis] = int(indices[place])
        _combine(case, result, tuple(at), updates[place])
    return result


def scatter_nd(case: Case) -> Array:
    """Slices stored or combined one after another."""
    result, updates, indices = _exact(case, 0), _exact(case, 2), case.inputs[1]
    assert indices is not None
    for place in np.ndindex(indices.shape[:-1]):
        _combine(case, result, tuple(indices[place].tolist()), updates[place])
    return result


def _combine(case: Case, result: Array, at: Index, update: Array) -> None:
    old = result[at].copy()
    result[at] = {
        "none": lambda: update,
        "add": lambda: old + update,
        "mul": lambda: old * update,
        "max": lambda: np.maximum(old, update),
        "min": lambda: np.minimum(old, update),
    }[case.attributes.get("reduction", "none")]()


BY_TEXT: dict[str, Callable[[Case], Array]] = {
    "AveragePool": average_pool,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "LRN": lrn,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}
"""The reference of each operator that has one."""
