"""The benchmark of weights of four bits compares models that compute the same."""

from argparse import Namespace

import pytest

from benchmarks.quantised.four_bits import measure

NAMES = ["ours", "ours fp32", "onnxruntime", "onnxruntime level 4"]


@pytest.mark.parametrize("rows", [1, 5])
def test_contenders_compute_the_same(rows: int):
    options = Namespace(target="cpu", block=32, layers=2, threads=1, runs=2)
    row = measure("64x96", rows, options)
    assert [*row["us"]] == [*row["errors"]] == NAMES
    assert max(row["errors"][name] for name in NAMES[:3]) < 1e-5
    assert 1e-5 < row["errors"]["onnxruntime level 4"] < 0.1
