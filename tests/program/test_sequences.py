"""Sequence operators with empty and other degenerate arguments: refused, or as in onnxruntime."""

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import FlowloomError
from tests.program.checks import HEADER, assert_equal, reference

Shape = tuple[int, ...]
Parts = int | list[int]

PARTS: list[tuple[Shape, Parts]] = [
    ((3,), 1),
    ((3,), 2),
    ((3,), 5),
    ((0,), 2),
    ((2, 0), 1),
    ((0, 2), 5),
    ((3,), [3]),
    ((3,), [0, 3]),
    ((3,), [0, 0, 3, 0]),
    ((0,), [0]),
    ((0, 2), [0, 0]),
]
REFUSED_PARTS: list[tuple[Shape, Parts]] = [
    ((3,), 0),
    ((0,), 0),
    ((3,), [0]),
    ((3,), [5]),
    ((3,), [-1, 4]),
    ((0,), [-1, 1]),
]
EMPTY_PARTS: list[tuple[Shape, Parts]] = [((3,), []), ((0,), []), ((2, 0), [])]


def split_model(shape: Shape, parts: Parts, is_constant: bool) -> onnx.ModelProto:
    """A split of a tensor into parts that the model, or a run, decides."""
    rank = "" if isinstance(parts, int) else f"[{len(parts)}]"
    listed = str(parts) if isinstance(parts, int) else ", ".join(map(str, parts))
    sizes = ", ".join("abc"[: len(shape)])
    value, given = (
        (f"<int64{rank} p = {{{listed}}}>", "") if is_constant else ("", f", int64{rank} p")
    )
    return onnx.parser.parse_model(
        f"{HEADER} g (float[{sizes}] x{given}) => (seq(float[{', '.join('def'[: len(shape)])}]) y,"
        f" int64 n) {value} {{ y = SplitToSequence(x, p) n = SequenceLength(y) }}"
    )


def inputs_of(shape: Shape, parts: Parts, is_constant: bool) -> dict[str, np.ndarray]:
    """The inputs of `split_model`."""
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return {"x": x} if is_constant else {"x": x, "p": np.array(parts, np.int64)}


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize(("shape", "parts"), PARTS)
def test_tensors_are_split_as_in_onnxruntime(shape: Shape, parts: Parts, is_constant: bool) -> None:
    model = split_model(shape, parts, is_constant)
    inputs = inputs_of(shape, parts, is_constant)
    expected, results = reference(model, inputs), compiler.compile(model).run(inputs)
    for name, wanted in expected.items():
        assert_equal(results[name], wanted)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize(("shape", "parts"), [*REFUSED_PARTS, *EMPTY_PARTS])
def test_parts_that_do_not_make_up_a_tensor_are_refused(
    shape: Shape, parts: Parts, is_constant: bool
) -> None:
    """Of no parts ONNX's shape inference says so; onnxruntime takes them for left out in a run."""
    model = split_model(shape, parts, is_constant)
    inputs = inputs_of(shape, parts, is_constant)
    with pytest.raises(FlowloomError, match="SplitToSequence"):
        compiler.compile(model).run(inputs)
    if parts != []:
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            reference(model, inputs)


@pytest.mark.parametrize(
    "body",
    [
        "s = SequenceEmpty() y = ConcatFromSequence<axis = 0>(s)",
        "s = SequenceEmpty() y = SequenceAt(s, zero)",
        "s = SequenceEmpty() t = SequenceErase(s) y = SequenceLength(t)",
        "s = SequenceConstruct(x) t = SequenceErase(s, two) y = SequenceLength(t)",
        "s = SequenceEmpty() t = SequenceInsert(s, x, two) y = SequenceLength(t)",
    ],
)
def test_positions_outside_a_sequence_are_refused(body: str) -> None:
    kind = "int64" if "SequenceLength" in body else "float[b]"
    model = onnx.parser.parse_model(
        f"{HEADER} g (float[a] x) => ({kind} y) <int64 zero = {{0}}, int64 two = {{2}}>"
        f" {{ {body} }}"
    )
    inputs = {"x": np.ones(2, np.float32)}
    with pytest.raises(FlowloomError, match="Sequence"):
        compiler.compile(model).run(inputs)
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        reference(model, inputs)
