"""The division of a body's nodes into steps: a pure function of what nodes read and write."""

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The tensors that a node reads and writes, without constants; `alone` is one on the host."""

    reads: frozenset[str]
    writes: tuple[str, ...]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """Nodes of one segment, or a node on the host, by their indices in the body.

    `reads` come from other steps, `writes` are those that others read, and `frees` are tensors that
    no later step reads.
    """

    nodes: tuple[int, ...]
    alone: bool
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    frees: tuple[str, ...] = ()


def outline_steps(
    nodes: Sequence[NodeUse], split_at: Set[str], outputs: Sequence[str]
) -> list[ProgramStep]:
    """The steps in execution order, with segments as large as can be.

    A tensor of `split_at` is written by one segment and read by later ones.
    """
    # The earliest phase of each node: even ones are segments, odd ones nodes on the host.
    phase_of: dict[str, int] = {}
    phases: list[int] = []
    for node in nodes:
        phase = int(node.alone)
        for name in node.reads & phase_of.keys():
            phase = max(phase, _after(phase_of[name], node.alone, name in split_at))
        phases.append(phase)
        phase_of |= dict.fromkeys(node.writes, phase)
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, (node, phase) in enumerate(zip(nodes, phases, strict=True)):
        groups[phase, index if node.alone else -1].append(index)
    members = [groups[key] for key in sorted(groups)]
    steps = [_step(nodes, group, outputs) for group in members]
    # backwards: what no later step needs is freed after the step that reads or writes it
    needed = set(outputs)
    freed = list[ProgramStep]()
    for step in reversed(steps):
        last = tuple(name for name in (*step.reads, *step.writes) if name not in needed)
        needed |= {*step.reads}
        freed.append(ProgramStep(step.nodes, step.alone, step.reads, step.writes, last))
    return freed[::-1]


def _after(writer_phase: int, on_host: bool, split: bool) -> int:
    """The earliest phase of a node that reads what a phase made."""
    if writer_phase % 2 != on_host:
        return writer_phase + 1
    return writer_phase + 2 if split and not on_host else writer_phase


def _step(nodes: Sequence[NodeUse], group: Sequence[int], outputs: Sequence[str]) -> ProgramStep:
    inside = {name for index in group for name in nodes[index].writes}
    members = set(group)
    outside = {
        name for i, node in enumerate(nodes) if i not in members for name in node.reads
    } | set(outputs)
    reads = (name for index in group for name in sorted(nodes[index].reads) if name not in inside)
    on_host = nodes[group[0]].alone
    writes = (name for index in group for name in nodes[index].writes if name and name in outside)
    return ProgramStep(tuple(group), on_host, _distinct(reads), _distinct(writes))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
