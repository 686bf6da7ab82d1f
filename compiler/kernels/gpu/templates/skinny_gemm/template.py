"""GEMMs of a few rows by constant weights, which are read once, on tensor cores."""

from collections.abc import Collection, Iterator, Sequence

from compiler.kernels.gpu.epilogue import is_fusible, store_function
from compiler.kernels.gpu.templates.gemm.read import contraction_of
from compiler.kernels.gpu.templates.skinny_gemm.config import (
    SkinnyConfig,
    candidates,
    estimate_us,
    overlapping,
)
from compiler.kernels.gpu.templates.skinny_gemm.emit import SkinnyEmitter
from compiler.kernels.gpu.templates.skinny_gemm.problem import SkinnyProblem, read_skinny_problem
from compiler.kernels.group import Group
from compiler.kernels.template import Folds, KernelSource, Key, Template, Varies
from compiler.net.operators.contractions import GEMMS
from compiler.target.target import GpuTarget


class SkinnyGemm(Template[SkinnyProblem, SkinnyConfig, GpuTarget], Varies, Folds):
    """A group around one MatMul or Gemm of a few rows by constant weights."""

    name = "skinny_gemm"
    folds_ranges = True
    sources = ("skinny_gemm.cuh", "instructions.cuh")
    config_type = SkinnyConfig

    def match(self, group: Group, target: GpuTarget) -> Sequence[SkinnyProblem]:
        """The only contraction, if it is a matmul whose weights are multiplied as they are."""
        anchor = contraction_of(group)
        if anchor is None or anchor.type not in GEMMS:
            return []
        problem = read_skinny_problem(group, anchor, target)
        return [problem] if problem is not None and is_fusible(group, anchor) else []

    def configs(self, problem: SkinnyProblem, target: GpuTarget) -> Iterator[SkinnyConfig]:
        """The configs that give every warp work and fit registers."""
        return candidates(problem, target)

    def estimate_ns(self, problem: SkinnyProblem, config: SkinnyConfig, target: GpuTarget) -> float:
        return 1e3 * estimate_us(problem, config, target)

    def key(self, problem: SkinnyProblem, target: GpuTarget) -> Key:
        """The fields that decide the speed of a problem's configs; the epilogue is left out."""
        gemm = problem.gemm
        return {"dtype": gemm.dtype, "m": gemm.m, "n": gemm.n, "k": gemm.k}

    def allows(
        self,
        problem: SkinnyProblem,
        config: SkinnyConfig,
        target: GpuTarget,
        configs: Collection[SkinnyConfig],
    ) -> bool:
        """Whether a config is listed, apart from prefetch and release."""
        return not {config, *overlapping(config, target)}.isdisjoint(configs)

    def variants(
        self, problem: SkinnyProblem, config: SkinnyConfig, target: GpuTarget
    ) -> Sequence[SkinnyConfig]:
        """The configs that differ only by prefetch and release."""
        return overlapping(config, target)

    def emit(
        self, group: Group, problem: SkinnyProblem, config: SkinnyConfig, target: GpuTarget
    ) -> KernelSource:
        anchor = contraction_of(group)
        assert anchor is not None
        store = store_function(group, anchor, target)
        return SkinnyEmitter(group, anchor, problem.gemm, store, target).dense(problem, config)
