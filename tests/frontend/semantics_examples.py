"""A smallest node for each rule of semantics, and its results by the ONNX text."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from tests.frontend.resize_examples import RESIZE_EXAMPLES
from tests.frontend.semantics_example import Array, Example, by_reference, floats, normal


def _inverse_of_half(example: Example) -> Array:
    """Real signals along axis 1, by numpy."""
    x = example.feeds["x"].astype(np.float64)
    length = int(np.asarray(example.inputs["length"]))
    return np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, 1)[..., None]


def _softmax_of_rows(example: Example) -> Array:
    """Of axis 1 and those after it as one, as before opset 13."""
    powers = np.exp(example.feeds["x"].astype(np.float64))
    return powers / powers.sum((1, 2), keepdims=True)


def _softmax_of_axis(example: Example) -> Array:
    powers = np.exp(example.feeds["x"].astype(np.float64))
    return powers / powers.sum(1, keepdims=True)


def _rectified_by_channel(example: Example) -> Array:
    """With a slope for each channel, as before opset 7."""
    x, slope = example.feeds["x"], np.asarray(example.inputs["slope"])[:, None]
    return np.where(x < 0, x * slope, x)


def _unpooled(example: Example) -> Array:
    """Elements at indices in an output of twice the size, which zeros after it enlarge."""
    x, places = example.feeds.values()
    small = np.zeros((1, 1, 2 * x.shape[2], 2 * x.shape[3]))
    small.reshape(-1)[places.reshape(-1)] = x.reshape(-1)
    wanted = np.asarray(example.inputs["shape"])
    after = [(0, int(size) - own) for size, own in zip(wanted, small.shape, strict=True)]
    return np.pad(small, after)


def _unchanged(example: Example) -> Array:
    """The first input."""
    return next(iter(example.feeds.values())).astype(np.float64)


def _no_rows(example: Example) -> Array:
    """None of the rows of the first input."""
    return _unchanged(example)[:0]


def _cut(example: Example) -> Array:
    """The first input without fractions."""
    return np.trunc(_unchanged(example))


def _pooled(example: Example) -> Array:
    """The largest elements of windows whose pads keep the size ceil(input / stride), in 1-D."""
    (x,) = example.feeds.values()
    image = x[0, 0].astype(np.float64)
    (kernel,), (stride,) = example.attributes["kernel_shape"], example.attributes["strides"]
    (step,) = example.attributes.get("dilations", (1,))
    count = -(-len(image) // stride)
    total = max((count - 1) * stride + (kernel - 1) * step + 1 - len(image), 0)
    padded = np.pad(image, (total // 2, total - total // 2), constant_values=-np.inf)
    found = [padded[i * stride :][: (kernel - 1) * step + 1 : step].max() for i in range(count)]
    return np.array([[found]])


def _spread(example: Example) -> Array:
    """A transposed convolution of one channel in 1-D, input times stride elements long."""
    x, w = (array[0, 0].astype(np.float64) for array in example.feeds.values())
    (stride,) = example.attributes["strides"]
    result = np.zeros(len(x) * stride)
    for i, element in enumerate(x):
        result[i * stride : i * stride + len(w)] += element * w
    return result[None, None]


def _clipped_lstm(example: Example) -> Array:
    """An LSTM whose activations all read what is clipped."""
    x, w, r, (cell,) = (array.astype(np.float64) for array in example.feeds.values())
    bound, size = example.attributes["clip"], example.attributes["hidden_size"]

    def sigmoid(value: Array) -> Array:
        return 1 / (1 + np.exp(-np.clip(value, -bound, bound)))

    def tanh(value: Array) -> Array:
        return np.tanh(np.clip(value, -bound, bound))

    state = np.zeros((x.shape[1], size))
    steps: list[Array] = []
    for step in x:
        i, o, f, c = np.split(step @ w[0].T + state @ r[0].T, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * tanh(c)
        state = sigmoid(o) * tanh(cell)
        steps.append(state)
    return np.stack(steps)[:, None]


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Affine": lambda x: x,
    "ScaledTanh": np.tanh,
    "ThresholdedRelu": lambda x: np.where(x > 1, x, 0),
}
"""Activation functions with the parameters that operators have by default."""


def _recurrent(example: Example) -> Array:
    """An RNN whose activation function has the parameters of operators."""
    x, w, r = (array.astype(np.float64) for array in example.feeds.values())
    (name,) = example.attributes["activations"]
    state = np.zeros((x.shape[1], r.shape[2]))
    steps: list[Array] = []
    for step in x:
        state = _FUNCTIONS[name](step @ w[0].T + state @ r[0].T)
        steps.append(state)
    return np.stack(steps)[:, None]


def _difference(example: Example) -> Array:
    """The difference of the inputs in float64."""
    left, right = (array.astype(np.float64) for array in example.feeds.values())
    return left - right


EXAMPLES = (
    *RESIZE_EXAMPLES,
    Example(
        "max-unpool-output-shape",
        "MaxUnpool",
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"x": normal(1, 1, 2, 2), "places": np.array([[[[5, 7], [13, 15]]]])}
        | {"shape": np.array([1, 1, 5, 6])},
        _unpooled,
        ("shape",),
    ),
    Example(
        "squeeze-empty-axes",
        "Squeeze",
        {},
        {"x": normal(1, 3, 1), "axes": np.zeros(0, np.int64)},
        _unchanged,
        ("axes",),
        free={"x": (1, "n", 1)},
    ),
    Example(
        "slice-backwards-to-the-end",
        "Slice",
        {},
        {"x": normal(5, 3), "starts": np.array([3]), "ends": np.array([2**63 - 1])}
        | {"axes": np.array([0]), "steps": np.array([-1])},
        _no_rows,
        ("starts", "ends", "axes", "steps"),
        free={"x": ("n", 3)},
    ),
    Example(
        "slice-backwards-to-the-end",
        "Slice",
        {},
        {"x": normal(5, 3), "starts": np.array([-1, 0], np.int32)}
        | {"ends": np.array([2**31 - 1, 2**31 - 1], np.int32)}
        | {"axes": np.array([0, 1], np.int32), "steps": np.array([-2, 2], np.int32)},
        lambda example: _no_rows(example)[:, ::2],
        ("starts", "ends", "axes", "steps"),
    ),
    Example(
        "cast-packed-integers",
        "Cast",
        {"to": onnx.TensorProto.INT4},
        {"x": floats(-7.6, -2.5, -0.5, 0.49999997, 0.5, 1.4, 2.5, 6.7)},
        _cut,
        free={"x": ("n",)},
        widened=True,
    ),
    Example(
        "cast-packed-integers",
        "CastLike",
        {},
        {"x": floats(0.5, 2.5).astype(np.float16), "like": np.zeros(1, ml_dtypes.uint4)},
        _cut,
        ("like",),
        widened=True,
    ),
    Example(
        "pool-same-pads",
        "MaxPool",
        {"auto_pad": "SAME_UPPER", "kernel_shape": [3], "strides": [1], "dilations": [2]},
        {"x": normal(1, 1, 9)},
        _pooled,
        free={"x": (1, 1, "n")},
    ),
    Example(
        "pool-same-pads",
        "LpPool",
        {"auto_pad": "SAME_LOWER", "kernel_shape": [1], "strides": [5], "p": 1},
        {"x": np.abs(normal(1, 1, 9))},
        _pooled,
        free={"x": (1, 1, "n")},
    ),
    Example(
        "pool-large-kernel",
        "AveragePool",
        {"kernel_shape": [5], "strides": [3], "pads": [1, 0], "count_include_pad": 1},
        {"x": normal(1, 2, 3)},
        None,
    ),
    Example(
        "conv-transpose-same-short-kernel",
        "ConvTranspose",
        {"auto_pad": "SAME_UPPER", "strides": [4]},
        {"x": normal(1, 1, 3), "w": normal(1, 1, 2)},
        _spread,
        free={"x": (1, 1, "n")},
    ),
    Example(
        "affine-grid-one-pixel",
        "AffineGrid",
        {"align_corners": 1},
        {"theta": normal(2, 2, 3), "size": np.array([2, 1, 1, 3])},
        by_reference,
        ("size",),
        free={"theta": ("batch", 2, 3)},
    ),
    Example(
        "lstm-clip-cell",
        "LSTM",
        {"hidden_size": 3, "clip": 0.3},
        {
            **{"x": normal(5, 1, 2), "w": normal(1, 12, 2), "r": normal(1, 12, 3)},
            **{"b": None, "lengths": None, "h": None, "c": 2 * normal(1, 1, 3)},
        },
        _clipped_lstm,
        free={"x": ("steps", 1, 2)},
    ),
    *(
        Example(
            "recurrent-activation-defaults",
            "RNN",
            {"hidden_size": 3, "activations": [name]},
            {"x": normal(4, 2, 5), "w": normal(1, 3, 5), "r": normal(1, 3, 3) / 4},
            _recurrent,
            free={"x": ("steps", 2, 5)},
        )
        for name in _FUNCTIONS
    ),
    *(
        Example(
            "dft-half-spectrum",
            "DFT",
            {"inverse": 1, "onesided": 1},
            {"x": normal(2, bins, 2), "length": np.array(length), "axis": np.array(1)},
            _inverse_of_half,
            ("length", "axis"),
            free={"x": ("batch", bins, 2)},
        )
        for bins, length in ((4, 2), (9, 5), (3, 8), (4, 1), (13, 6), (5, 4), (4, 14))
    ),
    Example(
        "dft-half-spectrum",
        "DFT",
        {"inverse": 1, "onesided": 1, "axis": 1},
        {"x": normal(2, 4, 2), "length": np.array(3)},
        _inverse_of_half,
        ("length",),
        opset=17,
    ),
    Example(
        "attention-one-causal-query",
        "Attention",
        {"is_causal": 1},
        {"q": normal(2, 4, 1, 3), "k": normal(2, 2, 4, 3), "v": normal(2, 2, 4, 3)}
        | {"mask": normal(1, 7), "past_k": normal(2, 2, 3, 3), "past_v": normal(2, 2, 3, 3)},
        by_reference,
        outputs=3,
        opset=23,
        free={"k": (2, 2, "keys", 3), "v": (2, 2, "keys", 3), "mask": (1, "all")},
    ),
    Example(
        "function-named-as-operator",
        "Add",
        {},
        {"x": normal(2, 3), "w": normal(2, 3)},
        _difference,
        free={"x": ("rows", 3), "w": ("rows", 3)},
        function=helper.make_function(
            *("", "Add", ["a", "b"], ["c"]),
            [helper.make_node("Sub", ["a", "b"], ["c"])],
            [helper.make_opsetid("", 22)],
        ),
    ),
    *(
        Example(
            "function-opset",
            "OverRows",
            {"domain": "local"},
            {"x": normal(2, 3, 4)},
            by_the_text,
            opset=opset,
            free={"x": ("rows", 3, 4)},
            function=helper.make_function(
                *("local", "OverRows", ["a"], ["b"]),
                [helper.make_node("Softmax", ["a"], ["b"], axis=1)],
                [helper.make_opsetid("", own)],
            ),
        )
        for opset, own, by_the_text in ((18, 11, _softmax_of_rows), (12, 13, _softmax_of_axis))
    ),
    Example(
        "function-opset",
        "Rectified",
        {"domain": "local"},
        {"x": normal(2, 3, 3), "slope": np.array([0.5, 2, 3], np.float32)},
        _rectified_by_channel,
        opset=18,
        free={"x": ("rows", 3, 3)},
        function=helper.make_function(
            *("local", "Rectified", ["a", "slope"], ["b"]),
            [helper.make_node("PRelu", ["a", "slope"], ["b"])],
            [helper.make_opsetid("", 6)],
        ),
    ),
)
"""At least one for each rule."""
