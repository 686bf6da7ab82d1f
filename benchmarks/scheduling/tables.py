"""Tables and a picture of what was measured."""

from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from typing import Any

from benchmarks.scheduling.policies import AUTO, PART_SIZES, POLICIES, TABLE_4

Row = dict[str, Any]


def names(rows: Sequence[Row]) -> list[str]:
    """The schedules that all tables have a row for: ours, those of users, and the search's."""
    known = {*POLICIES, *TABLE_4, *PART_SIZES, AUTO}
    compared = [name for row in rows for name in (*row["policies"], *row["refused"])]
    own = [name for name in dict.fromkeys(compared) if name not in known]
    return [*POLICIES, *own, AUTO]


def mode_of(row: Row) -> str:
    """The mode that policies are compared in: one graph, or the CPU's streams."""
    return next(iter(next(iter(row["policies"].values()))["simulated us"]))


def times_of(figures: Row) -> Row:
    """Microseconds by mode: measured where anything was, else simulated."""
    return figures.get("measured us") or figures["simulated us"]


def markdown(rows: Sequence[Row]) -> str:
    """A table a model, the speed-ups of all models, what `auto` did, and the ablations."""
    parts = [_model(row) for row in rows]
    if len(rows) > 1:
        parts.append(_speedups(rows))
    if searched := [row for row in rows if AUTO in row["policies"]]:
        parts.append(_searches(searched))
    parts += [_ablations(row) for row in rows if set(TABLE_4) <= set(row["policies"])]
    return "\n\n".join(parts)


def _table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in (head, rule, *lines))


def _model(row: Row) -> str:
    mode = mode_of(row)
    head = ["policy", "simulated", "measured", "streams", "waits before", "after", "arena MB"]
    lines = [
        [
            name,
            f"{p['simulated us'][mode]:.0f}",
            _measured(p, mode),
            p["streams"],
            p["waits before elision"],
            p["waits"],
            f"{p['arena bytes'] / 1e6:.1f}",
            f"{1e3 * p['search seconds']:.0f}",
        ]
        for name, p in row["policies"].items()
        if name in names([row])
    ]
    refused = "".join(f"\n{name}: {why}" for name, why in row["refused"].items())
    title = f"{row['model']}, {row['target']}, {mode}"
    return f"**{title}**\n\n{_table([*head, 'search ms'], lines)}\n{refused}"


def _measured(figures: Row, mode: str) -> str:
    if "measured us" not in figures:
        return "-"
    return f"{figures['measured us'][mode]:.0f}" + ("" if figures["same bits"] else " WRONG")


def _speedups(rows: Sequence[Row]) -> str:
    """One stream's time over each policy's."""
    lines: list[list[str]] = []
    for name in names(rows):
        ratios = [_ratio(row, name) for row in rows]
        known = [ratio for ratio in ratios if ratio]
        mean = exp(sum(map(log, known)) / len(known)) if known else 0.0
        lines.append([name, *(f"{r:.2f}" if r else "-" for r in ratios), f"{mean:.2f}"])
    return _table(["one stream over", *(row["model"] for row in rows), "mean"], lines)


def _ratio(row: Row, name: str) -> float:
    mode = mode_of(row)
    if name not in row["policies"]:
        return 0.0
    found = row["policies"]
    return times_of(found["sequential"])[mode] / times_of(found[name])[mode]


def _searches(rows: Sequence[Row]) -> str:
    """The results of the search by the simulator: microseconds, and seconds of one core."""
    head = ["model", "groups", "one stream", "best policy", "its name", "moved", "bound", "gap"]
    lines: list[list[object]] = []
    for row in rows:
        figures = row["policies"][AUTO]
        found, placing = figures["search"], figures["policies' seconds"]
        moving = figures["search seconds"] - placing
        first, best, bound = found["started_at"], found["moved"], max(found["bound"].values())
        one = found["policies"]["sequential-1/none/source"]
        line = [row["model"], row["policies"]["sequential"]["tasks"]]
        line += [f"{time / 1e3:.1f}" for time in (one, first)]
        line += [
            found["start"],
            f"{best / 1e3:.1f}",
            f"{bound / 1e3:.1f}",
            f"{best / bound - 1:.0%}",
        ]
        line += [f"{found['steps']} / {found['kept']}", f"{placing:.2f}"]
        lines.append([*line, f"{found['steps'] / max(moving, 1e-9):,.0f}"])
    return _table([*head, "tried / kept", "policies, s", "moves/s"], lines)


def _ablations(row: Row) -> str:
    modes = list(times_of(row["policies"]["sequential"]))
    lines = [
        [name, *(f"{times_of(row['policies'][name])[mode]:.0f}" for mode in modes)]
        for name in (*TABLE_4, *PART_SIZES)
        if name in row["policies"]
    ]
    return f"**{row['model']}, ablations**\n\n" + _table(["schedule", *modes], lines)


def picture(rows: Sequence[Row], path: Path) -> None:
    """Speed-up over one stream, a group of bars a model; needs matplotlib."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(14, 5))
    bars = [name for name in names(rows) if name != "sequential"]
    for index, name in enumerate(bars):
        places = [i + (index - len(bars) / 2) * 0.9 / len(bars) for i in range(len(rows))]
        color = pyplot.colormaps["tab20"](index)
        ratios = [_ratio(row, name) for row in rows]
        axes.bar(places, ratios, 0.9 / len(bars), label=name, color=color)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(rows)), [row["model"] for row in rows])
    axes.set_ylabel("speed-up over one stream")
    axes.legend(ncols=5, fontsize="small", loc="upper right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
