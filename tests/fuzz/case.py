"""One case of the search: everything that it takes to run it again, as JSON."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from google.protobuf import json_format
from numpy.typing import NDArray
from onnx import numpy_helper

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A model with its inputs, or files, and how it is compiled.

    `kind` names the check (`tests.fuzz.checks`). `files` are bytes by relative path: external
    data, an artifact, or the file of a schedule.
    """

    kind: str
    seed: int
    model: bytes = b""
    feeds: dict[str, Array] = field(default_factory=dict[str, Array])
    later: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The inputs of later runs of the same compiled model."""
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    target: str = "cpu"
    pipeline: str | None = None
    threads: int = 1
    guard: str = ""
    """The side of every operand that the first run guards (`tests.guard`): before or after."""
    input_shapes: dict[str, list[int]] | None = None
    semantics: str = "onnx"
    """Whose results it has, as `compiler.compile` takes it."""
    check_indices: bool = False
    """Whether indices are checked as it runs, which changes no result of valid ones."""
    note: str = ""
    """What was broken or drawn, in words."""

    @property
    def proto(self) -> onnx.ModelProto:
        """The model; raises DecodeError where its bytes are damaged."""
        return onnx.ModelProto.FromString(self.model)

    def changed(self, **fields: Any) -> "Case":
        """A copy with other fields."""
        return replace(self, **fields)


@dataclass(frozen=True)
class Failure:
    """What went wrong: `key` stays the same while a case shrinks, `message` is for people."""

    key: str
    message: str


def _model_json(model: bytes) -> Any:
    """A model as readable JSON, or its bytes where JSON would not give them back."""
    try:
        proto = onnx.ModelProto.FromString(model)
        text = json_format.MessageToDict(proto)
        if json_format.ParseDict(text, onnx.ModelProto()).SerializeToString() == model:
            return text
    except Exception:  # a damaged model fails in ways that protobuf does not document
        pass
    return b64encode(model).decode()


def _model_bytes(model: Any) -> bytes:
    if isinstance(model, str):
        return b64decode(model)
    return json_format.ParseDict(model, onnx.ModelProto()).SerializeToString()


def _feeds_json(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors by name, lists of them where an input is a sequence."""
    return {name: _value_json(value) for name, value in feeds.items()}


def _value_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_value_json(item) for item in cast(list[Array], value)]
    return json_format.MessageToDict(numpy_helper.from_array(np.asarray(value)))


def _feeds_of(feeds: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value_of(value) for name, value in feeds.items()}


def _value_of(value: Any) -> Any:
    if isinstance(value, list):
        return [_value_of(item) for item in cast(list[Any], value)]
    return numpy_helper.to_array(json_format.ParseDict(value, onnx.TensorProto()))


def save(case: Case, failure: Failure, path: Path) -> None:
    """Write a case, and why it is kept, as JSON."""
    content = asdict(case)
    content["reason"] = asdict(failure)
    content["model"] = _model_json(case.model)
    content["feeds"] = _feeds_json(case.feeds)
    content["later"] = [*map(_feeds_json, case.later)]
    content["files"] = {name: b64encode(data).decode() for name, data in case.files.items()}
    path.write_text(json.dumps(content, indent=1) + "\n")


def load(path: Path) -> Case:
    """A case as it was saved."""
    content = json.loads(path.read_text())
    del content["reason"]
    content["model"] = _model_bytes(content["model"])
    content["feeds"] = _feeds_of(content["feeds"])
    content["later"] = [*map(_feeds_of, content.get("later", []))]
    content["files"] = {name: b64decode(data) for name, data in content["files"].items()}
    return Case(**content)
