"""Measurements into the database of tiles."""

from collections.abc import Iterable

from compiler.kernels.database import KEPT, Entry, Measured
from compiler.profile.database import COLD_SHARE
from compiler.tuning.results import Header, Result


def in_a_run(result: Result) -> float:
    """Nanoseconds between other kernels: mostly as with warm caches."""
    warm = result.warm or 0.0
    return warm + COLD_SHARE * max(0.0, (result.cold or warm) - warm)


def entries_of(header: Header, results: Iterable[Result]) -> list[Entry]:
    """The fastest right candidates of each kernel; none where most candidates were wrong."""
    by_key: dict[str, list[Result]] = {}
    for result in results:
        by_key.setdefault(result.key, []).append(result)
    return [
        Entry(key, header.device, header.version, tiles)
        for key, found in by_key.items()
        if (tiles := _fastest(found))
    ]


def _fastest(results: list[Result]) -> tuple[Measured, ...]:
    right = [result for result in results if result.warm is not None]
    wrong = sum(result.problem.startswith("wrong") for result in results)
    if wrong > len(right):
        return ()
    right.sort(key=lambda r: (r.cold is None, in_a_run(r)))
    return tuple(Measured(r.tile, r.warm or 0.0, r.cold) for r in right[:KEPT])


def merged(old: Iterable[Entry], new: Iterable[Entry]) -> list[Entry]:
    """Both databases' entries; of one problem the new one's, with the old one's other tiles.

    Tiles of other templates or another device are not kept beside those of the new ones.
    """
    entries = {entry.key: entry for entry in old}
    for entry in new:
        before = entries.get(entry.key)
        alike = before and (before.device, before.version) == (entry.device, entry.version)
        tiles = {each.tile: each for each in (*(before.tiles if before and alike else ()),)}
        tiles |= {each.tile: each for each in entry.tiles}
        ranked = sorted(tiles.values(), key=lambda each: (each.cold is None, _time(each)))
        kept = tuple(ranked[:KEPT])
        entries[entry.key] = Entry(entry.key, entry.device, entry.version, kept)
    return list(entries.values())


def _time(measured: Measured) -> float:
    cold = measured.cold or measured.warm
    return measured.warm + COLD_SHARE * max(0.0, cold - measured.warm)
