"""Tiles from the database of measured ones: of the same problem, or of the most similar ones."""

import json
from collections.abc import Collection, Mapping
from dataclasses import astuple, replace
from functools import cache
from math import log2
from typing import Any

from compiler.kernels.database import Entry
from compiler.kernels.gpu.recorded import Contender, entries, recorded
from compiler.kernels.gpu.templates.gemm.candidates import (
    candidates,
    choose_tile,
    has_wide_room,
    is_measured,
)
from compiler.kernels.gpu.templates.gemm.estimates import estimate
from compiler.kernels.gpu.templates.gemm.problem import Form, Gather, Problem
from compiler.kernels.gpu.templates.gemm.tiles import Tile, fits_order, in_order
from compiler.target.target import GpuTarget

NEIGHBOURS, REACH = 4, 3.0
"""How many similar problems are asked, and how many doublings of m, n, k and count away at most."""

BEST = 3
"""How many of the measured tiles are measured again."""

OTHERS = ("attention", "grouped", "rows", "stem")
"""How keys of other templates begin."""


def tile_for(problem: Problem, target: GpuTarget) -> Tile:
    """The tile to build: measured, transferred from similar problems, or of the least estimate."""
    known = entries(target)
    entry = known.get(key_of(problem, target)) or known.get(_wide_key(problem, target))
    fits = set(candidates(problem, target)) if known else set[Tile]()
    tiles = (Tile(*x.tile) for x in entry.ranked) if entry else ()
    measured = next((t for t in tiles if _fits(problem, t, target, fits)), None)
    if measured:
        return measured
    return transferred(problem, target, known, fits) or choose_tile(problem, target)


def near_recorded(problem: Problem, target: GpuTarget, fits: Collection[Tile]) -> list[Tile]:
    """The best that were measured, then tiles that differ from them in one thing.

    Those copy a tile's part of an image once for all taps, or have half or twice the shares.
    """
    entry = recorded(key_of(problem, target), target)
    best = [in_order(Tile(*x.tile)) for x in entry.ranked[:BEST]] if entry else []
    best = [tile for tile in dict.fromkeys(best) if _fits(problem, tile, target, fits)]
    near = [*best]
    for own in best:
        patched = (t for t in fits if t.patch and replace(t, patch=False).shape == own.shape)
        near += sorted(patched, key=lambda tile: abs(tile.shares - own.shares))[:1]
    for own in best[:1]:
        alike = (t for t in _alike(problem, own, target, fits) if t.wide == own.wide)
        near += sorted(alike, key=lambda tile: tile.shares)
    return list(dict.fromkeys(near))


def contender(problem: Problem, target: GpuTarget) -> Contender:
    """How fast a problem's best tile is, to be compared with other kernels of its group."""
    time = estimate(problem, choose_tile(problem, target), target)
    return Contender(recorded(key_of(problem, target), target), time)


def _fits(problem: Problem, tile: Tile, target: GpuTarget, fits: Collection[Tile]) -> bool:
    """Whether a tile is one of those that fit, but for how it overlaps with its neighbours.

    A wide tile may have any number of stages that there is room for.
    """
    wide = tile.wide and has_wide_room(problem, tile, target)
    return (wide or in_order(tile) in fits) and fits_order(problem, tile, target)


def key_of(problem: Problem, target: GpuTarget) -> str:
    """What decides the speed of a problem's tiles; what follows the sums is left out."""
    packed = [number for number, _ in problem.packings]
    fields = (
        *(_precision(problem, target), problem.dtype),
        *(problem.m, problem.n, problem.k, problem.count, int(problem.form)),
        *(problem.a_row, problem.b_row, problem.left in packed, problem.right in packed),
        problem.block,
        astuple(problem.gather),
    )
    return json.dumps(fields, separators=(",", ":"))


def _wide_key(problem: Problem, target: GpuTarget) -> str:
    """The key of the same problem in tf32, whose operands in 32 bits are copied alike.

    Of 23 problems on an H200, those in fp16 took 0.97 of that time in the median, 0.78 to 1.26.
    """
    short = target.has_tf32 and target.precision in ("fp16", "bf16")
    wide = problem.element_bytes == 4 and short
    return key_of(problem, replace(target, precision="tf32")) if wide else ""


def _precision(problem: Problem, target: GpuTarget) -> str:
    return target.precision if problem.element_bytes == 4 else problem.dtype


def problem_of(key: str) -> Problem:
    """A problem with this key, of which only the speed can be estimated."""
    _, dtype, m, n, k, count, form, a_row, b_row, left, right, block, gather = json.loads(key)
    packings = tuple((i, "") for i, packed in enumerate((left, right)) if packed)
    image = Gather(*(tuple(x) if isinstance(x, list) else x for x in gather))
    sizes: tuple[Any, ...] = (m, n, k, count, dtype, Form(form), a_row, b_row, 0, 1, image)
    return Problem(*sizes, "0", "0", ("z", "m", "n"), packings, block)


def transferred(
    problem: Problem,
    target: GpuTarget,
    known: Mapping[str, Entry],
    fits: Collection[Tile],
) -> Tile | None:
    """The tile of those that fit that should be fastest by what similar ones took; None without.

    A similar problem's time of a tile counts by the ratio of both problems' estimates. Wide tiles,
    which similar problems may not have, count by their own estimates.
    """
    predicted: dict[Tile, float] = {}
    for entry in neighbours(key_of(problem, target), known):
        other = problem_of(entry.key)
        for measured in entry.tiles:
            for tile in _alike(problem, Tile(*measured.tile), target, fits):
                ratio = estimate(problem, tile, target) / estimate(
                    other, Tile(*measured.tile), target
                )
                predicted.setdefault(tile, measured.warm * ratio)
    if predicted:
        for tile in fits:
            if tile.wide and is_measured(tile):
                predicted.setdefault(tile, 1e3 * estimate(problem, tile, target))
    return min(predicted, key=lambda tile: predicted[tile], default=None)


def _alike(problem: Problem, tile: Tile, target: GpuTarget, fits: Collection[Tile]) -> list[Tile]:
    """The tiles that fit of the same shape, with as many shares or with half or twice as many.

    They overlap with their neighbours as the given one does.
    """
    found = [
        replace(each, early=tile.early, release=tile.release)
        for each in fits
        if each.shape == tile.shape and tile.shares <= 2 * each.shares <= 4 * tile.shares
    ]
    return [each for each in found if _fits(problem, each, target, fits)]


def is_contraction(key: str) -> bool:
    """Whether a key is of a contraction, not of another template."""
    return _fields(key)[0] not in OTHERS


def neighbours(key: str, known: Mapping[str, Entry]) -> list[Entry]:
    """The entries of the most similar other problems, the nearest first."""
    wanted = _fields(key)
    found = [
        (off, other, entry)
        for other, entry in known.items()
        if other != key and (off := _distance(wanted, _fields(other))) <= REACH
    ]
    return [entry for _, _, entry in sorted(found, key=lambda each: each[:2])[:NEIGHBOURS]]


@cache
def _fields(key: str) -> list[Any]:
    return json.loads(key)


def _distance(one: list[Any], other: list[Any]) -> float:
    """Doublings between the sizes of two keys; infinite where the kernels differ in kind."""
    if _kind(one) != _kind(other):
        return float("inf")
    return sum(abs(log2(a / b)) for a, b in zip(one[2:6], other[2:6], strict=True))


def _kind(key: list[Any]) -> tuple[Any, ...]:
    """Precision, type, form, packings, and whether there are taps, strides, padding, blocks.

    Keys of other templates begin with a name, which is their kind.
    """
    if key[0] in OTHERS:
        return (key[0],)
    gather = Gather(*(tuple(x) if isinstance(x, list) else x for x in key[12]))
    strided, many = gather.strides != (1, 1, 1), gather.taps > 1
    return (*key[:2], key[6], *key[9:11], key[11] > 0, strided, many, gather.transposed)
