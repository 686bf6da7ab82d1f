"""Convolutions and matmuls as tiled GEMMs, on tensor cores or AMD's matrix cores."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from compiler.kernels.database import Entry
from compiler.kernels.database.fields import problem_key
from compiler.kernels.gpu.epilogue import is_fusible
from compiler.kernels.gpu.templates.gemm import mfma, neighbours
from compiler.kernels.gpu.templates.gemm.candidates import candidates, diverse, is_modelled
from compiler.kernels.gpu.templates.gemm.config import (
    Tile,
    check_tile,
    overlapping,
    without_overlap,
)
from compiler.kernels.gpu.templates.gemm.emit import tiled_kernel
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.gpu.templates.gemm.read import (
    contraction_of,
    is_gemv,
    read_problems,
    read_runtime_rows,
)
from compiler.kernels.group import Group
from compiler.kernels.same import Same
from compiler.kernels.template import (
    Folds,
    KernelSource,
    Key,
    Predicts,
    Reserves,
    Shortlists,
    Template,
    Varies,
)
from compiler.target.devices import DeviceModel
from compiler.target.target import GpuTarget

LISTED = 512
"""Problems whose tiles are kept: a search asks again for those of GEMMs with other epilogues."""


@lru_cache(LISTED)
def _tiles(problem: Problem, target: GpuTarget, device: DeviceModel) -> tuple[Tile, ...]:
    """The tiles of a problem; the device is a key, as an architecture's model may be replaced."""
    listed = mfma.tiles(problem, target) if target.has_mfma else candidates(problem, target)
    return tuple(listed)


@lru_cache(LISTED)
def _nearest(
    problem: Problem,
    key: str,
    target: GpuTarget,
    known: Same[Mapping[str, Entry]],
    tiles: tuple[Tile, ...],
) -> Tile | None:
    return neighbours.nearest(problem, key, target, known.value, tiles)


class Gemm(Template[Problem, Tile, GpuTarget], Shortlists, Predicts, Reserves, Varies, Folds):
    """A group around one contraction; a convolution is an implicit GEMM.

    Sums are in float32, in an order that depends on the problem and the tile only, split-K slices
    included: the same bits every time.
    """

    name = "gemm"
    folds_ranges = True
    sources = (
        "gemm.cuh",
        "instructions.cuh",
        "operands.cuh",
        "halo.cuh",
        "results.cuh",
        "warpgroups.cuh",
        "wgmma_gemm.cuh",
    )
    config_type = Tile

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The problems of the only contraction: merged groups of channels last.

        With symbols it is one of rows that a run decides.
        """
        anchor = contraction_of(group)
        if anchor is not None and group.symbols:
            problem = read_runtime_rows(group, anchor)
            return [problem] if problem and is_fusible(group, anchor) else []
        problems = read_problems(group, anchor, target) if anchor else []
        if anchor is None or any(is_gemv(anchor, problem) for problem in problems):
            return []
        return problems if problems and is_fusible(group, anchor) else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Tile]:
        """The tiles that fit the device and leave each split-K slice at least one step.

        Of rows that a run decides a kernel is one launch.
        """
        tiles = _tiles(problem, target, target.device)
        if problem.rows is None:
            return tiles
        return [tile for tile in tiles if tile.launches(target) == 1]

    def estimate_ns(self, problem: Problem, config: Tile, target: GpuTarget) -> float:
        model = mfma.estimate if config.lanes == mfma.WAVE else estimate
        return 1e3 * model(problem, config, target)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The fields that decide the speed of a problem's tiles; the epilogue is left out."""
        return neighbours.key_of(problem, target)

    def related_key(self, problem: Problem, target: GpuTarget) -> Key:
        """The same problem in tf32, whose 32-bit operands are copied in the same way."""
        return neighbours.tf32_key(problem, target)

    def is_modelled(self, problem: Problem, config: Tile) -> bool:
        """Whether the tile is of a kind that estimates were fitted to."""
        return is_modelled(config)

    def allows(
        self, problem: Problem, config: Tile, target: GpuTarget, configs: Collection[Tile]
    ) -> bool:
        """Whether a tile is listed, apart from its stages, prefetch and release."""
        return neighbours.allows(problem, config, target, configs)

    def nearest(
        self,
        problem: Problem,
        target: GpuTarget,
        known: Mapping[str, Entry],
        configs: Collection[Tile],
    ) -> Tile | None:
        """The fastest tile predicted from measured times of similar problems; None without any."""
        key = self._text(problem, target)
        return _nearest(problem, key, target, Same(known), tuple(configs))

    def shortlist(
        self, problem: Problem, target: GpuTarget, known: Mapping[str, Entry], count: int
    ) -> Sequence[Tile]:
        """At most `count` tiles to measure: near measured ones, then those of least estimates."""
        fits = set(candidates(problem, target))
        entry = known.get(self._text(problem, target))
        near = neighbours.near_measured(problem, entry, target, fits) if entry else []
        similar = self.nearest(problem, target, known, fits)
        first = [*near, *([without_overlap(similar)] if similar else [])]
        return list(dict.fromkeys([*first, *diverse(problem, target, count)]))[:count]

    def variants(self, problem: Problem, config: Tile, target: GpuTarget) -> Sequence[Tile]:
        """The tiles that differ only by prefetch and release."""
        return overlapping(problem, config, target)

    def emit(self, group: Group, problem: Problem, config: Tile, target: GpuTarget) -> KernelSource:
        check_tile(problem, config, target)
        anchor = contraction_of(group)
        assert anchor is not None
        return tiled_kernel(group, anchor, problem, config, target)

    def _text(self, problem: Problem, target: GpuTarget) -> str:
        return problem_key(self.name, self.key(problem, target))
