"""All-zero masks before a softmax are removed."""

import numpy as np
import pytest

from tests.frontend.checks import check, parse, types

SCORES = "g (float[2,3,8,8] x) => (float[2,3,8,8] y)"


def masked(text: str, **initializers: np.ndarray) -> list[str]:
    """The operators of the imported model, which computes the same."""
    return types(check(parse(f"{SCORES} {{ {text} }}", **initializers)))


@pytest.mark.parametrize("sum", ["Add(x, m)", "Add(m, x)"])
@pytest.mark.parametrize("shape", [(8, 8), (2, 1, 8, 8), (2, 3, 8, 8), (2, 1, 1, 8)])
def test_a_mask_of_zeros_is_dropped(sum: str, shape: tuple[int, ...]):
    zeros = np.zeros(shape, np.float32)
    assert masked(f"s = {sum} y = Softmax<axis=-1>(s)", m=zeros) == ["Softmax"]
    assert masked(f"s = {sum} t = Add(s, m) y = Softmax<axis=1>(t)", m=-zeros) == ["Softmax"]


def test_a_mask_is_dropped_once_its_values_are_known():
    text = "m = Where(c, z, low) s = Add(x, m) y = Softmax<axis=-1>(s)"
    zero, low = np.zeros((), np.float32), np.full((), -3e38, np.float32)
    every = np.ones((8, 8), np.bool_)
    assert masked(text, c=every, z=zero, low=low) == ["Softmax"]
    assert masked(text, c=np.tril(every), z=zero, low=low) == ["Add", "Softmax"]


def test_the_sum_stays_for_others():
    text = "s = Add(x, m) p = Softmax<axis=-1>(s) y = Mul(p, s)"
    assert masked(text, m=np.zeros((8, 8), np.float32)) == ["Add", "Softmax", "Mul"]


def test_biases_and_what_else_adds_zeros_stay():
    zeros = np.zeros((8, 8), np.float32)
    assert masked("s = Add(x, m) y = Softmax<axis=-1>(s)", m=zeros[0]) == ["Add", "Softmax"]
    assert masked("s = Add(x, m) y = Exp(s)", m=zeros) == ["Add", "Exp"]
    assert masked("s = Sub(m, x) y = Softmax<axis=-1>(s)", m=zeros) == ["Sub", "Softmax"]


def test_zeros_that_make_the_scores_larger_stay():
    text = "a = Slice(x, b, e, f) s = Add(a, m) y = Softmax<axis=-1>(s)"
    ends = {"b": np.array([0]), "e": np.array([1]), "f": np.array([1])}
    zeros = np.zeros((2, 3, 8, 8), np.float32)
    assert masked(text, m=zeros, **ends) == ["Slice", "Add", "Softmax"]
