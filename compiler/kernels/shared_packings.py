"""The packings in which other modules of a program already have the weights of kernels."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.ir.dataflow import GroupOp, WeightOp
from compiler.kernels.group import Group

Packings = Mapping[str, Set[str]]
"""Packings by the key of the weight that is in memory with them."""


def with_shared_packings(
    module: ModuleOp, groups: Mapping[str, Group], names: Iterable[str]
) -> dict[str, Group]:
    """The groups with the packings that memory has of all weights which their kernels read.

    `names` are those of the other modules' weights, as schedules name them.
    """
    known = packings_by_key(names)
    common = dict[str, tuple[frozenset[str], ...]]()
    if not known:
        return dict(groups)
    for op in module.walk():
        if isinstance(op, GroupOp) and op.kernel is not None:
            own = tuple(_packings_of(value, known) for value in op.inputs)
            before = common.get(op.kernel.data, own)
            common[op.kernel.data] = tuple(a & b for a, b in zip(before, own, strict=True))
    return {
        name: replace(group, packed=common[name]) if any(common[name]) else group
        for name, group in groups.items()
    }


def packings_by_key(names: Iterable[str]) -> Packings:
    """The packings in names of weights: the text after a key, which may have a `|` itself."""
    packings: dict[str, set[str]] = {}
    for name in names:
        ends = [*(i for i, character in enumerate(name) if character == "|"), len(name)]
        for end in ends:
            packings.setdefault(name[:end], set()).add(name[end + 1 :])
    return packings


def _packings_of(value: SSAValue, known: Packings) -> frozenset[str]:
    """The packings of a group's input that are in memory."""
    owner = value.owner
    return frozenset(known.get(owner.key.data, ())) if isinstance(owner, WeightOp) else frozenset()
