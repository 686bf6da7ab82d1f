"""Attentions whose lengths a run decides: one kernel for all sizes, by MMAs of every kind."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.building.select import candidates_of
from compiler.kernels.gpu.templates.attention.config import Config
from compiler.kernels.gpu.templates.attention.template import FusedAttention
from compiler.kernels.group import Group
from compiler.kernels.sizes import for_all_sizes, sized
from compiler.kernels.template import KernelSource
from compiler.target.target import GpuTarget, parse_gpu
from compiler.tensors.extents import NotForAllSizes
from tests.kernels.gpu.emulator import COMPILER, Order, Program
from tests.kernels.gpu.test_symbolic import at, with_sizes_operand
from tests.kernels.symbolic.cases import ATTENTIONS, MATMULS, expected, feeds

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def halved(case: Group) -> Group:
    """A group in float16."""
    return replace(case, values=tuple(replace(v, dtype="float16") for v in case.values))


FP32, FP16 = (parse_gpu(f"cuda:sm_90:{precision}") for precision in ("fp32", "fp16"))
BOTH, HALF = ATTENTIONS["attention"], halved(ATTENTIONS["attention"])

KERNELS: Mapping[str, tuple[Group, GpuTarget, Config | None]] = {
    "both lengths": (BOTH, FP32, None),
    "rows, in bands": (ATTENTIONS["attention to a prompt"], FP32, Config(1, 2, 2)),
    "one text": (ATTENTIONS["attention of one text"], FP32, None),
    "pairs": (HALF, FP16, Config(2, 4)),
    "WGMMA": (HALF, FP16, Config(1, 1, 4, 32, splits=1)),
}

SIZES = ((2, 3), (1, 65), (3, 50), (2, 97))


@cache
def source(name: str) -> KernelSource:
    """The kernel of a case with a config, or with the one that is chosen."""
    case, target, config = KERNELS[name]
    with for_all_sizes(case, gpu=True):
        (candidate,) = candidates_of(FusedAttention(), sized(case), target)
        chosen = config or candidate.choose()[0]
        assert chosen in candidate.configs
        return candidate.emit(chosen)


@cache
def program(name: str) -> Program:
    """The program of a kernel."""
    return Program(source(name))


@pytest.mark.parametrize(("name", "warps"), [("of one text", 8), ("to a prompt", 5)])
def test_keys_that_a_run_decides_have_warps_for_many(name: str, warps: int):
    case = ATTENTIONS[f"attention {name}"]
    with for_all_sizes(case, gpu=True):
        (candidate,) = candidates_of(FusedAttention(), sized(case), FP16)
        assert candidate.choose()[0] == Config(1, warps)


@pytest.mark.parametrize("name", KERNELS)
def test_one_kernel_gives_numpys_results_for_all_sizes(name: str):
    case, _, _ = KERNELS[name]
    for number, (batch, length) in enumerate(SIZES):
        values = (batch, length) if len(case.symbols) > 1 else (length,)
        sizes = {symbol.name: max(n, 2) for symbol, n in zip(case.symbols, values, strict=True)}
        numeric = case.at(sizes)
        single = replace(numeric, values=tuple(replace(v, dtype="float32") for v in numeric.values))
        drawn = [a / 8 for a in feeds(single, number)]
        arrays = [a.astype(info.dtype) for a, info in zip(drawn, numeric.reads, strict=True)]
        own = replace(at(source(name), sizes), packings=("",) * (numeric.inputs + 1))
        operands = with_sizes_operand(numeric, sizes)
        values = np.array([*sizes.values()], np.int64)
        (result,) = program(name).run(own, operands, [*arrays, values], order=Order(number))
        wanted = expected(single, [a.astype(np.float32) for a in arrays])
        within = 1e-5 if case is not HALF else 2e-3
        np.testing.assert_allclose(result, wanted, within, within, err_msg=str(sizes))


@pytest.mark.parametrize("name", ["scores", "context", "all symbols"])
def test_other_contractions_of_lengths_need_numbers(name: str):
    with pytest.raises(
        NotForAllSizes, match="no symbolic kernel: MatMul has other sizes than rows"
    ):
        generate(MATMULS[name], FP32)
