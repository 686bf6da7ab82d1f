"""What the code objects inside of a HIP library say of their kernels."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
SPILLS = re.compile(
    r"\.sgpr_spill_count: (\d+)\s+\.symbol: +(\S+)\.kd\n[^-]*?\.vgpr_spill_count: (\d+)"
)


def readelf() -> str:
    """The newest llvm-readelf."""
    plain = shutil.which("llvm-readelf")
    versions = sorted(Path("/usr/lib").glob("llvm-*/bin/llvm-readelf"))
    assert plain or versions, "there is no llvm-readelf: install llvm"
    return plain or str(versions[-1])


def code_objects(library: bytes) -> Iterator[tuple[str, bytes]]:
    """The architecture and the ELF file of every code object in a library."""
    start = library.find(MAGIC)
    while start >= 0:
        at = start + len(MAGIC)
        count = int.from_bytes(library[at : at + 8], "little")
        at += 8
        for _ in range(count):
            offset, size, length = (
                int.from_bytes(library[at + 8 * i : at + 8 * i + 8], "little") for i in range(3)
            )
            triple = library[at + 24 : at + 24 + length].decode()
            at += 24 + length
            if size and "amdgcn" in triple:
                code = library[start + offset : start + offset + size]
                yield triple.rpartition("-")[2], code
        start = library.find(MAGIC, at)


def resources(library: Path) -> dict[str, int]:
    """Spilled registers of every kernel, by `architecture name`."""
    found: dict[str, int] = {}
    with tempfile.NamedTemporaryFile() as file:
        for architecture, code in code_objects(library.read_bytes()):
            Path(file.name).write_bytes(code)
            command = [readelf(), "--notes", file.name]
            notes = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            for scalars, symbol, vectors in SPILLS.findall(notes):
                found[f"{architecture} {symbol}"] = int(scalars) + int(vectors)
    return found
