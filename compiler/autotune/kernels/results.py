"""Measurements as JSON lines, added one by one, so that a killed run loses nothing."""

import json
import lzma
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compiler.errors import ArtifactError
from compiler.kernels.database.fields import (
    Config,
    Interval,
    as_config,
    as_interval,
    problem_fields,
    problem_key,
)
from compiler.support.caches import read_regular, write_whole

FORMAT = 3

XZ = b"\xfd7zXZ\0"
"""How a compressed file begins."""


Identity = tuple[str, Config, str]
"""A measurement's key, config and version."""


@dataclass(frozen=True, slots=True)
class Result:
    """A candidate's nanoseconds, or why it has none; `weight` is that of its kernel.

    `version` is the hash of its template's code, `interval` the 95 % interval of the warm time.
    """

    key: str
    config: Config
    version: str = ""
    warm: float | None = None
    cold: float | None = None
    problem: str = ""
    weight: float = 0.0
    interval: Interval | None = None

    @property
    def identity(self) -> Identity:
        """The key of a measurement."""
        return self.key, self.config, self.version


@dataclass(frozen=True, slots=True, order=True)
class Header:
    """The origin of results: an architecture, a device and the compiler of its code."""

    arch: str
    device: str
    compiler: str


class ResultList:
    """The results of one device and one compiler in memory; `found` may begin with known ones."""

    def __init__(self, results: Iterable[Result] = ()) -> None:
        self.found = list(results)

    def add(self, result: Result) -> None:
        """Keep a result."""
        self.found.append(result)


class ResultFile(ResultList):
    """The results of one device and one compiler; `found` are those of before.

    Raises ArtifactError when the file belongs to others. A truncated last line is dropped.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header) -> None:
        super().__init__()
        self.path = Path(path)
        if self.path.exists() and self.path.stat().st_size:
            existing, self.found = load_results(self.path)
            if existing != header:
                raise ArtifactError(
                    f"{path} holds results of {existing}, not {header}: name another"
                )
        lines = [asdict(header) | {"format": FORMAT}, *map(_line, self.found)]
        write_whole(self.path, "".join(json.dumps(line) + "\n" for line in lines).encode())
        self._file = self.path.open("a", encoding="utf-8")

    def add(self, result: Result) -> None:
        """Write a result down."""
        self._file.write(json.dumps(_line(result)) + "\n")
        self._file.flush()
        super().add(result)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def load_results(path: str | os.PathLike[str]) -> tuple[Header, list[Result]]:
    """Read results; raises ArtifactError if the file is none. A torn last line is left out."""
    try:
        content = read_regular(path)
        text = (lzma.decompress(content) if content[:6] == XZ else content).decode()
        first, *lines = text[: text.rfind("\n") + 1].splitlines()
        fields: dict[str, Any] = json.loads(first)
        if fields.pop("format") != FORMAT:
            raise ArtifactError(f"{path} has another format than {FORMAT}: measure again")
        return Header(**fields), [_result(json.loads(line)) for line in lines]
    except (OSError, ValueError, LookupError, TypeError, RecursionError, lzma.LZMAError) as error:
        raise ArtifactError(f"{path} holds no measurements ({error}): measure again") from error


def _line(result: Result) -> dict[str, Any]:
    """A result as JSON, its problem and config by named fields."""
    fields: dict[str, Any] = asdict(result) | {"config": dict(result.config)}
    del fields["key"]
    return {"of": problem_fields(result.key), **fields}


def _result(fields: dict[str, Any]) -> Result:
    key: dict[str, Any] = fields.pop("of")
    fields["config"] = as_config(fields["config"])
    if interval := fields.get("interval"):
        fields["interval"] = as_interval(interval)
    return Result(key=problem_key(key.pop("template"), key), **fields)
