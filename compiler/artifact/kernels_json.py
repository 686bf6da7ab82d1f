"""The table of an artifact's kernels as JSON: everything of them but their code and source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

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
    table: list[dict[str, object]] = []
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


def _entry(value: object, path: str) -> KernelEntry:
    entry = read.as_object(value, path)
    language = read.checked_one_of(entry.get("language"), SUFFIXES, f"{path}.language")
    spec = KernelSpec(
        name=read.string(entry, "name", path),
        language=cast(Literal["object", "cuda", "hip", "emu"], language),
        code=b"",
        launches=read.checked_sequence(entry, "launches", path, _launch),
        packings=read.checked_sequence(entry, "packings", path, read.text),
        workspaces=read.checked_sequence(entry, "workspaces", path, read.natural),
        flops=read.natural(entry.get("flops"), f"{path}.flops"),
        traffic_bytes=read.natural(entry.get("traffic_bytes"), f"{path}.traffic_bytes"),
        serial_ns=read.natural(entry.get("serial_ns", 0), f"{path}.serial_ns"),
        estimated_ns=read.natural(entry.get("estimated_ns", 0), f"{path}.estimated_ns"),
        reads=read.checked_sequence(entry, "reads", path, _operand),
        writes=read.checked_sequence(entry, "writes", path, _operand),
        footprint=_footprint(entry.get("footprint"), f"{path}.footprint"),
    )
    return KernelEntry(spec, read.string(entry, "code", path), read.string(entry, "source", path))


def _operand(value: object, path: str) -> Operand:
    entry = read.as_object(value, path)
    shape = read.checked_sequence(entry, "shape", path, read.natural)
    return Operand(read.dtype(entry.get("dtype"), f"{path}.dtype"), shape)


def _footprint(value: object, path: str) -> Footprint:
    entry = read.as_object(value, path)
    return Footprint(
        read_launches=read.checked_sequence(entry, "read_launches", path, read.text),
        accesses=read.natural(entry.get("accesses"), f"{path}.accesses"),
        by_solver=read.natural(entry.get("by_solver"), f"{path}.by_solver"),
        by_enumeration=read.natural(entry.get("by_enumeration"), f"{path}.by_enumeration"),
        undecided=read.checked_sequence(entry, "undecided", path, read.text),
    )


def _launch(value: object, path: str) -> Launch:
    entry = read.as_object(value, path)
    return Launch(
        symbol=read.string(entry, "symbol", path),
        args=read.checked_sequence(entry, "args", path, read.natural),
        grid=_triple(entry, "grid", path),
        block=_triple(entry, "block", path),
        shared_bytes=read.natural(entry.get("shared_bytes"), f"{path}.shared_bytes"),
        registers=read.natural(entry.get("registers"), f"{path}.registers"),
        static_shared_bytes=read.natural(
            entry.get("static_shared_bytes"), f"{path}.static_shared_bytes"
        ),
        programmatic=read.boolean(entry.get("programmatic"), f"{path}.programmatic"),
        indirect=read.string(entry, "indirect", path),
    )


def _triple(entry: dict[str, object], key: str, path: str) -> tuple[int, int, int]:
    numbers = read.checked_sequence(entry, key, path, read.natural)
    if len(numbers) != 3:
        raise ArtifactError(f"{path}.{key} does not have three numbers")
    return numbers
