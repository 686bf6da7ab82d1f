"""Outputs of dynamic modules have the kinds and element types that their models declare."""

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import ModelError
from compiler.program.model import DynamicModule
from tests.program.checks import HEADER, compiled, model_of

X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)

WRONG = {
    "a kernel's": ("double[n, 4] y", "y = Relu(x)", "float32[3, 4]"),
    "a host operator's": ("float[n, m] y", "y = NonZero(x)", "int64[2, 11]"),
    "texts": ("int64[n, 4] y", "y = Cast<to = 8>(x)", "str_[3, 4]"),
    "a sequence": ("float[n, 4] y", "y = SequenceConstruct(x, x)", "a sequence of float32"),
    "no sequence": ("seq(float[n, 4]) y", "y = Relu(x)", "float32[3, 4]"),
    "items": ("seq(int32[n, 4]) y", "y = SequenceConstruct(x)", "a sequence of float32"),
    "an optional": ("optional(int32[n, 4]) y", "y = Optional(x)", "float32[3, 4]"),
}
"""A declared output, what computes it, and the type that it has."""


def compiled_unchecked(output: str, node: str) -> DynamicModule:
    """A module of a graph that onnx's checker, which infers types, would refuse."""
    text = f"{HEADER}\ng (float[n, 4] x) => ({output}) {{ {node} }}"
    module = compiler.compile(onnx.parser.parse_model(text))
    assert isinstance(module, DynamicModule)
    return module


@pytest.mark.parametrize("case", WRONG)
def test_an_output_of_another_type_is_refused_at_the_first_run(case: str):
    output, node, computed = WRONG[case]
    module = compiled_unchecked(output, node)
    for _ in range(2):
        with pytest.raises(ModelError) as error:
            module.run({"x": X})
        assert f"output {module.outputs[0]}, it is computed as {computed}" in str(error.value)


def test_a_segment_that_was_prepared_is_checked_too():
    module = compiled_unchecked("double[n, 4] y", "y = Relu(x)")
    module.prepare({"n": 3})
    with pytest.raises(ModelError, match="is computed as float32"):
        module.run({"x": X})


def test_sizes_of_outputs_may_be_those_of_another_export():
    model = model_of("g (float[n, 4] x) => (float[7, 4] y) { y = Relu(x) }")
    np.testing.assert_array_equal(compiler.compile(model).run({"x": X})["y"], np.maximum(X, 0))


def test_an_empty_optional_and_an_empty_sequence_fit():
    module = compiled("""g (optional(seq(float[n])) x) => (optional(seq(float[n])) y, bool h) {
        y = Identity(x)
        h = OptionalHasElement(x)
    }""")
    assert module.run({"x": None})["y"] is None
    assert module.run({"x": []})["y"] == []
