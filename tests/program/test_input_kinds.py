"""Inputs of every kind are held against their declared types, by modules and by sessions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import InvalidArgument, ShapeError
from compiler.program.model import DynamicModule
from tests.program.checks import check, compiled, model_of, reference

RIGHT: dict[str, Any] = {
    "float[n,3]": np.ones((2, 3), np.float32),
    "int64[n,3]": np.ones((2, 3), np.int64),
    "bfloat16[n,3]": np.ones((2, 3), "float32").astype("bfloat16"),
    "string[n,3]": np.array([["a", "b", "é"]], object),
}
"""A value of each type of a tensor with a fixed extent."""

WRAPPED: dict[str, Callable[[Any], Any]] = {
    "{}": lambda value: value,
    "seq({})": lambda value: [value, value],
    "optional({})": lambda value: value,
    "optional(seq({}))": lambda value: [value],
}
"""Each kind of an input, and how it holds a tensor."""

WRONG: dict[str, Any] = {
    "dtype": np.ones((2, 3), np.uint16),
    "text": np.array([["a", "b", "c"]]),
    "bytes": np.array([[b"a", b"b", b"c"]]),
    "objects": np.array([["a", None, 3]], object),
    "bytes as objects": np.array([["a", b"b", "c"]], object),
    "rank": np.ones(3, np.float32),
    "extent": np.ones((2, 4), np.float32),
    "class": object(),
    "dictionary": {"a": 1},
    "text alone": "abc",
}
"""What is wrong with a tensor; those of rank and extent get the declared dtype."""


def _module(kind: str) -> DynamicModule:
    """A program that passes an input of a kind through."""
    return _program(_model(kind))


def _program(model: onnx.ModelProto) -> DynamicModule:
    module = compiler.compile(model, budget=0)
    assert isinstance(module, DynamicModule)
    return module


def _model(kind: str) -> onnx.ModelProto:
    return model_of(f"main ({kind} x) => ({kind} y) {{ y = Identity(x) }}")


def _wrong(tensor: str, name: str) -> Any:
    value = WRONG[name]
    if name in ("rank", "extent"):
        return np.resize(RIGHT[tensor], value.shape)
    return value


@pytest.mark.parametrize("tensor", RIGHT)
@pytest.mark.parametrize("kind", WRAPPED)
def test_wrong_values_are_refused(kind: str, tensor: str):
    model = _model(kind.format(tensor))
    module = _program(model)
    session = compiler.InferenceSession(model)
    hold = WRAPPED[kind]
    module.run({"x": hold(RIGHT[tensor])})
    session.run(None, {"x": hold(RIGHT[tensor])})
    for name in WRONG:
        if name == "text" and tensor.startswith("string"):
            continue
        value = hold(_wrong(tensor, name))
        message = "the input '?x'? .*(was given|pass a|, and the model)"
        with pytest.raises(ShapeError, match=message):
            module.run({"x": value})
        with pytest.raises(InvalidArgument, match=message):
            session.run(None, {"x": value})


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (
            "seq(float[n])",
            None,
            r"the input x sequence\(float32\[n\]\) was given None: pass a list",
        ),
        ("seq(float[n])", np.ones(3, "f"), r"was given float32\[3\]: pass a list"),
        ("seq(float[n])", [np.ones(3, "f"), None], r"item 1 of the input x .* was given None"),
        ("seq(float[n])", [np.ones(3, "f"), np.ones(3)], r"item 1 of .* was given float64\[3\]"),
        ("seq(float[n,n])", [np.ones((2, 3), "f")], "the dimension 'n' is 3 .* and 2"),
        ("optional(seq(float[n]))", [None], r"item 0 of the input x optional\(sequence.* None"),
        ("optional(float[3])", np.ones(2, "f"), r"dimension 0 of the input x .* the size 2"),
        ("string[n]", np.array([b"a"]), r"given elements of bytes: pass str \(bytes.decode makes"),
        ("string[n]", np.array([1], object), r"x str_\[n\] was given elements of int: pass str$"),
    ],
)
def test_errors_say_what_is_expected_and_what_came(kind: str, value: Any, message: str):
    with pytest.raises(ShapeError, match=message):
        _module(kind).run({"x": value})


def test_items_of_a_sequence_have_sizes_of_their_own():
    model = _model("seq(float[n,3])")
    items = [np.ones((rows, 3), np.float32) for rows in (2, 5, 0)]
    check(_program(model), model, {"x": items})


def test_a_symbol_of_an_optional_is_that_of_the_other_inputs():
    text = "main (float[n] a, optional(float[n]) x) => (float[n] y) { y = Relu(a) }"
    module = _program(model_of(text))
    with pytest.raises(ShapeError, match="the dimension 'n' is 2 in input 'x' and 3 in 'a'"):
        module.run({"a": np.ones(3, np.float32), "x": np.ones(2, np.float32)})


def test_texts_are_checked_in_every_run():
    module = _module("string[n]")
    module.run({"x": np.array(["a"], object)})
    module.run({"x": np.array(["a"], object)})
    with pytest.raises(ShapeError, match="NoneType"):
        module.run({"x": np.array([None], object)})


def test_results_share_no_memory_with_items_of_sequences():
    item = np.ones(3, np.float32)
    (result,) = _module("seq(float[n])").run({"x": [item]})["y"]
    assert not np.shares_memory(result, item)


def test_an_empty_sequence_has_the_declared_dtype():
    text = "main (seq(int64[n]) s, int64[n] x, int32 p) => (seq(int64[n]) t)"
    model = model_of(text + " { t = SequenceInsert(s, x, p) }")
    inputs: dict[str, Any] = {"s": [], "x": np.ones(2, np.int64), "p": np.array(0, np.int32)}
    check(_program(model), model, inputs)


def test_sessions_on_saved_modules_say_the_types_of_items(tmp_path: Any):
    _module("optional(seq(float[n]))").save(tmp_path / "saved")
    session = compiler.InferenceSession(tmp_path / "saved")
    assert session.get_inputs()[0].type == "optional(seq(tensor(float)))"
    with pytest.raises(InvalidArgument, match="was given int8"):
        session.run(None, {"x": [np.ones(2, np.int8)]})
    assert reference(_model("optional(float[n])"), {"x": None}) == {"y": None}


VALUES: dict[str, Any] = {
    "seq(float[n])": [np.ones(300, np.float32)],
    "optional(float[n])": None,
    "string[n]": np.array(["a"] * 300, object),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_model_with_inputs_of_any_kind_is_prepared(kind: str):
    text = f"g ({kind} x, float[n] w) => ({kind} y, float[n] z) {{ y = Identity(x) z = Exp(w) }}"
    module = compiled(text)
    module.prepare({"n": 300})
    z = module.run({"x": VALUES[kind], "w": np.zeros(300, np.float32)})["z"]
    np.testing.assert_array_equal(z, np.ones(300, np.float32))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n": 3, "m": 4}, "'m' is not an open dimension: there are n, w.1"),
        ({"n": 3, "w.0": 4}, "'w.0' is not an open dimension: did you mean 'w.1'"),
        ({"n": 3}, "dimension 1 of the input w .* is open: give the size of 'w.1'"),
    ],
)
def test_sizes_of_other_dimensions_are_refused(sizes: dict[str, int], message: str):
    module = compiled("g (float[n, ?] w) => (float[n, ?] z) { z = Exp(w) }")
    with pytest.raises(ShapeError, match=message):
        module.prepare(sizes)
    module.prepare({"n": 3, "w.1": 4})
