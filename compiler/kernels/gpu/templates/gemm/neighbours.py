"""Predicting the fastest tile of a GEMM from measured tiles of similar ones."""

from collections.abc import Collection, Mapping
from dataclasses import astuple, replace
from functools import cache
from math import log2
from typing import Any

from compiler.kernels.database import Entry, Measured, typed_config
from compiler.kernels.database.fields import problem_fields
from compiler.kernels.gpu.templates.gemm.candidates import has_wgmma_room, is_modelled
from compiler.kernels.gpu.templates.gemm.config import Tile, allows_overlap, without_overlap
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.problem import Form, Gather, Problem
from compiler.kernels.template import Key
from compiler.target.target import GpuTarget

NEIGHBOURS, REACH = 4, 3.0
"""How many similar problems are used, and their largest distance in doublings of m, n, k, count."""

BEST = 3
"""How many of the fastest measured tiles are measured again."""

SIZES = ("m", "n", "k", "count")
ALIKE = ("template", "precision", "dtype", "form", "a_packed", "b_packed", "transposed")
"""The fields in which similar problems are equal."""

GATHER = tuple(Gather.__dataclass_fields__)


def key_of(problem: Problem, target: GpuTarget) -> Key:
    """The fields that decide the speed of a problem's tiles; the epilogue is left out."""
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
    """The key of the same problem in tf32, whose 32-bit operands are copied in the same way.

    Of 23 problems on an H200, those in fp16 took 0.97 of that time in the median, 0.78 to 1.26.
    """
    alike = problem.element_bytes == 4 and target.precision in ("fp16", "bf16")
    return {**key_of(problem, target), "precision": "tf32"} if alike else {}


def problem_of(key: str) -> Problem:
    """A problem with this key, good only for estimates."""
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
        result_index=("z", "m", "n"),
        packings=tuple((i, "") for i, packing in enumerate(packed) if packing),
    )


def allows(problem: Problem, tile: Tile, target: GpuTarget, tiles: Collection[Tile]) -> bool:
    """Whether a tile is listed, apart from prefetch and release.

    A WGMMA tile may have any number of stages that fits shared memory.
    """
    wgmma = tile.wgmma and has_wgmma_room(problem, tile, target)
    return (wgmma or without_overlap(tile) in tiles) and allows_overlap(problem, tile, target)


def nearest(
    problem: Problem,
    key: str,
    target: GpuTarget,
    known: Mapping[str, Entry],
    tiles: Collection[Tile],
) -> Tile | None:
    """The fastest listed tile predicted from measured times of similar problems; None without any.

    A similar problem's time is scaled by the ratio of the two estimates. WGMMA tiles, which similar
    problems may not have, are also predicted by their estimates.
    """
    predicted = dict[Tile, float]()
    shapes = _by_shape(tiles)
    for entry in neighbours(key, known):
        other = problem_of(entry.key)
        for measured in entry.configs:
            theirs = _tile(measured)
            if theirs is None:
                continue
            for tile in similar(problem, theirs, target, shapes.get(theirs.shape, ())):
                ratio = estimate(problem, tile, target) / estimate(other, theirs, target)
                predicted.setdefault(tile, measured.warm * ratio)
    if predicted:
        for tile in tiles:
            if tile.wgmma and is_modelled(tile):
                predicted.setdefault(tile, 1e3 * estimate(problem, tile, target))
    return min(predicted, key=lambda tile: predicted[tile], default=None)


def _by_shape(tiles: Collection[Tile]) -> dict[tuple[int, ...], list[Tile]]:
    by_shape: dict[tuple[int, ...], list[Tile]] = {}
    for tile in tiles:
        by_shape.setdefault(tile.shape, []).append(tile)
    return by_shape


def near_measured(
    problem: Problem, entry: Entry, target: GpuTarget, tiles: Collection[Tile]
) -> list[Tile]:
    """The fastest measured tiles, then tiles that differ from them in one respect.

    These have the halo in shared memory, or half or twice the split-K slices.
    """
    known = [tile for measured in entry.ranked[:BEST] if (tile := _tile(measured)) is not None]
    best = [without_overlap(tile) for tile in known]
    best = [tile for tile in dict.fromkeys(best) if allows(problem, tile, target, tiles)]
    near = [*best]
    for own in best:
        halos = (t for t in tiles if t.halo and replace(t, halo=False).shape == own.shape)
        near += sorted(halos, key=lambda tile: abs(tile.split_k - own.split_k))[:1]
    for own in best[:1]:
        alike = (t for t in similar(problem, own, target, tiles) if t.wgmma == own.wgmma)
        near += sorted(alike, key=lambda tile: tile.split_k)
    return list(dict.fromkeys(near))


def _tile(measured: Measured) -> Tile | None:
    return typed_config([Tile], measured.config)


def similar(problem: Problem, tile: Tile, target: GpuTarget, tiles: Collection[Tile]) -> list[Tile]:
    """The listed tiles of the same shape, with as many split-K slices or with half or twice that.

    They prefetch and release as the given one does.
    """
    candidates = [
        replace(other, prefetch=tile.prefetch, release=tile.release)
        for other in tiles
        if other.shape == tile.shape and tile.split_k <= 2 * other.split_k <= 4 * tile.split_k
    ]
    return [other for other in candidates if allows(problem, other, target, tiles)]


def neighbours(key: str, known: Mapping[str, Entry]) -> list[Entry]:
    """The entries of the most similar other problems, the nearest first."""
    kind = _kind(key)
    alike = (o for o in known if _kind(o) == kind and o != key and _types(o) == _types(key))
    distances = sorted((_distance(key, other), other) for other in alike)
    return [known[other] for distance, other in distances[:NEIGHBOURS] if distance <= REACH]


def _distance(one: str, other: str) -> float:
    """Doublings between the sizes of two problems of a kind, by their keys."""
    mine: Mapping[str, Any] = problem_fields(one)
    theirs: Mapping[str, Any] = problem_fields(other)
    return sum(abs(log2(mine[name] / theirs[name])) for name in SIZES)


@cache
def _types(key: str) -> Mapping[str, type[Any]]:
    """The types of a problem's fields; another version of the template may have others."""
    fields = problem_fields(key)
    empty = any(fields.get(name) == 0 for name in SIZES)
    return {} if empty else {name: type(value) for name, value in fields.items()}


@cache
def _kind(key: str) -> tuple[Any, ...]:
    """The fields that are equal, and whether there are taps, strides, blocks.

    Other templates, whose kinds are different, need not have these fields.
    """
    fields: Mapping[str, Any] = problem_fields(key)
    strided, many = fields.get("strides") != (1, 1, 1), fields.get("taps", 1) > 1
    return (*(fields.get(name) for name in ALIKE), fields.get("block", 0) > 0, strided, many)
