"""Results of a dynamic module are the caller's: nothing else reads or writes their memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.program.checks import compiled

MODELS = {
    "constants": """g (float[n] x) => (float[n] w, float[2] y, float[2] z) <float[2] c = {1, 2}>
        { w = Tanh(x) y = Identity(c) z = Identity(c) }""",
    "constants on the host": """g (float[n] x) => (int64[1, k] w, float[2] c)
        <float[2] c = {1, 2}> { w = NonZero(x) }""",
    "constants of bodies": """g (bool c, float[n] x) => (float[k] y, int64[1, j] w)
        { y, w = If(c) <then_branch = t () => (a, b)
            { a = Constant<value = float[2] {1, 2}>() b = NonZero(x) },
          else_branch = e () => (a, b) { a = Identity(x) b = NonZero(x) }> }""",
    "views": """g (float[n] x) => (float[a, b] y, float[k] z, float[n] w)
        <int64[2] shape = {2, -1}, int64[1] start = {1}, int64[1] end = {4}>
        { y = Reshape(x, shape) z = Slice(x, start, end) w = Identity(x) }""",
    "one tensor twice": """g (float[n, m] x) => (float[m, n] y, float[m, n] z)
        { y = Transpose(x) z = Transpose(x) }""",
    "sequences": """g (float[n] x) => (seq(float[k]) y, float[j] z) <int64 i = {1}>
        { y = SplitToSequence<keepdims = 1>(x) z = SequenceAt(y, i) }""",
    "shapes": """g (float[n] x) => (float[n] w, int64[1] y, int64[1] z)
        { w = Tanh(x) y = Shape(x) z = Shape(x) }""",
}


def arrays(results: dict[str, Any]) -> Iterator[np.ndarray]:
    """The arrays of results, those in sequences among them."""
    for value in results.values():
        yield from value if isinstance(value, list) else [value]


@pytest.mark.parametrize("size", [6, 100])
@pytest.mark.parametrize("name", MODELS)
def test_results_share_no_memory(name: str, size: int) -> None:
    module = compiled(MODELS[name])
    x = np.linspace(-1, 1, size, dtype=np.float32)
    x = x.reshape(2, -1) if "[n, m]" in MODELS[name] else x
    inputs: dict[str, np.ndarray] = {"x": x}
    if "bool c" in MODELS[name]:
        inputs["c"] = np.array(True)
    before = {key: array.copy() for key, array in inputs.items()}
    first = [array.copy() for array in arrays(module.run(inputs))]
    for _ in range(3):
        results = [*arrays(module.run(inputs))]
        for number, (array, wanted) in enumerate(zip(results, first, strict=True)):
            np.testing.assert_array_equal(array, wanted)
            others = [*inputs.values(), *results[:number]]
            assert not any(np.shares_memory(array, other) for other in others)
        for array in results:
            array[...] = 77
        assert all(np.array_equal(inputs[key], array) for key, array in before.items())
