"""Uses of operators that PyTorch's exporter writes as something else, named without PyTorch."""

from collections.abc import Mapping
from typing import Any

import pytest

from compiler.interfaces.torch.faults import fault_of

BILINEAR, BICUBIC = "aten._upsample_bilinear2d_aa.default", "aten._upsample_bicubic2d_aa.default"
LOST: list[tuple[str, Mapping[str, Any], str]] = [
    ("aten.scatter_reduce.two", {"reduce": "mean", "include_self": False}, "mean"),
    ("aten.scatter_reduce.two", {"reduce": "mean"}, "mean"),
    ("aten.avg_pool2d.default", {"divisor_override": 2}, "divisor"),
    (BILINEAR, {"output_size": [11, 6], "scales_h": 1.7, "scales_w": 0.6}, "scales"),
    (BICUBIC, {"output_size": [14, 5], "scales_h": 2.0, "scales_w": 0.5}, "scales"),
    (BICUBIC, {"output_size": [14, 22], "align_corners": True}, "align_corners"),
]
KEPT: list[tuple[str, Mapping[str, Any]]] = [
    ("aten.scatter_reduce.two", {"reduce": "sum", "include_self": False}),
    ("aten.avg_pool2d.default", {"divisor_override": None, "ceil_mode": True}),
    (BILINEAR, {"output_size": [11, 6], "align_corners": False}),
    (BICUBIC, {"output_size": [14, 22], "scales_h": 2.0, "scales_w": 2.0}),
    ("aten.upsample_bilinear2d.vec", {"scale_factors": [1.7, 0.6]}),
]


@pytest.mark.parametrize(("operator", "given", "lost"), LOST)
def test_what_is_lost_is_named(operator: str, given: Mapping[str, Any], lost: str):
    assert lost in (fault_of(operator, given, (1, 2, 7, 11)) or "")


@pytest.mark.parametrize(("operator", "given"), KEPT)
def test_what_is_exported_rightly_is_taken(operator: str, given: Mapping[str, Any]):
    assert fault_of(operator, given, (1, 2, 7, 11)) is None


def test_scales_of_sizes_that_vary_may_differ_from_them():
    given = {"output_size": [14, "s0"], "scales_h": 2.0, "scales_w": 2.0}
    assert fault_of(BILINEAR, given, (1, 2, 7, "s1")) == "its scales"
