"""Which element of its input each element of a Pad is."""

from typing import Literal

import numpy as np
import pytest

from compiler.frontend.interpreter import evaluate_node
from compiler.net.operators.pads import pad_positions

PADS = [(0, 2), (2, 0), (2, 1), (-1, 0), (0, -2), (-1, 2), (-2, 2), (2, -1), (1, -2), (-1, -1)]


def padded(mode: Literal["edge", "wrap", "reflect"], before: int, after: int) -> list[int]:
    """Five elements cropped by negative pads, then padded by numpy."""
    kept = np.arange(5)[max(0, -before) : 5 - max(0, -after)]
    return np.pad(kept, (max(0, before), max(0, after)), mode).tolist()


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
@pytest.mark.parametrize("pads", PADS)
def test_pads_repeat_what_is_not_taken_away(
    mode: Literal["edge", "wrap", "reflect"], pads: tuple[int, int]
):
    wanted = padded(mode, *pads)
    assert pad_positions(mode, pads[0], 5, 5 + sum(pads)).tolist() == wanted
    (result,) = evaluate_node("Pad", [np.arange(5.0), np.array(pads)], {"mode": mode})
    assert result is not None
    assert result.tolist() == wanted
