"""Exports the models of this folder with the exporters that people use.

    pip install torch transformers onnx onnxscript onnxruntime scikit-learn skl2onnx pandas
    python -m examples.exports.make [NAME...]

The weights are random. The tests read the files and need none of these packages.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from examples.zoo.export import lighten

HERE = Path(__file__).parent
LEGACY: dict[str, Any] = {"dynamo": False, "opset_version": 17}


SMALL: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
"""The configuration of a small BERT."""


def bert(path: Path, dynamo: bool, **sizes: int) -> None:
    """A BERT of any batch and length."""
    from transformers import BertConfig, BertModel

    config = BertConfig(attn_implementation="eager", **sizes)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = BertModel(config)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            found = self.model(input_ids=input_ids, attention_mask=attention_mask)
            return found.last_hidden_state, found.pooler_output

    example = torch.randint(0, 100, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
    names: dict[str, Any] = {
        "input_names": ["input_ids", "attention_mask"],
        "output_names": ["hidden", "pooled"],
    }
    axes = {0: "batch", 1: "length"}
    if dynamo:
        batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", max=64)
        shapes = {name: {0: batch, 1: length} for name in names["input_names"]}
        options: dict[str, Any] = {"dynamic_shapes": shapes, "dynamo": True, "external_data": False}
    else:
        dynamic = {"input_ids": axes, "attention_mask": axes, "hidden": axes, "pooled": {0: "b"}}
        options = {"dynamic_axes": dynamic, **LEGACY}
    torch.onnx.export(Encoder().eval(), example, path, **names, **options)
    _strip(path)


def _strip(path: Path) -> None:
    """Remove stack traces."""
    model = onnx.load(path)
    parts = [model, model.graph, *model.graph.node, *model.graph.value_info]
    for part in [*parts, *model.graph.input, *model.graph.output]:
        del part.metadata_props[:]
        part.doc_string = ""
    onnx.save(model, path)


class Recogniser(nn.Module):
    """Greedy decoding of speech: a loop over the frames that an encoder leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(20, 32, 5, stride=2, padding=2)
        self.embedding = nn.Embedding(30, 32)
        self.input, self.hidden = nn.Linear(32, 32), nn.Linear(32, 32)
        self.join = nn.Linear(64, 30)

    def forward(self, features: Any) -> Any:
        frames = torch.relu(self.encoder(features)).transpose(1, 2)[0]
        state = torch.zeros(1, 32)
        token = torch.zeros(1, dtype=torch.int64)
        tokens = torch.zeros(1, dtype=torch.int64)
        for step in range(frames.size(0)):
            state = torch.tanh(self.input(self.embedding(token)) + self.hidden(state))
            scores = self.join(torch.cat([frames[step].unsqueeze(0), state], 1))
            best = scores.argmax(1)
            token = torch.where(best > 0, best, token)
            tokens = torch.cat([tokens, best])
        return tokens


class SpeechDetector(nn.Module):
    """An LSTM after an If on the sampling rate."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = nn.Linear(16, 24), nn.Linear(32, 24)
        self.lstm, self.head = nn.LSTM(24, 16), nn.Linear(16, 1)

    def forward(self, x: Any, state: Any, rate: Any) -> Any:
        if bool(rate == 16):
            y = self.high(x.reshape(x.size(0), 1, 32))
        else:
            y = self.low(x.reshape(x.size(0) * 2, 1, 16))
        out, (h, c) = self.lstm(y, (state[0:1], state[1:2]))
        return torch.sigmoid(self.head(out)).mean(0), torch.cat([h, c])


class Detector(nn.Module):
    """Boxes and scores of a grid of anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU()),
            *(nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU()),
            *(nn.Conv2d(16, 24, 3, 2, 1), nn.ReLU()),
        )
        self.head = nn.Conv2d(24, 7, 1)

    def forward(self, image: Any) -> Any:
        y = self.head(self.body(image)).flatten(2).transpose(1, 2)
        centre, size, scores = y.split([2, 2, 3], -1)
        index = torch.arange(y.size(1)).reshape(1, -1, 1)
        boxes = torch.cat([centre.sigmoid() * 10 + index, size.exp() * 3], -1)
        return boxes, scores.sigmoid().transpose(1, 2)


def speech() -> None:
    """The recogniser, whose loop runs for each frame."""
    torch.onnx.export(
        torch.jit.script(Recogniser().eval()),
        (torch.randn(1, 20, 40),),
        HERE / "speech.onnx",
        input_names=["features"],
        output_names=["tokens"],
        dynamic_axes={"features": {2: "frames"}, "tokens": {0: "n"}},
        **LEGACY,
    )


def lstm_if() -> None:
    """The detector of speech, whose branch a run chooses."""
    torch.onnx.export(
        torch.jit.script(SpeechDetector().eval()),
        (torch.randn(7, 32), torch.zeros(2, 1, 16), torch.tensor(16)),
        HERE / "lstm_if.onnx",
        input_names=["x", "state", "rate"],
        output_names=["speech", "next"],
        dynamic_axes={"x": {0: "frames"}},
        **LEGACY,
    )


def detector() -> None:
    """The detector with non-maximum suppression, as deployed ones have."""
    path = HERE / "detector.onnx"
    torch.onnx.export(
        Detector().eval(),
        (torch.randn(1, 3, 64, 64),),
        path,
        input_names=["image"],
        output_names=["boxes", "scores"],
        dynamic_axes={"image": {0: "batch", 2: "height", 3: "width"}},
        **LEGACY,
    )
    model = onnx.load(path)
    constants = {
        "most": np.array([20]),
        "overlap": np.array([0.45], "f4"),
        "least": np.array([0.3], "f4"),
        "columns": np.array([0, 2]),
    }
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    limits = ["boxes", "scores", "most", "overlap", "least"]
    node = helper.make_node
    model.graph.node.extend(
        [
            node("NonMaxSuppression", limits, ["selected"], name="nms", center_point_box=1),
            node("Gather", ["selected", "columns"], ["where"], axis=1),
            node("GatherND", ["boxes", "where"], ["kept"]),
            node("Transpose", ["scores"], ["by_box"], perm=[0, 2, 1]),
            node("GatherND", ["by_box", "where"], ["kept_scores"]),
        ]
    )
    del model.graph.output[:]
    outputs = (
        ("selected", TensorProto.INT64, 3),
        ("kept", TensorProto.FLOAT, 4),
        ("kept_scores", TensorProto.FLOAT, 3),
    )
    model.graph.output.extend(
        helper.make_tensor_value_info(name, dtype, ["k", size]) for name, dtype, size in outputs
    )
    onnx.checker.check_model(model)
    onnx.save(model, path)


def quantised() -> None:
    """Models quantised by onnxruntime, statically in both forms, and dynamically."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )

    network = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, 1, 1, groups=4), nn.ReLU()),
        *(nn.Conv2d(16, 32, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(32, 10),
    )
    plain = HERE / "plain.onnx"
    names = {"input_names": ["x"], "output_names": ["y"]}
    torch.onnx.export(network.eval(), (torch.randn(1, 3, 32, 32),), plain, **names, **LEGACY)

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            draw = np.random.default_rng(0).standard_normal
            self.images = iter([{"x": draw((1, 3, 32, 32)).astype("f4")} for _ in range(8)])

        def get_next(self) -> Any:
            return next(self.images, None)

    quantize_static(plain, HERE / "cnn_qdq.onnx", Images(), per_channel=True)
    form = QuantFormat.QOperator
    quantize_static(plain, HERE / "cnn_qoperator.onnx", Images(), quant_format=form)

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(16, 24), nn.Linear(24, 8)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0])

    axes = {"dynamic_axes": {"x": {0: "steps"}}}
    torch.onnx.export(
        Recurrent().eval(), (torch.randn(5, 1, 16),), plain, **names, **axes, **LEGACY
    )
    quantize_dynamic(plain, HERE / "lstm_dynamic.onnx", weight_type=QuantType.QInt8)
    bert(plain, dynamo=False, **SMALL)
    quantize_dynamic(plain, HERE / "bert_dynamic.onnx", weight_type=QuantType.QInt8)
    plain.unlink()


def sklearn() -> None:
    """A pipeline of scikit-learn on numbers and strings."""
    import pandas
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    generator = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "age": generator.random(200).astype("f4"),
            "size": generator.random(200).astype("f4"),
            "kind": generator.choice(["red", "green", "blue"], 200),
        }
    )
    label = table.age + table.kind.map({"red": 0, "green": 0.5, "blue": 1}) > 1
    pipeline = make_pipeline(
        make_column_transformer(
            (StandardScaler(), ["age", "size"]),
            (OneHotEncoder(handle_unknown="ignore"), ["kind"]),
        ),
        RandomForestClassifier(10, max_depth=4, random_state=0),
    ).fit(table, label.astype(int))
    numbers = [(name, FloatTensorType([None, 1])) for name in ("age", "size")]
    types = [*numbers, ("kind", StringTensorType([None, 1]))]
    model = to_onnx(pipeline, initial_types=types, options={id(pipeline): {"zipmap": False}})
    onnx.save(model, HERE / "pipeline.onnx")


def berts() -> None:
    """BERT by both of PyTorch's exporters."""
    bert(HERE / "bert.onnx", dynamo=False, **SMALL)
    bert(HERE / "bert_dynamo.onnx", dynamo=True, **SMALL)


def bert_base() -> None:
    """BERT-base without its weights, as the networks of `examples.zoo`."""
    path = HERE / "bert_base.light.onnx"
    bert(path, dynamo=False)
    model = onnx.load(path)
    lighten(model)
    onnx.save(model, path)


MAKERS = {
    "speech": speech,
    "lstm_if": lstm_if,
    "detector": detector,
    "quantised": quantised,
    "pipeline": sklearn,
    "bert": berts,
    "bert_base": bert_base,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or MAKERS:
        torch.manual_seed(0)
        MAKERS[name]()
