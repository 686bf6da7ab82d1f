"""Damaged files: models, their external data, artifacts, schedules and constraints."""

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import onnx
from google.protobuf.message import Message

import compiler
from tests.forgery import Files, rehashed
from tests.fuzz.case import Case
from tests.fuzz.draw import Draw
from tests.fuzz.graphs import random_graph


def flip(draw: Draw, data: bytes) -> bytes:
    """One to four bytes changed."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(changed))
        changed[place] = draw.choice([changed[place] ^ 1 << draw.randrange(8), draw.randrange(256)])
    return bytes(changed)


def truncate(draw: Draw, data: bytes) -> bytes:
    """The beginning."""
    return data[: draw.randrange(len(data))]


def splice(draw: Draw, data: bytes) -> bytes:
    """A piece moved, repeated or left out."""
    a, b = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    b = min(b, a + 64)
    place = draw.randrange(len(data) + 1)
    return draw.choice([data[:a] + data[b:], data[:place] + data[a:b] + data[place:]])


BYTES: list[Callable[[Draw, bytes], bytes]] = [flip, flip, truncate, splice]


def messages(message: Message) -> list[Message]:
    """A protobuf message and all in it."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                found += messages(each)
    return found


_INTEGERS = [0, 1, -1, 2, 3, 7, 8, 9, 16, 77, 2**31 - 1, -(2**31), 100]
_WIDE = [*_INTEGERS, 2**40, 2**62, -(2**63)]
_TEXTS = ["", "x", "abc", "Relu", "../x", "/dev/zero", "-4", "99999999999999999999", "\u0000", "."]


def edit_field(draw: Draw, model: onnx.ModelProto) -> str:
    """A field of a random message set to another value, doubled or cleared."""
    message: Any = draw.choice(messages(model))
    fields = list(message.DESCRIPTOR.fields)
    present = [field for field, _ in message.ListFields()]
    field = draw.choice(present if present and draw.chance(0.7) else fields)
    if field in present and draw.chance(0.15):
        message.ClearField(field.name)
        return f"{field.full_name} cleared"
    if field.message_type is not None:
        return _edit_message(draw, message, field)
    value = _value(draw, field)
    try:
        if field.is_repeated:
            _edit_list(draw, getattr(message, field.name), value)
        else:
            setattr(message, field.name, value)
    except (ValueError, TypeError):  # an enumeration that is closed
        return ""
    return f"{field.full_name} = {value!r}"


def _edit_message(draw: Draw, message: Any, field: Any) -> str:
    if not field.is_repeated:
        getattr(message, field.name).SetInParent()
        return f"{field.full_name} present"
    values = getattr(message, field.name)
    if values and draw.chance(0.5):
        del values[draw.randrange(len(values))]
        return f"one of {field.full_name} dropped"
    if values:
        values.add().CopyFrom(draw.choice(list(values)))
    else:
        values.add()
    return f"one more of {field.full_name}"


def _edit_list(draw: Draw, values: Any, value: Any) -> None:
    if values and draw.chance(0.7):
        values[draw.randrange(len(values))] = value
    elif values and draw.chance(0.5):
        del values[-1]
    else:
        values.append(value)


def _value(draw: Draw, field: Any) -> Any:
    kinds = {
        field.CPPTYPE_INT32: _INTEGERS,
        field.CPPTYPE_INT64: _WIDE,
        field.CPPTYPE_ENUM: _INTEGERS,
    }
    if field.cpp_type in kinds:
        return draw.choice(kinds[field.cpp_type])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return draw.choice([0.0, -1.0, float("nan"), float("inf"), 1e38])
    if field.cpp_type == field.CPPTYPE_STRING:
        return draw.choice(_TEXTS)
    if field.cpp_type == field.CPPTYPE_BYTES:
        return draw.choice([b"", b"\xff\xfe", b"SAME_UPPER", bytes(64), b"magic"])
    return abs(draw.choice(_INTEGERS))


@cache
def _graph(seed: int) -> Case:
    while True:
        case = random_graph(seed, "cpu", 10)
        if case is not None:
            return case
        seed += 1


@cache
def _external(seed: int) -> tuple[bytes, bytes]:
    model = _graph(seed).proto
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        options: dict[str, Any] = {"location": "data.bin", "size_threshold": 0}
        write = cast(Any, onnx).save
        write(model, path, save_as_external_data=True, **options)
        data = path.with_name("data.bin")
        return path.read_bytes(), data.read_bytes() if data.exists() else b"\x00"


def damaged_model(seed: int, _: str) -> Case | None:
    """A model, embedded or with external data, with bytes or fields changed."""
    draw = Draw(seed)
    base = seed % 101
    model, files = _graph(base).model, Files()
    if draw.chance(0.3):
        model, data = _external(base)
        files = {"data.bin": draw.choice(BYTES)(draw, data) if draw.chance(0.2) else data}
    if draw.chance(0.45):
        model = draw.choice(BYTES)(draw, model)
        note = "bytes"
    else:
        proto = onnx.ModelProto.FromString(model)
        note = "; ".join(edit_field(draw, proto) for _ in range(draw.randint(1, 2)))
        model = proto.SerializeToString()
    return Case("models", seed, model, files=files, note=note)


@cache
def _artifact(seed: int) -> tuple[Case, Files]:
    for attempt in range(seed, seed + 50):
        case = _graph(attempt % 101).changed(kind="artifacts", pipeline=None)
        try:
            module = compiler.compile(case.model, threads=1)
        except compiler.FlowloomError:
            continue
        with tempfile.TemporaryDirectory() as folder:
            module.save(Path(folder) / "artifact")
            paths = [path for path in Path(folder).rglob("*") if path.is_file()]
            return case, {str(p.relative_to(folder)): p.read_bytes() for p in paths}
    raise AssertionError("no graph of fifty compiles")


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key in JSON."""
    found: list[tuple[Any, Any]] = []
    keys: list[Any] = list(cast(Any, value) if isinstance(value, dict) else range(len(value)))
    for key in keys:
        item: Any = cast(Any, value)[key]
        found.append((cast(Any, value), key))
        if isinstance(item, dict | list):
            found += places(item)
    return found


_JSON: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2,
    1.5,
    2**63,
    10**30,
    "",
    "x",
    [],
    {},
    [[]],
    float("nan"),
]


def edit_json(draw: Draw, text: bytes) -> bytes:
    """A value replaced, dropped or moved."""
    content = json.loads(text)
    for _ in range(draw.randint(1, 2)):
        found = places(content)
        if not found:
            break
        container, key = draw.choice(found)
        change = draw.random()
        if change < 0.2:
            del container[key]
        elif change < 0.5:
            other, place = draw.choice(found)
            if (place in other) if isinstance(other, dict) else place < len(other):
                container[key] = json.loads(json.dumps(other[place]))
        else:
            container[key] = json.loads(json.dumps(draw.choice(_JSON)))
    return json.dumps(content).encode()


def damaged_artifact(seed: int, _: str) -> Case | None:
    """An artifact with one file changed; hashes are redone half of the time."""
    draw = Draw(seed)
    case, files = _artifact(seed % 8)
    name = draw.choice(sorted(files))
    text = name.endswith(".json")
    changed = dict(files)
    if text and draw.chance(0.7):
        changed[name] = edit_json(draw, files[name])
    else:
        changed[name] = draw.choice(BYTES)(draw, files[name])
    code = not text
    if not code and draw.chance(0.6) and name != "artifact/manifest.json":
        changed = rehashed(changed)
    return case.changed(seed=seed, files=changed, note=name)


def damaged_schedule(seed: int, _: str) -> Case | None:
    """A schedule or constraints with JSON edited or bytes changed."""
    draw = Draw(seed)
    case, files = _artifact(seed % 8)
    text = files["artifact/schedule.json"]
    if draw.chance(0.4):
        names = [node for task in json.loads(text)["tasks"] for node in task.get("nodes", [])]
        tasks = {name: {"stream": draw.randint(0, 3)} for name in names[:3]}
        text = json.dumps({"format": "flowloom-constraints", "version": 1, "tasks": tasks}).encode()
    text = edit_json(draw, text) if draw.chance(0.8) else draw.choice(BYTES)(draw, text)
    return case.changed(kind="schedules", seed=seed, files={"schedule.json": text})
