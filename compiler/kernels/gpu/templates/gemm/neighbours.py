"""What measured configs of similar GEMMs say of one that was not measured."""

from collections.abc import Collection, Mapping
from dataclasses import astuple, replace
from math import log2
from typing import Any

from compiler.kernels.database import Entry
from compiler.kernels.database.fields import problem_fields
from compiler.kernels.gpu.template import Key
from compiler.kernels.gpu.templates.gemm.candidates import has_wgmma_room, is_measured
from compiler.kernels.gpu.templates.gemm.config import Tile, fits_order, in_order
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.problem import Form, Gather, Problem
from compiler.target.target import GpuTarget

NEIGHBOURS, REACH = 4, 3.0
"""How many similar problems are asked, and how many doublings of m, n, k and count away at most."""

BEST = 3
"""How many of the measured tiles are measured again."""

SIZES = ("m", "n", "k", "count")
ALIKE = ("template", "precision", "dtype", "form", "a_packed", "b_packed", "transposed")
"""The fields in which similar problems are equal."""

GATHER = tuple(Gather.__dataclass_fields__)


def key_of(problem: Problem, target: GpuTarget) -> Key:
    """What decides the speed of a problem's tiles; the epilogue is left out."""
    packed = [number for number, _ in problem.packings]
    return {
        "precision": target.precision if problem.element_bytes == 4 else problem.dtype,
        "dtype": problem.dtype,
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "count": problem.count,
        "form": int(problem.form),
        "a_row": problem.a_row,
        "b_row": problem.b_row,
        "a_packed": problem.left in packed,
        "b_packed": problem.right in packed,
        "block": problem.block,
        **dict(zip(GATHER, astuple(problem.gather), strict=True)),
    }


def tf32_key(problem: Problem, target: GpuTarget) -> Key:
    """The key of the same problem in tf32, whose operands in 32 bits are copied alike.

    Of 23 problems on an H200, those in fp16 took 0.97 of that time in the median, 0.78 to 1.26.
    """
    alike = problem.element_bytes == 4 and target.precision in ("fp16", "bf16")
    return {**key_of(problem, target), "precision": "tf32"} if alike else {}


def problem_of(key: str) -> Problem:
    """A problem with this key, of which only the speed can be estimated."""
    fields: Mapping[str, Any] = problem_fields(key)
    packed = (fields["a_packed"], fields["b_packed"])
    own = ("m", "n", "k", "count", "dtype", "a_row", "b_row", "block")
    return Problem(
        **{name: fields[name] for name in own},
        form=Form(fields["form"]),
        left=0,
        right=1,
        gather=Gather(**{name: fields[name] for name in GATHER}),
        a_offset="0",
        b_offset="0",
        place=("z", "m", "n"),
        packings=tuple((i, "") for i, packing in enumerate(packed) if packing),
    )


def allows(problem: Problem, tile: Tile, target: GpuTarget, tiles: Collection[Tile]) -> bool:
    """Whether a tile is one of those listed, but for how it overlaps with its neighbours.

    A WGMMA tile may have any number of stages that there is room for.
    """
    wgmma = tile.wgmma and has_wgmma_room(problem, tile, target)
    return (wgmma or in_order(tile) in tiles) and fits_order(problem, tile, target)


def nearest(
    problem: Problem,
    key: str,
    target: GpuTarget,
    known: Mapping[str, Entry],
    tiles: Collection[Tile],
) -> Tile | None:
    """The listed tile that should be fastest by what similar problems took; None without any.

    A similar problem's time of a tile counts by the ratio of both problems' estimates. WGMMA tiles,
    which similar problems may not have, count by their own estimates.
    """
    predicted: dict[Tile, float] = {}
    for entry in neighbours(key, known):
        other = problem_of(entry.key)
        for measured in entry.configs:
            given = Tile(**dict(measured.config))
            for tile in similar(problem, given, target, tiles):
                ratio = estimate(problem, tile, target) / estimate(other, given, target)
                predicted.setdefault(tile, measured.warm * ratio)
    if predicted:
        for tile in tiles:
            if tile.wgmma and is_measured(tile):
                predicted.setdefault(tile, 1e3 * estimate(problem, tile, target))
    return min(predicted, key=lambda tile: predicted[tile], default=None)


def near_measured(
    problem: Problem, entry: Entry, target: GpuTarget, tiles: Collection[Tile]
) -> list[Tile]:
    """The best that were measured, then tiles that differ from them in one thing.

    Those copy the halo once for all taps, or have half or twice the split-K slices.
    """
    best = [in_order(Tile(**dict(each.config))) for each in entry.ranked[:BEST]]
    best = [tile for tile in dict.fromkeys(best) if allows(problem, tile, target, tiles)]
    near = [*best]
    for own in best:
        halos = (t for t in tiles if t.halo and replace(t, halo=False).shape == own.shape)
        near += sorted(halos, key=lambda tile: abs(tile.split_k - own.split_k))[:1]
    for own in best[:1]:
        alike = (t for t in similar(problem, own, target, tiles) if t.wgmma == own.wgmma)
        near += sorted(alike, key=lambda tile: tile.split_k)
    return list(dict.fromkeys(near))


def similar(problem: Problem, tile: Tile, target: GpuTarget, tiles: Collection[Tile]) -> list[Tile]:
    """The listed tiles of the same shape, with as many split-K slices or with half or twice that.

    They overlap with their neighbours as the given one does.
    """
    found = [
        replace(each, prefetch=tile.prefetch, release=tile.release)
        for each in tiles
        if each.shape == tile.shape and tile.split_k <= 2 * each.split_k <= 4 * tile.split_k
    ]
    return [each for each in found if allows(problem, each, target, tiles)]


def neighbours(key: str, known: Mapping[str, Entry]) -> list[Entry]:
    """The entries of the most similar other problems, the nearest first."""
    wanted = problem_fields(key)
    found = [
        (off, other, entry)
        for other, entry in known.items()
        if other != key and (off := _distance(wanted, problem_fields(other))) <= REACH
    ]
    return [entry for _, _, entry in sorted(found, key=lambda each: each[:2])[:NEIGHBOURS]]


def _distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Doublings between the sizes of two problems; infinite where the kernels differ in kind."""
    if one["template"] != other["template"] or _kind(one) != _kind(other):
        return float("inf")
    return sum(abs(log2(one[name] / other[name])) for name in SIZES)


def _kind(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """The fields that are equal, and whether there are taps, strides, blocks."""
    strided, many = fields["strides"] != (1, 1, 1), fields["taps"] > 1
    return (*(fields[name] for name in ALIKE), fields["block"] > 0, strided, many)
