"""Fused attention as one kernel."""

from collections.abc import Iterator, Sequence
from itertools import chain

from compiler.errors import KernelError
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.database.fields import Value
from compiler.kernels.gpu.ranges.groups import folded_buffers, without_folded
from compiler.kernels.gpu.templates.attention.config import (
    Config,
    candidates,
    keeps_scores,
)
from compiler.kernels.gpu.templates.attention.emit import Emitter
from compiler.kernels.gpu.templates.attention.problem import (
    Problem,
    matrix_strides,
    read_attention,
    read_runtime_attention,
)
from compiler.kernels.gpu.templates.attention.wgmma import (
    CLUSTER_US,
    can_use_wgmma,
    wgmma_configs,
    wgmma_estimate_us,
)
from compiler.kernels.gpu.templates.gemm.estimate import RATES
from compiler.kernels.group import Group
from compiler.kernels.template import Folds, KernelSource, Key, Outlines, Template
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

BLOCK_US, RATE_SHARE = 2.2, 0.55
"""Beginning and ending a block, and the part of the rate of a GEMM that an attention reaches."""

KEY_US = {"fp32": 0.018, "tf32": 0.018, "fp16": 0.0125, "bf16": 0.0125}
"""Microseconds of a block for each key. All fitted to the shipped database's times on an H200."""


TWICE = 1.5
"""The work where weights are rounded and scores are computed a second time for that."""


class FusedAttention(Template[Problem, Config, GpuTarget], Outlines, Folds):
    """A group that is exactly one attention.

    A block processes its keys in order, and a cluster merges blocks in order: the same bits every
    time.
    """

    name = "attention"
    folds_ranges = True
    sources = (
        *("attention.cuh", "instructions.cuh", "staged_attention.cuh"),
        *("warpgroups.cuh", "wgmma_registers.cuh", "wgmma_attention.cuh"),
    )

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The attention; raises KernelError for one that no kernel can compute."""
        read = read_runtime_attention if group.symbols else read_attention
        problem = read(without_folded(group), target)
        return [problem] if problem else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs that fit shared memory and registers, the likeliest first.

        Those for lengths that a run decides keep no number of keys, and have no splits without.
        """
        configs = chain(candidates(problem, target), wgmma_configs(problem, target))
        if problem.sized is None:
            return configs
        return (own for own in configs if own.splits <= 1 and (own.wgmma or not own.staged))

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Without WGMMA that of the keys of a block, which takes them in order; SMs share the work.

        Configs that compute scores twice take longer.
        """
        if config.wgmma:
            return 1e3 * wgmma_estimate_us(problem, config, target)
        columns = ceil_div(problem.columns, max(1, config.splits))
        merging = CLUSTER_US if config.splits > 1 else 0
        rate = target.device.sms * RATES[problem.precision] * RATE_SHARE
        work = problem.attention.sizes.multiplications / rate
        once = max(KEY_US[problem.precision] * columns, work)
        again = problem.rounded and not keeps_scores(problem, config)
        return 1e3 * (BLOCK_US + merging + (TWICE * once if again else once))

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The precision, the sizes and the strides; how scores are masked is left out."""
        sizes = dict[str, Value]()
        for name, operand in zip(("query", "key", "value"), problem.operands, strict=False):
            rows, columns = operand.window.shape[-2:]
            row, column = matrix_strides(operand)
            sizes |= {f"{name}_rows": rows, f"{name}_columns": columns}
            sizes |= {f"{name}_row_stride": row, f"{name}_column_stride": column}
        more = {"rounded": problem.rounded, "norms": problem.normalised}
        forms: Key = {name: 1 for name, present in more.items() if present}
        return {"precision": problem.precision, "batch": problem.batch, **sizes, **forms}

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        if config.staged and not problem.pairs:
            raise KernelError(
                f"{group.describe()} has operands that {config} cannot copy to shared memory"
            )
        if config.wgmma and not can_use_wgmma(problem, target):
            raise KernelError(
                f"{group.describe()} has an attention that {config} cannot compute for {target}:"
                " take a config without splits"
            )
        bare = without_folded(group)
        extremes = folded_buffers(group)
        return Emitter(bare, problem, target, config, extremes).kernel()

    def launches(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> Sequence[Launch]:
        """The only launch, which the operators on the scores do not change."""
        return (Emitter(group, problem, target, config).launch(),)
