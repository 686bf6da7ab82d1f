"""Attention by warpgroups on a CUDA device, against float64."""

from dataclasses import replace

import pytest

from compiler.kernels.gpu.templates.attention.wgmma import wgmma_configs
from compiler.target.target import parse_gpu
from tests.kernels.attention_models import Attention
from tests.kernels.gpu.of_template import kernel_in, problem_in
from tests.kernels.gpu.on_a_device import present, run
from tests.kernels.gpu.templates.test_attention import BOUNDS
from tests.kernels.gpu.templates.test_staged_attention import (
    arrays,
    difference,
    expected,
    short_group,
)

PLAIN = Attention("heads", "none", 2, 3, 300, 333, 64, 64)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("case", "precision"),
    [
        (PLAIN, "fp16"),
        (replace(PLAIN, mask="each"), "bf16"),
        (replace(PLAIN, mask="keys"), "fp16"),
        (replace(PLAIN, mask="where", depth=128, width=128), "fp16"),
        (replace(PLAIN, depth=64, width=128), "fp16"),
        (replace(PLAIN, form="packed", mask="added"), "bf16"),
        (replace(PLAIN, mask="where", depth=40, width=40), "fp16"),
        (replace(PLAIN, mask="each", depth=56, width=24), "bf16"),
    ],
)
def test_every_config(case: Attention, precision: str):
    """Masks, ragged ends, and splits of the keys."""
    driver = present()
    target = parse_gpu(f"cuda:{driver.device.architecture}:{precision}")
    if not target.has_wgmma:
        pytest.skip(f"{driver.device.architecture} has no WGMMA")
    problem = problem_in("attention", group := short_group(case, precision), target)
    inputs = arrays(case, group)
    wanted = expected(case, inputs)
    configs = [*wgmma_configs(problem, target)]
    assert configs
    for config in configs:
        kernel = kernel_in("attention", group, target, config)
        assert kernel is not None
        found = run(driver, kernel, group, [*inputs.values()]).astype("float64")
        assert difference(found, wanted) < BOUNDS[precision], str(config)
