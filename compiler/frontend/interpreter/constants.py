"""Operators on constants only: their result shapes depend on data, or they have no kernel."""

from math import ceil

import numpy as np

from compiler.frontend.interpreter.registry import Array, Node, evaluates, positive_axis
from compiler.frontend.interpreter.rounding import converted_array, double
from compiler.frontend.interpreter.suppression import non_maximum_suppression


@evaluates("Constant")
def evaluate_constant(node: Node) -> Array:
    """The tensor in the operator's only attribute."""
    ((name, value),) = node.attributes.items()
    if name.startswith("value_float"):
        return np.array(value, np.float64 if node.precise else np.float32)
    if name.startswith("value_int"):
        return np.array(value, np.int64)
    if name.startswith("value_string"):
        return np.array(value, object)
    return np.asarray(value)


@evaluates("ConstantOfShape")
def evaluate_constant_of_shape(node: Node) -> Array:
    """One value broadcast to a shape, without a copy for each element."""
    value = node.attribute("value", np.zeros(1, np.float32))
    return np.broadcast_to(value.reshape(()), tuple(node.integers(0) or ()))


@evaluates("Range")
def evaluate_range(node: Node) -> Array:
    """Numbers from a start, by a step, up to an exclusive limit."""
    start, limit, delta = (node[i].reshape(()) for i in range(3))
    exact = [double(array).item() for array in (start, limit, delta)]
    count = max(0, ceil((exact[1] - exact[0]) / exact[2]))
    steps = np.arange(count, dtype=np.float64 if isinstance(exact[0], float) else np.int64)
    return converted_array(np.asarray(exact[0] + steps * exact[2]), start.dtype)


@evaluates("NonZero")
def evaluate_non_zero(node: Node) -> Array:
    """The indices of all elements that are not zero, as a row for each axis."""
    return non_zero(node[0])


def non_zero(x: Array) -> Array:
    """The result of NonZero; a scalar has no axes, so its one index has none either."""
    found = np.array(np.nonzero(np.atleast_1d(x)), np.int64)
    return found if x.ndim else found[:0]


@evaluates("Compress")
def evaluate_compress(node: Node) -> Array:
    """The slices along an axis, or the elements, whose condition is true."""
    return compressed(node[0], node[1], node.attribute("axis"))


def compressed(x: Array, condition: Array, axis: int | None = None) -> Array:
    """The result of Compress; a condition of any rank counts as flat, as onnxruntime reads it."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    return np.compress(condition.reshape(-1)[: x.shape[positive_axis(axis, x.ndim)]], x, axis)


@evaluates("Unique")
def evaluate_unique(node: Node) -> list[Array]:
    """Distinct elements or slices: sorted, or as they occur; first index, inverse and counts."""
    axis, x = node.attribute("axis"), node[0]
    numbers, texts = double(x), None
    if x.dtype.kind in "OUS":  # numpy has no slices of objects in order
        texts, numbers = np.unique(x.reshape(-1), return_inverse=True)
        numbers = numbers.reshape(x.shape)
    unique = np.unique(numbers, True, True, True, axis=axis, equal_nan=False)
    values, first, inverse, counts = unique
    inverse = inverse.reshape(-1)
    if not node.attribute("sorted", 1):
        order = np.argsort(first)
        rank = np.argsort(order)
        values = np.take(values, order, axis or 0)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    others = [array.astype(np.int64) for array in (first, inverse, counts)]
    values = converted_array(values, x.dtype) if texts is None else texts[values]
    return [values, *others][: len(node.outputs)]


@evaluates("NonMaxSuppression")
def evaluate_non_max_suppression(node: Node) -> Array:
    """Rows (batch, class, box) of the boxes that do not overlap a better one too much."""
    limits = (*node.inputs[2:], None, None, None)[:3]
    centred = node.attribute("center_point_box", 0)
    return non_maximum_suppression(node[0], node[1], *limits, center_point_box=centred)[0]


@evaluates("Det")
def evaluate_determinant(node: Node) -> Array:
    """The determinant of each matrix."""
    return converted_array(np.asarray(np.linalg.det(double(node[0]))), node[0].dtype)


def _mel(frequency: float) -> float:
    return 2595 * np.log10(1 + np.float64(frequency) / 700)


@evaluates("MelWeightMatrix")
def evaluate_mel_weight_matrix(node: Node) -> Array:
    """Triangular filters, evenly spaced in mel, as a matrix [spectrum bins, filters]."""
    bands, length = (int(node[i].reshape(())) for i in range(2))
    rate, low, high = (node[i].reshape(()).item() for i in range(2, 5))
    first, last = _mel(low), _mel(high)
    marks = first + np.arange(bands + 2) * ((last - first) / (bands + 2))
    hertz = 700 * (10 ** (marks / 2595) - 1)
    edges = np.floor((length + 1) * hertz / rate).astype(np.int64)
    bins = np.arange(length // 2 + 1)[:, None]
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising = (bins - left) / np.maximum(centre - left, 1)
    falling = (right - bins) / np.maximum(right - centre, 1)
    rising = np.where((bins >= left) & (bins < centre), rising, 0)
    weights = rising + np.where((bins >= centre) & (bins < right), falling, 0)
    weights = np.where(bins == centre, 1.0, weights)
    return converted_array(weights, node.dtype_of(node.attribute("output_datatype", 1)))


@evaluates("Col2Im")
def evaluate_columns_to_image(node: Node) -> Array:
    """Overlapping blocks, the columns of the input, summed into an image."""
    image, block = node.integers(1) or [], node.integers(2) or []
    rank = len(image)
    dilations = node.attribute("dilations") or [1] * rank
    strides = node.attribute("strides") or [1] * rank
    pads = node.attribute("pads") or [0] * 2 * rank
    full = [n + b + a for n, b, a in zip(image, pads[:rank], pads[rank:], strict=True)]
    sizes = zip(full, block, dilations, strides, strict=True)
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in sizes]
    data = double(node[0]).reshape(node[0].shape[0], -1, *block, *counts)
    total = np.zeros((*data.shape[:2], *full), data.dtype)
    for tap in np.ndindex(*block):
        steps = zip(tap, dilations, strides, counts, strict=True)
        box = tuple(slice(t * d, t * d + s * (p - 1) + 1, s) for t, d, s, p in steps)
        total[(..., *box)] += data[(slice(None), slice(None), *tap)]
    inside = tuple(slice(b, b + n) for b, n in zip(pads[:rank], image, strict=True))
    return converted_array(total[(..., *inside)], node[0].dtype)


@evaluates("MaxUnpool")
def evaluate_max_unpool(node: Node) -> Array:
    """Elements at the indices from which a MaxPool took them, zeros elsewhere."""
    x, kernel = node[0], node.attribute("kernel_shape")
    rank = len(kernel)
    strides, pads = (
        node.attribute("strides") or [1] * rank,
        node.attribute("pads") or [0] * 2 * rank,
    )
    sizes = zip(x.shape[2:], strides, kernel, pads[:rank], pads[rank:], strict=True)
    own = [*x.shape[:2], *((n - 1) * s + k - b - a for n, s, k, b, a in sizes)]
    result = np.zeros(own, x.dtype)
    result.reshape(-1)[node[1].reshape(-1)] = x.reshape(-1)
    if not node.has(2):
        return result
    wanted = np.zeros(node.integers(2) or [], x.dtype)
    wanted[tuple(slice(0, n) for n in own)] = result
    return wanted


@evaluates("TensorScatter")
def evaluate_tensor_scatter(node: Node) -> Array:
    """A cache with an update written from an index of each batch entry on."""
    axis = positive_axis(node.attribute("axis", -2), node[0].ndim)
    cache, update = (np.moveaxis(node[i], axis, 1) for i in (0, 1))
    batch, size = cache.shape[:2]
    first = node[2] if node.has(2) else np.zeros(batch, np.int64)
    positions = first[:, None] + np.arange(int(update.shape[1]))
    if node.attribute("mode", "linear") == "circular":
        positions %= size
    result = cache.copy()
    result[np.arange(batch)[:, None], positions] = update
    return np.ascontiguousarray(np.moveaxis(result, 1, axis))


def _complex(array: Array) -> Array:
    """A signal as complex numbers; its last axis has a real and perhaps an imaginary part."""
    array = double(array)
    return array[..., 0] + 1j * array[..., 1] if array.shape[-1] == 2 else array[..., 0]


@evaluates("DFT")
def evaluate_fourier_transform(node: Node) -> Array:
    """The discrete Fourier transform along an axis; of real signals half of it when asked."""
    x, inverse = _complex(node[0]), node.attribute("inverse", 0)
    given = node[2].reshape(()).item() if node.has(2) else node.attribute("axis", _dft_axis(node))
    axis = positive_axis(given, node[0].ndim)
    length = node[1].reshape(()).item() if node.has(1) else None
    onesided = node.attribute("onesided", 0)
    if inverse and onesided:
        result = np.fft.irfft(x, length, axis)[..., None]
        return converted_array(result, node[0].dtype)
    result = (np.fft.ifft if inverse else np.fft.fft)(x, length, axis)
    if onesided:
        result = np.take(result, np.arange(int(result.shape[axis]) // 2 + 1), axis)
    return converted_array(np.stack([result.real, result.imag], -1), node[0].dtype)


def _dft_axis(node: Node) -> int:
    """The default axis: 1 for the attribute of opset 17, -2 for the input since."""
    return 1 if "axis" in node.attributes else -2


@evaluates("OptionalHasElement")
def evaluate_has_element(node: Node) -> Array:
    """Whether an optional holds a tensor."""
    return np.asarray(node.has(0))


@evaluates("OptionalGetElement")
def evaluate_get_element(node: Node) -> Array:
    """The tensor that an optional holds."""
    return node[0]


@evaluates("StringConcat")
def evaluate_string_concat(node: Node) -> Array:
    """Strings appended, broadcast."""
    text = np.char.add(node[0].astype(str), node[1].astype(str))
    return np.asarray(text).astype(object)
