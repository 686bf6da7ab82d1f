"""The record of a kernel that was built."""

from typing import Literal

from compiler.kernels.group import Group
from compiler.kernels.sizes import hinted
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import KernelSpec

Language = Literal["cuda", "hip", "emu", "object"]


def kernel_spec(
    group: Group, kernel: KernelSource, language: Language, code: bytes, source: str = ""
) -> KernelSpec:
    """A group's kernel with its code, and the complete text that a GPU's was compiled from."""
    return KernelSpec(
        name=group.name,
        language=language,
        code=code,
        launches=kernel.launches,
        packings=packings_of_reads(group, kernel),
        workspaces=kernel.workspaces,
        flops=kernel.flops,
        traffic_bytes=hinted(group).traffic_bytes,
        serial_ns=kernel.serial_ns,
        estimated_ns=kernel.estimated_ns,
        source=source,
        footprint=kernel.footprint,
        symbols=group.symbols,
    )


def packings_of_reads(group: Group, kernel: KernelSource) -> tuple[str, ...]:
    """The packings of all that a kernel reads: of a group with symbols their values, too."""
    return (kernel.packings or ("",) * group.inputs) + ("",) * bool(group.symbols)
