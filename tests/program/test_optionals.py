"""Operators of optionals and sequences, empty ones too, as onnxruntime has them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import FlowloomError
from compiler.program.model import DynamicModule
from tests.program.checks import assert_equal, reference

ROW = np.array([1.5, -2.0], np.float32)
LOOP = "Loop <body = b (int64 i, bool c, {0} p) => (bool d, {0} q) {{ d = Identity(c) {1} }}>"

GRAPHS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "get": (
        "main (optional(float[n]) x) => (float[m] y) { y = OptionalGetElement(x) }",
        [{"x": ROW}, {"x": None}],
    ),
    "get and ask": (
        "main (optional(float[n]) x) => (bool h)"
        " { g = OptionalGetElement(x) h = OptionalHasElement(g) }",
        [{"x": ROW}, {"x": None}],
    ),
    "get as a bound": (
        "main (float[n] x, optional(float) o) => (float[n] y)"
        " { g = OptionalGetElement(o) y = Clip(x, g) }",
        [{"x": ROW, "o": np.array(0, np.float32)}, {"x": ROW, "o": None}],
    ),
    "identity": (
        "main (optional(float[n]) x) => (optional(float[n]) y, bool h)"
        " { y = Identity(x) h = OptionalHasElement(y) }",
        [{"x": ROW}, {"x": None}],
    ),
    "identity of sequences": (
        "main (optional(seq(float[n])) x) => (optional(seq(float[n])) y) { y = Identity(x) }",
        [{"x": [ROW]}, {"x": []}, {"x": None}],
    ),
    "made empty": (
        "main (float[n] x) => (bool h)"
        " { o = Optional <type = float[n]> () i = Identity(o) h = OptionalHasElement(i) }",
        [{"x": ROW}],
    ),
    "asked without an input": (
        "main (float[n] x) => (bool h, bool g)"
        " { h = OptionalHasElement() g = OptionalHasElement(x) }",
        [{"x": ROW}],
    ),
    "a branch": (
        "main (optional(float[n]) x, bool b) => (bool h) { i = If (b) <"
        "then_branch = t () => (optional(float[n]) p) { p = Identity(x) },"
        "else_branch = e () => (optional(float[n]) q) { q = Optional <type = float[n]> () }>"
        " h = OptionalHasElement(i) }",
        [{"x": x, "b": np.array(b)} for x in (ROW, None) for b in (True, False)],
    ),
    "carried": (
        "main (optional(float[n]) x, int64 k, float[n] z) => (optional(float[n]) y)"
        f" {{ y = {LOOP.format('optional(float[n])', 'q = Identity(p)')} (k, '', x) }}",
        [{"x": x, "k": np.array(k), "z": ROW} for x in (ROW, None) for k in (0, 2)],
    ),
    "carried sequences of integers": (
        "main (int64[n] x, int64 k, int32 at) => (seq(int64[n]) y)"
        " { e = SequenceEmpty <dtype = 7> ()"
        f" z = {LOOP.format('seq(int64[n])', 'q = SequenceInsert(p, x, at)')} (k, '', e)"
        " y = SequenceInsert(z, x, at) }",
        [{"x": np.array([7]), "k": np.array(k), "at": np.array(0, np.int32)} for k in (0, 1, 3)],
    ),
    "positions": (
        "main (seq(float[n]) x, int64 k) => (float[m] y, seq(float[n]) z)"
        " { y = SequenceAt(x, k) z = SequenceErase(x, k) }",
        [{"x": [ROW, ROW[:1]], "k": np.array(k)} for k in range(-3, 4)]
        + [{"x": [], "k": np.array(0)}],
    ),
    "insertions": (
        "main (seq(float[n]) x, float[m] v, int64 k) => (seq(float[n]) y)"
        " { y = SequenceInsert(x, v, k) }",
        [{"x": [ROW, ROW], "v": ROW[:1], "k": np.array(k)} for k in range(-4, 5)],
    ),
    "insertion of another type": (
        "main (seq(float[n]) x, int64[m] v) => (seq(float[n]) y) { y = SequenceInsert(x, v) }",
        [{"x": x, "v": np.array([1])} for x in ([ROW], [])],
    ),
    "concatenation": (
        "main (seq(float[n]) x) => (float[m] y) { y = ConcatFromSequence <axis = 0> (x) }",
        [{"x": [ROW, ROW[:1]]}, {"x": []}],
    ),
    "parts": (
        "main (float[n] x, int64[k] s) => (seq(float[m]) y)"
        " { y = SplitToSequence <axis = 0> (x, s) }",
        [{"x": ROW, "s": np.array(s, np.int64)} for s in ([2], [1, 1], [0, 2], [1], [3], [-1, 3])],
    ),
    "a map over nothing": (
        "main (seq(float[n]) x, int64[m] v, int32 at) => (seq(int64[m]) y) { r = SequenceMap <"
        "body = g (float[n] p) => (int64[m] o) { o = Shape(p) }> (x)"
        " y = SequenceInsert(r, v, at) }",
        [{"x": x, "v": np.array([1]), "at": np.array(0, np.int32)} for x in ([ROW], [])],
    ),
    "rows that are sequences": (
        "main (float[n] x, int64 k) => (float[a, b] y) { z, y = Loop <body = b (int64 i, bool c,"
        " float[n] p) => (bool d, float[n] q, seq(float[n]) r)"
        " { d = Identity(c) q = Identity(p) r = SequenceConstruct(p) }> (k, '', x) }",
        [{"x": ROW, "k": np.array(2)}, {"x": ROW, "k": np.array(0)}],
    ),
}
"""Graphs in ONNX's text form, and inputs of runs; `''` is an input that is left out."""


def _outputs(module: DynamicModule, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The outputs of a run; None for one that is refused."""
    try:
        return module.run(inputs)
    except FlowloomError as error:
        message = str(error)
    assert "NoneType" not in message
    return None


def _reference(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return reference(model, inputs)
    except Exception:  # onnxruntime's errors have no base of their own
        return None


@pytest.mark.parametrize("name", GRAPHS)
def test_runs_are_those_of_onnxruntime_and_refused_alike(name: str):
    text, runs = GRAPHS[name]
    header = '<ir_version: 10, opset_import: ["": 18]>\n'
    model = onnx.parser.parse_model(header + text.replace("''", '""'))
    module = compiler.compile(model, budget=0)
    assert isinstance(module, DynamicModule)
    for inputs in runs:
        expected = _reference(model, inputs)
        outputs = _outputs(module, inputs)
        if expected is None or outputs is None:
            assert expected is outputs, inputs
            continue
        for key, value in expected.items():
            if value is None:
                assert outputs[key] is None
            else:
                assert_equal(outputs[key], value)


def test_an_empty_optional_is_named():
    header = '<ir_version: 10, opset_import: ["": 18]>\n'
    text = "main (optional(float[n]) x) => (float[m] y) { y = OptionalGetElement(x) }"
    module = compiler.compile(onnx.parser.parse_model(header + text), budget=0)
    with pytest.raises(FlowloomError, match=r"OptionalGetElement 'y' .* the optional is empty"):
        module.run({"x": None})
