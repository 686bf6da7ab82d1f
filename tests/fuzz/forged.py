"""Forged artifacts by field: one edit of a saved directory, all hashes of files made anew.

An edit of a file's JSON changes, drops, doubles or moves one value, or renames one in all files; an
edit of weights or code changes bytes or takes those of another file.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import numpy_helper

import compiler
from compiler.target.target import parse_target
from tests.forgery import Files, files_in, rehashed
from tests.fuzz.case import Case
from tests.fuzz.damage import BYTES, places
from tests.fuzz.draw import Draw

HEADER = '<ir_version: 10, opset_import: ["": 21]>'

STATIC = """
g (float[64, 48] x, float[64, 48] z, float[20, 2048] u, float[4, 48, 7] p)
  => (float[64, 48] y, float[20, 16] m, float[64, 48] q, float[4, 48, 7] r)
<float[48, 48] w, float[2048, 16] v>
{
  s = Softmax (x)
  c = MatMul (s, w)
  m = MatMul (u, v)
  y = Sub (x, c)
  q = Sub (x, z)
  r = Softmax <axis = 1> (p)
}
"""
"""Has kernels with several launches, workspaces, packed weights and two reads of one type."""

CONTROL = """
g (float[4, 8] x, bool c) => (float[4, 8] y) <float[8, 8] w>
{
  a = MatMul (x, w)
  b = If (c) <
    then_branch = t () => (float[4, 8] d) { d = Relu (a) },
    else_branch = e () => (float[4, 8] f) { f = Neg (a) }>
  y = Add (b, x)
}
"""

DYNAMIC = """
g (float[n, 32] x) => (float[m, 32] y) <float[32, 32] w, float[32] v, float[1] u>
{
  a = MatMul (x, w)
  s = MatMul (a, v)
  k = Greater (s, u)
  y = Compress <axis = 0> (a, k)
}
"""
"""Becomes a program: the number of rows of `y` depends on data."""


def model_of(text: str) -> onnx.ModelProto:
    """The model of a text, with random weights for the values that nothing computes."""
    model = onnx.parser.parse_model(f"{HEADER}\n{text}")
    random = np.random.default_rng(0)
    for info in model.graph.value_info:
        shape = [dimension.dim_value for dimension in info.type.tensor_type.shape.dim]
        array = random.standard_normal(shape).astype("f4")
        model.graph.initializer.append(numpy_helper.from_array(array, info.name))
    del model.graph.value_info[:]
    return model


def _saved(text: str, target: str, inputs: dict[str, Any] | None = None) -> Files:
    options: dict[str, Any] = {"budget": 0} if parse_target(target).backend == "cuda" else {}
    module = compiler.compile(model_of(text), target=target, **options)
    if inputs is not None:
        module.run(inputs)
    with tempfile.TemporaryDirectory() as folder:
        module.save(Path(folder) / "saved")
        return files_in(Path(folder) / "saved")


@cache
def originals(target: str) -> tuple[Files, ...]:
    """Saved directories of a target: artifacts, and a program where runs need no device."""
    made = [_saved(STATIC, target), _saved(CONTROL, target)]
    if parse_target(target).backend != "cuda":
        rows = np.random.default_rng(1).standard_normal((6, 32)).astype("f4")
        made.append(_saved(DYNAMIC, target, {"x": rows}))
    return tuple(made)


def _leaves(content: Any) -> list[tuple[Any, Any]]:
    """The containers and keys of all values that are not containers."""
    return [(c, key) for c, key in places(content) if not isinstance(c[key], dict | list)]


_NUMBERS = [0, 1, -1, 2, 3, 64, 2**31 - 1, 2**31, 2**32, 2**62, 2**63]


def _other_value(draw: Draw, value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice([value + 1, value - 1, 2 * value, -value, draw.choice(_NUMBERS)])
    if isinstance(value, float):
        return draw.choice([value * 2, float(np.nextafter(value, np.inf)), -1.0, float("nan")])
    if isinstance(value, str):
        place = draw.randrange(len(value) + 1)
        middle = draw.choice(["0", "x", "_1", ""])
        return value[:place] + middle + value[place + draw.randint(0, 1) :]
    return draw.choice([0, "", False])


_OTHER_TYPES: list[Any] = [None, True, -1, 1.5, "x", "", [], {}, [[]], float("nan"), 10**30]


def change(draw: Draw, content: Any) -> str:
    """A value that becomes another one of its type."""
    container, key = draw.choice(_leaves(content))
    container[key] = _other_value(draw, container[key])
    return f"{key} = {container[key]!r}"


def replace(draw: Draw, content: Any) -> str:
    """A value, of whatever type, that becomes one of another type."""
    container, key = draw.choice(places(content))
    container[key] = json.loads(json.dumps(draw.choice(_OTHER_TYPES)))
    return f"{key} = {container[key]!r}"


def drop(draw: Draw, content: Any) -> str:
    """A value that is missing."""
    container, key = draw.choice(places(content))
    del container[key]
    return f"without {key}"


def move(draw: Draw, content: Any) -> str:
    """A value of another place, of the same type if there is one."""
    container, key = draw.choice(places(content))
    value = container[key]
    alike = [c[k] for c, k in places(content) if type(c[k]) is type(value) and c[k] != value]
    container[key] = json.loads(json.dumps(draw.choice(alike or [value])))
    return f"{key} = {str(container[key])[:60]}"


def reorder(draw: Draw, content: Any) -> str:
    """A list with two values exchanged, one doubled or one left out."""
    lists = [c[key] for c, key in places(content) if isinstance(c[key], list) and c[key]]
    lists += [content] if isinstance(content, list) else []
    if not lists:
        return change(draw, content)
    values = cast(list[Any], draw.choice(lists))
    i, j = (draw.randrange(len(values)) for _ in range(2))
    way = draw.choice(["exchanged", "doubled", "left out", "reversed"])
    if way == "exchanged":
        values[i], values[j] = values[j], values[i]
    elif way == "doubled":
        values.insert(j, values[i])
    elif way == "reversed":
        values.reverse()
    else:
        del values[i]
    return f"{str(values)[:60]} {way}"


def add(draw: Draw, content: Any) -> str:
    """An object with one key more."""
    objects = [c[key] for c, key in places(content) if isinstance(c[key], dict)]
    objects += [content] if isinstance(content, dict) else []
    draw.choice(objects)["more"] = 1
    return "more = 1"


_EDITS: list[Callable[[Draw, Any], str]] = [
    *(change, change, change),
    *(replace, drop, move, reorder, add),
]


def _edit_json(draw: Draw, files: Files, name: str) -> str:
    content = json.loads(files[name])
    note = draw.choice(_EDITS)(draw, content)
    files[name] = json.dumps(content).encode()
    return note


def _edit_everywhere(draw: Draw, files: Files, name: str) -> str:
    """A value of one file that changes alike in all JSON files of its artifact."""
    container, key = draw.choice(_leaves(json.loads(files[name])))
    old, new = container[key], _other_value(draw, container[key])
    segment = re.match(r"segments/[^/]+/|", name)
    folder = segment[0] if segment else ""
    for other in [other for other in files if other.startswith(folder) and other.endswith("json")]:
        content = json.loads(files[other])
        for holder, place in _leaves(content):
            if holder[place] == old and type(holder[place]) is type(old):
                holder[place] = new
        files[other] = json.dumps(content).encode()
    return f"{old!r} = {new!r} everywhere"


def _edit_bytes(draw: Draw, files: Files, name: str) -> str:
    alike = [n for n in files if n.endswith(name.rpartition(".")[2]) and files[n] != files[name]]
    if alike and draw.chance(0.3):
        other = draw.choice(alike)
        files[name], files[other] = files[other], files[name]
        return f"exchanged with {other}"
    way = draw.choice(BYTES)
    files[name] = way(draw, files[name])
    return way.__name__


def random_forgery(seed: int, target: str) -> Case:
    """A saved directory with one edit; its files are under `forged/`, as they were `original/`."""
    draw = Draw(seed)
    files = draw.choice(originals(target))
    changed, name = dict(files), draw.choice(sorted(files))
    if draw.chance(0.6):  # most fields are in a few files
        name = draw.choice([name for name in files if name.endswith(".json")])
    listed = True
    if not name.endswith(".json"):
        note = _edit_bytes(draw, changed, name)
    elif draw.chance(0.15):
        note = _edit_everywhere(draw, changed, name)
    else:
        note = _edit_json(draw, changed, name)
        listed = not name.endswith(("manifest.json", "program.json")) or draw.chance(0.5)
    changed = rehashed(changed, listed)
    both = dict(_below("original", files)) | dict(_below("forged", changed))
    return Case("forged", seed, files=both, target=target, note=f"{name}: {note}")


def _below(folder: str, files: Files) -> Iterator[tuple[str, bytes]]:
    return ((f"{folder}/{name}", content) for name, content in files.items())
