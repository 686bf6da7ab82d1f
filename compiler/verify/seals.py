"""The seal of a kernel: a digest of its table and its code, which the build writes into the code.

The table is all that a `KernelSpec` says: the launches with number, order and role of their
arguments, grids and blocks, the types of the operands, workspaces, the source. The seal follows the
last byte of the compiled object: loaders of ELF files and of zip archives go by headers, which do
not mention it, and it travels with the code through pickles and artifacts.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from compiler.errors import KernelError
from compiler.schedule.kernels import KernelSpec

_MARK = b"\nflowloom-seal-1 "
_SEAL_BYTES = len(_MARK) + 2 * hashlib.sha256().digest_size + 1


def sealed_kernel(kernel: KernelSpec) -> KernelSpec:
    """The kernel with a seal of what it is now, in place of any older one."""
    code = unsealed_code(kernel)
    return replace(kernel, code=code + _seal_of(kernel, code))


def unsealed_code(kernel: KernelSpec) -> bytes:
    """The code of a kernel without its seal."""
    return kernel.code[:-_SEAL_BYTES] if _seal_at_end(kernel.code) else kernel.code


def kernel_seal(kernel: KernelSpec) -> bytes:
    """The seal at the end of a kernel's code; empty without one."""
    return _seal_at_end(kernel.code)


def kernel_table(kernel: KernelSpec) -> dict[str, object]:
    """All of a kernel but its code and source, as plain data."""
    table = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    del table["code"], table["source"]
    if not kernel.symbols:
        del table["symbols"]  # so that older seals of kernels for one size hold
    return {name: _plain(value) for name, value in table.items()}


def _plain(value: Any) -> Any:
    """A value with dataclasses as mappings; `asdict` would copy each number of a launch."""
    if isinstance(value, tuple):
        return tuple(map(_plain, cast(tuple[Any, ...], value)))
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value


def check_seals(kernels: Mapping[str, KernelSpec]) -> None:
    """Raise KernelError, naming the kernel, unless all are as they were when they were built."""
    for name, kernel in kernels.items():
        if name != kernel.name:
            raise KernelError(f"the kernel '{kernel.name}' is used as '{name}': use its own name")
        seal = kernel_seal(kernel)
        if not seal:
            raise KernelError(
                f"the kernel '{name}' has no seal of its build: compile the model again, or seal a"
                " kernel that you built yourself by compiler.verify.seals.sealed_kernel"
            )
        if seal != _seal_of(kernel, memoryview(kernel.code)[:-_SEAL_BYTES]):
            raise KernelError(
                f"the kernel '{name}' is not as it was built: its code, its source or its table of"
                " launches, operands and workspaces was changed; compile the model again"
            )


def sealed_library(library: bytes, certified: str) -> bytes:
    """A module's library with a seal of it and of the certificate of what it was linked from."""
    return library + _library_seal(library, certified)


def check_library(library: bytes, certified: str) -> None:
    """Raise KernelError unless a library was linked from the schedule and kernels of a certificate.

    `certified` is the certificate's digest.
    """
    if _seal_at_end(library) != _library_seal(memoryview(library)[:-_SEAL_BYTES], certified):
        raise KernelError(
            "the module's library was not linked from this schedule and these kernels: compile the"
            " model again"
        )


def _seal_at_end(code: bytes) -> bytes:
    seal = code[-_SEAL_BYTES:]
    return seal if len(seal) == _SEAL_BYTES and seal.startswith(_MARK) else b""


def _seal_of(kernel: KernelSpec, code: bytes | memoryview) -> bytes:
    table = json.dumps(kernel_table(kernel), sort_keys=True, default=str)
    return _seal(table.encode(), code, kernel.source.encode())


def _library_seal(library: bytes | memoryview, certified: str) -> bytes:
    return _seal(certified.encode(), library)


def _seal(*contents: bytes | memoryview) -> bytes:
    digest = hashlib.sha256()
    for content in contents:
        # The length first: bytes moved from one content to the next must change the digest.
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return _MARK + digest.hexdigest().encode() + b"\n"
