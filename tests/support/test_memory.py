"""Memory that can still be taken of the host, from copies of the files of the system."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from compiler.support import memory

HOST = {"proc/meminfo": "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable:     500 kB\n"}
VERSION_1 = "9:name=systemd:/\n7:blkio:/\n4:cpu,memory:/jobs/one\n0::/elsewhere\n"
VERSION_2 = "0::/jobs/one\n"


def limit_1(group: str, limit: int, used: int, files: int = 0) -> dict[str, str]:
    """The files of a group of version 1."""
    stat = f"inactive_file 77\ntotal_inactive_file {files}\n"
    names = "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"
    texts = f"{limit}\n", f"{used}\n", stat
    return {f"cgroup/memory/{group}{n}": t for n, t in zip(names, texts, strict=True)}


def limit_2(group: str, limit: int | str, used: int, files: int = 0) -> dict[str, str]:
    """The files of a group of version 2."""
    names = "memory.max", "memory.current", "memory.stat"
    texts = f"{limit}\n", f"{used}\n", f"file 99\ninactive_file {files}\n"
    return {f"cgroup/{group}{n}": t for n, t in zip(names, texts, strict=True)}


CASES: dict[str, tuple[Mapping[str, str], int | None]] = {
    "nothing": ({}, None),
    "host": (HOST, 512_000),
    "v2": (limit_2("", 1000, 300), 700),
    "v2, files make room": (limit_2("", 1000, 300, 100), 800),
    "v2, full": (limit_2("", 1000, 1001), 0),
    "v2, no limit": (HOST | limit_2("", "max", 300), 512_000),
    "v2, above the host": (HOST | limit_2("", 1 << 40, 300), 512_000),
    "v2, own group": ({"proc/self/cgroup": VERSION_2} | limit_2("jobs/one/", 900, 200), 700),
    "v2, group around": (
        {"proc/self/cgroup": VERSION_2}
        | limit_2("jobs/one/", 900, 200)
        | limit_2("jobs/", 1000, 600)
        | limit_2("jobs/two/", 10, 10),
        400,
    ),
    "v2, the host's name": ({"proc/self/cgroup": VERSION_2} | limit_2("", 900, 200), 700),
    "v1": (limit_1("", 1000, 300), 700),
    "v1, files make room": (limit_1("", 1000, 300, 100), 800),
    "v1, no limit": (HOST | limit_1("", 0x7FFFFFFFFFFFF000, 300), 512_000),
    "v1, own group": (
        {"proc/self/cgroup": VERSION_1}
        | limit_1("", 0x7FFFFFFFFFFFF000, 5000)
        | limit_1("jobs/one/", 900, 200, 50)
        | limit_1("elsewhere/", 10, 10),
        750,
    ),
    "without usage": ({"cgroup/memory.max": "1000\n"}, 1000),
}


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the files of the system are looked for."""
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "proc/self/cgroup")
    monkeypatch.setattr(memory, "MEMORY_INFORMATION", tmp_path / "proc/meminfo")
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_is_the_least_of_all_limits(name: str, system: Path):
    texts, expected = CASES[name]
    for path, text in texts.items():
        (system / path).parent.mkdir(parents=True, exist_ok=True)
        (system / path).write_text(text)
    assert memory.available_bytes() == expected
