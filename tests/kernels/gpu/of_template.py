"""Kernels of one template: with a config, or with the one that is selected."""

from dataclasses import replace
from typing import Any, cast

from compiler.kernels.building.select import Candidate, best
from compiler.kernels.database import Entry, Measured
from compiler.kernels.database.fields import config_fields, problem_key
from compiler.kernels.gpu.templates import TEMPLATES
from compiler.kernels.gpu.templates.gemm.candidates import candidates, is_modelled
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.gpu.templates.gemm.read import contraction_of, read_problems
from compiler.kernels.gpu.templates.gemm.template import Gemm
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource
from compiler.target.target import GpuTarget, parse_gpu

BY_NAME = {template.name: template for template in TEMPLATES}
NOTHING = cast(Group, None)
"""The group of candidates that write no kernel."""


def problem_in(name: str, group: Group, target: GpuTarget) -> Any:
    """The first problem that a template finds in a group; None without any."""
    return next(iter(BY_NAME[name].match(group, target)), None)


def kernel_in(
    name: str, group: Group, target: GpuTarget, config: Any = None
) -> KernelSource | None:
    """A template's kernel of a group; None where it has none, or without a config loses."""
    template = BY_NAME[name]
    if config is None:
        found = best(group, target)
        return found.emit() if found.template is template else None
    problem = problem_in(name, group, target)
    return None if problem is None else template.emit(group, problem, config, target)


def estimated(name: str, problem: Any, target: GpuTarget) -> Any:
    """The config of the least estimate."""
    template = BY_NAME[name]
    configs = template.configs(problem, target)
    return min(configs, key=lambda config: template.estimate_ns(problem, config, target))


def chosen(name: str, problem: Any, target: GpuTarget) -> Any:
    """The config that is chosen for a problem."""
    return Candidate(BY_NAME[name], NOTHING, problem, target).choose()[0]


def key_text(name: str, problem: Any, target: GpuTarget) -> str:
    """The key of a problem in the database."""
    return problem_key(name, BY_NAME[name].key(problem, target))


def gemm_problems(group: Group, target: GpuTarget) -> list[Problem]:
    """The GEMMs that a group can be computed as in tiles."""
    return [*Gemm().match(group, target)]


def gemm_kernel(
    group: Group, target: GpuTarget, tile: Tile | None = None, problem: Problem | None = None
) -> KernelSource | None:
    """The kernel of a contraction in tiles, or without a tile the selected one."""
    if tile is None:
        return kernel_in("gemm", group, target) or kernel_in("gemv", group, target)
    anchor = contraction_of(group)
    if problem is None and anchor is not None:
        problem = next(iter(read_problems(group, anchor, target)), None)
    return None if problem is None else Gemm().emit(group, problem, tile, target)


def estimated_tile(problem: Problem, target: GpuTarget) -> Tile:
    """The tile of the least estimate."""
    tiles = (tile for tile in candidates(problem, target) if is_modelled(tile))
    return min(tiles, key=lambda tile: estimate(problem, tile, target))


def without_overlap(tile: Tile) -> Tile:
    """A tile whose kernel waits for its predecessors at once and holds its successors back."""
    return replace(tile, prefetch=False, release=False)


def entry(name: str, problem: Any, config: Any, time: float, device: str = "sm_90/132") -> Entry:
    """A database entry in which one config took some nanoseconds."""
    measured = (Measured(config_fields(config), time, time),)
    return Entry(key_text(name, problem, parse_gpu("cuda:sm_90:tf32")), device, "v", measured)
