"""The time of a run of a small detector whose boxes data decide: Flowloom's one schedule, its
segments with numpy in between, and onnxruntime, in turns. Of one thread it is the time on a core,
which others' work changes little.

`python benchmarks/dynamic/detector.py [--threads N] [--runs N]`. Images are such that no box stays,
one or a few, or hundreds; another number of boxes comes with each run.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import compiler
from compiler.frontend.rules.measured import MEASURING

SIZE, CLASSES, ANCHORS = 160, 8, 3
"""Sides of an image, classes, and boxes of each place of the last map."""

SHARES = (0.0, 0.002, 0.02, 0.2)
"""Parts of the boxes whose scores exceed the threshold."""


class Net:
    """A model's nodes and weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def weight(self, name: str, array: np.ndarray) -> str:
        """A constant of the model."""
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """A node."""
        self.nodes.append(helper.make_node(op_type, inputs, [output], **attributes))
        return output

    def conv(self, source: str, channels: int, filters: int, name: str, stride: int = 1) -> str:
        """A convolution of 3x3 with a bias and a Relu."""
        shape = (filters, channels, 3, 3)
        scale = np.sqrt(2 / (9 * channels))
        weight = self.weight(f"{name}.w", (self.random.standard_normal(shape) * scale).astype("f4"))
        bias = self.weight(f"{name}.b", np.zeros(filters, "f4"))
        strides = [stride, stride]
        out = self.add("Conv", [source, weight, bias], f"{name}.c", strides=strides, pads=[1] * 4)
        return self.add("Relu", [out], name)


def detector() -> onnx.ModelProto:
    """Convolutions, heads of boxes and scores, NonMaxSuppression, and the boxes that stay."""
    net = Net()
    x, channels = "image", 3
    for level, filters in enumerate((16, 32, 64, 64)):
        x = net.conv(x, channels, filters, f"down{level}", stride=2)
        x = net.conv(x, filters, filters, f"same{level}")
        channels = filters
    boxes = net.conv(x, channels, 4 * ANCHORS, "box_head")
    turned = net.add("Transpose", [boxes], "box_rows", perm=[0, 2, 3, 1])
    boxes = net.add("Reshape", [turned, net.weight("rows", np.array([1, -1, 4]))], "boxes_all")
    scores = net.conv(x, channels, CLASSES * ANCHORS, "score_head")
    turned = net.add("Transpose", [scores], "score_rows", perm=[0, 2, 3, 1])
    shape = net.weight("score_shape", np.array([1, -1, CLASSES]))
    rows = net.add("Reshape", [turned, shape], "scores_all")
    added = net.add("Add", [net.add("Tanh", [rows], "squashed"), "offsets"], "scores_moved")
    scores = net.add("Transpose", [added], "scores_by_class", perm=[0, 2, 1])
    limits = [
        net.weight("limit", np.array(100)),
        net.weight("overlap", np.array(0.5, "f4")),
        net.weight("threshold", np.array(1.5, "f4")),
    ]
    kept = net.add("NonMaxSuppression", [boxes, scores, *limits], "kept")
    at = net.add("Gather", [kept, net.weight("columns", np.array([0, 2]))], "at", axis=1)
    net.add("GatherND", [boxes, at], "chosen")
    net.add("GatherND", [scores, kept], "confidence")
    places = (SIZE // 16) ** 2 * ANCHORS
    value = helper.make_tensor_value_info
    inputs = [
        value("image", onnx.TensorProto.FLOAT, [1, 3, SIZE, SIZE]),
        value("offsets", onnx.TensorProto.FLOAT, [1, places, CLASSES]),
    ]
    outputs = [
        value("kept", onnx.TensorProto.INT64, ["m", 3]),
        value("chosen", onnx.TensorProto.FLOAT, ["m", 4]),
        value("confidence", onnx.TensorProto.FLOAT, ["m"]),
    ]
    graph = helper.make_graph(net.nodes, "detector", inputs, outputs, net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def images(share: float, count: int) -> list[dict[str, np.ndarray]]:
    """Inputs by which about a part of the boxes are candidates, another number in each."""
    draw = np.random.default_rng(int(share * 1000))
    places = (SIZE // 16) ** 2 * ANCHORS
    made: list[dict[str, np.ndarray]] = []
    for _ in range(count):
        chosen = draw.random((1, places, CLASSES)) < share * draw.uniform(0.5, 1.5)
        noise = draw.random((1, places, CLASSES)) / 8
        offsets = np.where(chosen, 2 + noise, noise).astype("f4")
        image = draw.standard_normal((1, 3, SIZE, SIZE)).astype("f4")
        made.append({"image": image, "offsets": offsets})
    return made


def median_times(
    runners: Mapping[str, Callable[[dict[str, np.ndarray]], Any]],
    feeds: Sequence[dict[str, np.ndarray]],
    clock: Callable[[], float],
) -> dict[str, float]:
    """The median of each runner's times in ms, in turns over the same inputs."""
    times: dict[str, list[float]] = {name: [] for name in runners}
    for inputs in feeds:
        for name, run in runners.items():
            start = clock()
            run(inputs)
            times[name].append(1e3 * (clock() - start))
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    """Print a row for each share of candidates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=30)
    arguments = parser.parse_args()
    clock = time.thread_time if arguments.threads == 1 else time.perf_counter
    model = detector()
    one = compiler.compile(model, threads=arguments.threads)
    with patch.dict(MEASURING, clear=True):
        segments = compiler.compile(model, threads=arguments.threads)
        segments.run(images(0.02, 1)[0])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    runners = {
        "one schedule": one.run,
        "segments": segments.run,
        "onnxruntime": lambda inputs: session.run(None, inputs),
    }
    print(f"{'candidates':>12} {'boxes':>6}", *(f"{name:>14}" for name in runners))
    for share in SHARES:
        feeds = images(share, arguments.runs)
        for run in runners.values():
            run(feeds[0])
        boxes = statistics.median(len(one.run(inputs)["kept"]) for inputs in feeds)
        with patch.dict(MEASURING, clear=True):
            times = median_times(runners, feeds, clock)
        print(f"{share:>12} {boxes:>6.0f}", *(f"{times[name]:>11.3f} ms" for name in runners))


if __name__ == "__main__":
    main()
