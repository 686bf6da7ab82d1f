"""The rows of `benchmarks/cpu_zoo.py` as a table, and the means of their ratios."""

from collections.abc import Iterable
from statistics import geometric_mean
from typing import Any

from benchmarks.cpu.runtimes import PEERS

Row = dict[str, Any]


def means(rows: list[Row], threads: int) -> str:
    """A line for each ratio with its geometric mean over the rows that have it, and the losses."""
    keys = ("ratio", "default", *(f"to {peer}" for peer in PEERS))
    found = {key: [row[key] for row in rows if key in row] for key in keys}
    return "\n".join(
        f"geometric mean, {threads} threads: {key} {geometric_mean(values):.3f}"
        f" ({sum(value > 1 for value in values)} of {len(values)} are losses)"
        for key, values in found.items()
        if values
    )


def table(rows: list[Row]) -> str:
    """Markdown: times and ratios of each model by threads, ratios above 1 in bold; the means."""
    counts = sorted({row["threads"] for row in rows})
    by_key = {(row["model"], row["threads"]): row for row in rows}
    names = [f"{column}, {n} thr." for n in counts for column in (*PEERS, "ours", *_ratios())]
    lines = ["| model | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for model in sorted({row["model"] for row in rows}):
        cells = [cell for n in counts for cell in _cells(by_key.get((model, n), {}))]
        lines.append(f"| {model.removeprefix('field:')} | {' | '.join(cells)} |")
    for count in counts:
        lines += ["", means([row for row in rows if row["threads"] == count], count)]
    return "\n".join(lines)


def _ratios() -> tuple[str, ...]:
    return (*(f"to {peer}" for peer in PEERS), "ratio")


def _cells(row: Row) -> Iterable[str]:
    ours = [value for key, value in row.items() if key.startswith("streams=")]
    for value in (*(row.get(peer) for peer in PEERS), min(ours, default=None)):
        yield "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"
    for value in (row.get(key) for key in _ratios()):
        yield "-" if value is None else f"**{value:.2f}**" if value > 1 else f"{value:.2f}"
