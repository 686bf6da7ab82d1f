"""GEMV and GEMMs of a few rows, which read the matrix once."""

from collections.abc import Sequence
from dataclasses import replace

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import is_fusible, store_function
from compiler.kernels.gpu.templates.gemm.emit import GEMV_WARPS, Emitter
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.gpu.templates.gemm.read import contraction_of, is_gemv, read_problems
from compiler.kernels.group import Group
from compiler.kernels.template import Folds, KernelSource, OneWay
from compiler.target.target import GpuTarget

COLUMNS, UNROLLED = 32, 8
"""Columns of a block, and the rows of the matrix that a warp loads at once."""

START_US, LATENCY_US, CACHE_BYTES = 1.7, 0.55, 60e3
"""Microseconds to launch and to add sums, and of a load where all SMs load, and most bytes per
microsecond that an SM loads."""

REACHED = 0.7
"""The part of the memory's bandwidth that it reaches, measured on an H100."""


class Gemv(OneWay[Problem, GpuTarget], Folds):
    """A group around one MatMul or Gemm of at most four rows."""

    name = "gemv"
    folds_ranges = True

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The GEMM of at most four rows, whose results are stored one by one."""
        anchor = contraction_of(group)
        problems = read_problems(group, anchor, target)[:1] if anchor else []
        if anchor is None or not all(is_gemv(anchor, problem) for problem in problems):
            return []
        return [replace(problem, vector=0) for problem in problems if is_fusible(group, anchor)]

    def estimate_ns(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """The estimated nanoseconds: of the memory, or of the SM with most blocks if slower."""
        device = target.device
        matrix = problem.k * problem.element_bytes
        blocks = ceil_div(problem.n, COLUMNS) * problem.count
        busiest = ceil_div(blocks, device.sms)
        loaded = UNROLLED * GEMV_WARPS * COLUMNS * problem.element_bytes
        ahead = loaded * min(busiest, device.resident_blocks(32 * GEMV_WARPS, 32, 0))
        rate = min(CACHE_BYTES, ahead / LATENCY_US)
        streamed = problem.count * problem.n * matrix / (1e3 * REACHED * device.bandwidth)
        return 1e3 * (START_US + max(streamed, busiest * COLUMNS * matrix / rate))

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> KernelSource:
        anchor = contraction_of(group)
        assert anchor is not None
        store = store_function(group, anchor, target)
        return Emitter(group, anchor, problem, store, target).gemv()
