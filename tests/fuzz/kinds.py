"""Every kind of case that is searched for, and what draws it from a seed."""

from collections.abc import Callable

from tests.fuzz.case import Case
from tests.fuzz.damage import damaged_artifact, damaged_model, damaged_schedule
from tests.fuzz.draw import Draw
from tests.fuzz.extremes import random_extremes
from tests.fuzz.graphs import random_constants, random_graph, random_node
from tests.fuzz.invalid import random_invalid


def _node(seed: int, target: str) -> Case | None:
    return random_node(seed, target, 0.3, "nodes")


def _damaged(seed: int, target: str) -> Case | None:
    """Mostly models, which are the quickest."""
    kinds = [damaged_model, damaged_artifact, damaged_schedule]
    return Draw(seed).choices(kinds, [75, 20, 5])[0](seed, target)


KINDS: dict[str, Callable[[int, str], Case | None]] = {
    "graphs": random_graph,
    "nodes": _node,
    "folding": random_constants,
    "invalid": random_invalid,
    "damage": _damaged,
    "data": random_extremes,
}
"""The maker of each kind: a case from a seed and a target, or None where nothing came of it."""
