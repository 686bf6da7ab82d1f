"""The table of an artifact's kernels as JSON: everything of them but their code and source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from compiler.errors import ArtifactError
from compiler.schedule.kernels import Footprint, KernelSpec, Launch, Operand
from compiler.verify import checked_json as read
from compiler.verify.seals import kernel_table

SUFFIXES = {
    "object": ("o", ""),
    "cuda": ("cubin", "cu"),
    "hip": ("o", "hip"),
    "emu": ("zip", "cu"),
}
"""File name endings of kernels' code and of its source (none on the CPU), by language."""


@dataclass(frozen=True)
class KernelEntry:
    """A kernel without its code and source, and the files that hold them (no source: empty)."""

    kernel: KernelSpec
    code: str
    source: str


def kernel_files(kernels: Mapping[str, KernelSpec]) -> tuple[str, dict[str, bytes]]:
    """The table as text, and the files that it names; names depend on no kernel's name."""
    table: list[dict[str, Any]] = []
    files: dict[str, bytes] = {}
    for position, kernel in enumerate(kernels.values()):
        code, source = (f"kernels/{position:04d}.{end}" for end in SUFFIXES[kernel.language])
        files[code] = kernel.code
        if kernel.source:
            files[source] = kernel.source.encode()
        named = {"code": code, "source": source if kernel.source else ""}
        table.append(kernel_table(kernel) | named)
    return json.dumps(table, indent=1) + "\n", files


def read_kernels(text: bytes, what: str) -> tuple[KernelEntry, ...]:
    """The entries of a table; raises ArtifactError that names the place of what is wrong."""
    return read.checked_sequence({"kernels": read.parse_json(text, what)}, "kernels", what, _entry)


def _entry(value: object, place: str) -> KernelEntry:
    entry = read.as_object(value, place)
    language = read.checked_one_of(entry.get("language"), SUFFIXES, f"{place}.language")
    spec = KernelSpec(
        name=read.string(entry, "name", place),
        language=cast(Literal["object", "cuda", "hip", "emu"], language),
        code=b"",
        launches=read.checked_sequence(entry, "launches", place, _launch),
        packings=read.checked_sequence(entry, "packings", place, read.text),
        workspaces=read.checked_sequence(entry, "workspaces", place, read.natural),
        flops=read.natural(entry.get("flops"), f"{place}.flops"),
        traffic_bytes=read.natural(entry.get("traffic_bytes"), f"{place}.traffic_bytes"),
        serial_ns=read.natural(entry.get("serial_ns", 0), f"{place}.serial_ns"),
        estimated_ns=read.natural(entry.get("estimated_ns", 0), f"{place}.estimated_ns"),
        reads=read.checked_sequence(entry, "reads", place, _operand),
        writes=read.checked_sequence(entry, "writes", place, _operand),
        footprint=_footprint(entry.get("footprint"), f"{place}.footprint"),
    )
    return KernelEntry(spec, read.string(entry, "code", place), read.string(entry, "source", place))


def _operand(value: object, place: str) -> Operand:
    entry = read.as_object(value, place)
    shape = read.checked_sequence(entry, "shape", place, read.natural)
    return Operand(read.dtype(entry.get("dtype"), f"{place}.dtype"), shape)


def _footprint(value: object, place: str) -> Footprint:
    entry = read.as_object(value, place)
    return Footprint(
        read_launches=read.checked_sequence(entry, "read_launches", place, read.text),
        accesses=read.natural(entry.get("accesses"), f"{place}.accesses"),
        by_solver=read.natural(entry.get("by_solver"), f"{place}.by_solver"),
        by_enumeration=read.natural(entry.get("by_enumeration"), f"{place}.by_enumeration"),
        undecided=read.checked_sequence(entry, "undecided", place, read.text),
    )


def _launch(value: object, place: str) -> Launch:
    entry = read.as_object(value, place)
    return Launch(
        symbol=read.string(entry, "symbol", place),
        args=read.checked_sequence(entry, "args", place, read.natural),
        grid=_triple(entry, "grid", place),
        block=_triple(entry, "block", place),
        shared_bytes=read.natural(entry.get("shared_bytes"), f"{place}.shared_bytes"),
        registers=read.natural(entry.get("registers"), f"{place}.registers"),
        static_shared_bytes=read.natural(
            entry.get("static_shared_bytes"), f"{place}.static_shared_bytes"
        ),
        programmatic=read.boolean(entry.get("programmatic"), f"{place}.programmatic"),
        indirect=read.string(entry, "indirect", place),
    )


def _triple(entry: dict[str, Any], key: str, place: str) -> tuple[int, int, int]:
    numbers = read.checked_sequence(entry, key, place, read.natural)
    if len(numbers) != 3:
        raise ArtifactError(f"{place}.{key} does not have three numbers")
    return numbers
