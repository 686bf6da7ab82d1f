"""Rows of the benchmark: kept in a JSON file as they are finished, and printed as tables."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Key = tuple[str, int, str, str]
"""Model, batch, precision, and where the weights come from."""

COLUMNS = {
    "eager": "eager",
    "graph": "graph",
    "opara": "opara",
    "compile": "compile",
    "max-autotune": "autotune",
    "ours-1": "ours 1",
    "ours": "ours",
    "untuned": "untuned",
    "default": "default",
}
"""Contenders in the table's order, and their headings."""

SAME_MODEL = 1e-3
"""Largest difference of PyTorch's and onnxruntime's outputs of one model, in the same norm."""

PEERS = ("eager", "graph", "opara", "compile", "max-autotune")
OURS = ("default", "ours", "untuned", "ours-1")
"""Ours: the first of them that a row has is the one compared with the peers."""


def key_of(row: Mapping[str, Any]) -> Key:
    """The subject of a row."""
    return row["model"], row["batch"], row["precision"], row["weights"]


def fields(key: Key) -> Row:
    """A row that is about this and holds nothing yet."""
    return dict(zip(("model", "batch", "precision", "weights"), key, strict=True))


def read(path: Path) -> dict[str, Any]:
    """The file's machine and rows; none if there is no file."""
    if not path.exists():
        return {"machine": {}, "rows": []}
    return json.loads(path.read_text())


def write(path: Path, row: Row, machine: Mapping[str, Any]) -> None:
    """Put a row into the file, in place of an older one about the same."""
    content = read(path)
    others = [old for old in content["rows"] if key_of(old) != key_of(row)]
    _replace(path, {"machine": {**content["machine"], **machine}, "rows": [*others, row]})


def forget_failed(path: Path) -> None:
    """Drop the rows that were given up, and those in which ours failed."""
    content = read(path)
    kept = [row for row in content["rows"] if "error" not in row and not lacks_ours(row)]
    _replace(path, {**content, "rows": kept})


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    scratch.write_text(json.dumps(content, indent=1))
    scratch.replace(path)


def finished(rows: Sequence[Row], key: Key, contenders: Sequence[str]) -> bool:
    """Whether a row of the file has every contender, measured or failed."""
    return any(key_of(row) == key and set(contenders) <= set(row["contenders"]) for row in rows)


def figure(row: Row, contender: str, method: str) -> float | None:
    """The median microseconds of a contender by one method, or None."""
    times = row["contenders"].get(contender, {}).get("times", {})
    return times[method]["median"] if method in times else None


def best_peer(row: Row, method: str) -> tuple[str, float] | None:
    """The fastest of the peers, and its microseconds."""
    times = {name: figure(row, name, method) for name in PEERS}
    known = {name: time for name, time in times.items() if time is not None}
    return min(known.items(), key=lambda item: item[1]) if known else None


def compared(row: Row) -> str:
    """Our contender that stands for us in a row."""
    return next((name for name in OURS if name in row["contenders"]), "ours")


def table(rows: Sequence[Row], method: str) -> str:
    """All rows as text; `method` is `device` or `wall`."""
    shown = [n for n in COLUMNS if any(n in row["contenders"] for row in rows)]
    head = f"{'model':14} {'b':>3} {'prec':5}" + "".join(f"{COLUMNS[n]:>9}" for n in shown)
    head += f"{'peer/ours':>10}  {'compile: kernels':>16}{'busy':>7}"
    head += f"  {'ours: kernels':>13}{'busy':>7}{'path':>7}{'floor':>7}  checked"
    return "\n".join([head, *(_line(row, shown, method) for row in rows)])


def _line(row: Row, shown: Sequence[str], method: str) -> str:
    line = f"{row['model']:14} {row['batch']:>3} {row['precision']:5}"
    line += "".join(f"{_time(row, name, method):>9}" for name in shown)
    line += f"{_ratio(row, method):>10}"
    compiled, ours = row["contenders"].get("compile", {}), row["contenders"].get(compared(row), {})
    line += f"  {_fact(compiled, 'kernels'):>16}{_fact(compiled, 'busy_us'):>7}"
    line += f"  {_fact(ours, 'kernels'):>13}{_fact(ours, 'busy_us'):>7}"
    line += f"{_fact(ours, 'critical_path_us'):>7}{_number(row.get('floor_us')):>7}"
    return f"{line}  {_verdict(row)}"


def _time(row: Row, contender: str, method: str) -> str:
    if "error" in row["contenders"].get(contender, {}):
        return "failed"
    return _number(figure(row, contender, method), digits=1)


def _ratio(row: Row, method: str) -> str:
    peer, ours = best_peer(row, method), figure(row, compared(row), method)
    return f"{peer[1] / ours:.2f}x" if peer and ours else "-"


def _fact(contender: Mapping[str, Any], name: str) -> str:
    return _number(contender.get("facts", {}).get(name))


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def wrong(row: Row) -> list[str]:
    """The contenders whose outputs are not within bounds of their reference."""
    return [name for name, found in row["contenders"].items() if found.get("correct") is False]


def lacks_ours(row: Row) -> list[str]:
    """Our contenders that have no figure, though they were asked for."""
    found = row["contenders"]
    return [name for name in OURS if "error" in found.get(name, {})]


def _verdict(row: Row) -> str:
    if not any("correct" in found for found in row["contenders"].values()):
        return "nothing"
    verdict = f"WRONG: {', '.join(wrong(row))}" if wrong(row) else "ok"
    difference = row.get("references_differ")
    agree = difference is not None and difference <= SAME_MODEL
    return f"{verdict}, {'same' if agree else 'other'} weights"


def notes(rows: Sequence[Row]) -> str:
    """One line for each failure, and how outputs were checked."""
    lines = [
        f"{row['model']} batch {row['batch']} {row['precision']} {name}: {found['error']}"
        for row in rows
        for name, found in row["contenders"].items()
        if "error" in found and "error" not in row
    ]
    lines += [
        f"{row['model']} batch {row['batch']} {row['precision']}: {row['error']}"
        for row in rows
        if "error" in row
    ]
    return "\n".join(lines)
