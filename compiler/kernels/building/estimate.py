"""A group's kernel before it is built: its launches, and the time that its template expects."""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import lru_cache

from compiler.graph.attention import Attention
from compiler.kernels.building.kernel import LOWERING_MODULES as LOWERING_MODULES  # registers them
from compiler.kernels.building.select import best, entries
from compiler.kernels.database import Entry
from compiler.kernels.database.fields import problem_fields
from compiler.kernels.gpu.epilogue import without_text
from compiler.kernels.gpu.templates.attention.problem import read_chunks, read_strides
from compiler.kernels.group import Group
from compiler.kernels.same import Same
from compiler.kernels.sizes import hinted
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import GpuTarget

TYPICAL_REGISTERS = 64
"""Registers of a thread of a template's kernel, where it is not compiled."""


def estimated(group: Group, target: GpuTarget) -> KernelSpec:
    """The kernel that would be built for a group, without code and counted work.

    That of a group with symbols is the one for the example sizes. It takes about a millisecond.
    """
    group = hinted(group)
    choice = best(group, target)
    with without_text():
        emitted = choice.launches()
    launches = tuple(
        replace(launch, registers=launch.registers or TYPICAL_REGISTERS) for launch in emitted
    )
    packings = ("",) * group.inputs
    return KernelSpec(group.name, "cuda", b"", launches, packings, estimated_ns=choice.estimated_ns)


def layout_key(attention: Attention, target: GpuTarget) -> Hashable:
    """The part of an attention's layout that its estimate depends on: whether the operands are
    copied in chunks, and their strides if the database has some attention with these."""
    strides = read_strides(attention)
    measured = strides in _measured_strides(Same(entries(target)))
    return read_chunks(attention), strides if measured else ()


@lru_cache(1)
def _measured_strides(known: Same[Mapping[str, Entry]]) -> frozenset[tuple[int, ...]]:
    """The strides of the attentions that were measured."""
    names = [f"{o}_{axis}_stride" for o in ("query", "key", "value") for axis in ("row", "column")]
    measured = (problem_fields(key) for key in known.value if '"attention"' in key)
    strides = ([fields.get(name) for name in names] for fields in measured)
    return frozenset(tuple(s for s in own if isinstance(s, int)) for own in strides)
