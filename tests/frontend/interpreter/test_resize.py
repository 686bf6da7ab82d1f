"""An interpolation goes along its axis in pieces, which are those of the whole."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from compiler.frontend.interpreter.evaluation import evaluate_node
from compiler.net.evaluation import resize


def resized(data: np.ndarray, scales: list[float], **attributes: Any) -> np.ndarray:
    """The result of a Resize by its scales."""
    inputs = [data, None, np.array(scales, np.float32)]
    (result,) = evaluate_node("Resize", inputs, attributes)
    assert result is not None
    return result


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (11,), (1, 1, 3, 1)])
def test_pieces_are_those_of_the_whole(
    mode: str, antialias: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
):
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    scales = [1.0] * (len(shape) - 1) + [1.7] if len(shape) < 2 else [1.0, 1.0, 0.6, 1.7]
    options = {"mode": mode, "antialias": antialias, "exclude_outside": 1}
    whole = resized(data, scales, **options)
    monkeypatch.setattr(resize, "_PIECE", 4)
    np.testing.assert_array_equal(resized(data, scales, **options), whole)


def test_an_axis_may_lose_all_its_elements():
    result = resized(np.ones((1, 2, 1, 3), np.float32), [1.0, 1.0, 0.4, 1.5], mode="linear")
    assert result.shape == (1, 2, 0, 4)


def test_memory_is_a_few_times_the_operands_and_the_result():
    data = np.zeros(4_000_000, np.float32)
    tracemalloc.start()
    result = resized(data, [0.5], mode="cubic")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * (data.nbytes + result.nbytes)
