"""Every kind of case that is searched for, and what draws it from a seed."""

from collections.abc import Callable

from tests.fuzz.case import Case
from tests.fuzz.chains import random_chain
from tests.fuzz.contents import random_contents
from tests.fuzz.damage import damaged_artifact, damaged_model, damaged_schedule
from tests.fuzz.draw import Draw
from tests.fuzz.exported import random_exported
from tests.fuzz.extremes import random_extremes
from tests.fuzz.forged import random_forgery
from tests.fuzz.graphs import random_constants, random_graph, random_node
from tests.fuzz.growing import random_growth
from tests.fuzz.hosted import random_hosted
from tests.fuzz.invalid import random_invalid
from tests.fuzz.narrow import random_narrow
from tests.fuzz.outside import random_outside
from tests.fuzz.resealed import random_resealed
from tests.fuzz.shared import random_shared
from tests.fuzz.sizes import random_sizes


def _node(seed: int, target: str) -> Case | None:
    return random_node(seed, target, 0.3, "nodes")


def _damaged(seed: int, target: str) -> Case | None:
    """Mostly models, which are the quickest."""
    kinds = [damaged_model, damaged_artifact, damaged_schedule]
    return Draw(seed).choices(kinds, [75, 20, 5])[0](seed, target)


_GUARDED = 8
"""One case in so many has its operands guarded, unless all are."""


def drawn(kind: str, seed: int, target: str, guarded: bool = False) -> Case | None:
    """The case of a seed, with guards or with a share of them."""
    case = KINDS[kind](seed, target)
    every = 1 if guarded else _GUARDED
    if case is None or seed % every:
        return case
    return case.changed(guard=("after", "before")[seed // every % 2])


KINDS: dict[str, Callable[[int, str], Case | None]] = {
    "graphs": random_graph,
    "nodes": _node,
    "folding": random_constants,
    "invalid": random_invalid,
    "damage": _damaged,
    "data": random_extremes,
    "narrow": random_narrow,
    "forged": random_forgery,
    "resealed": random_resealed,
    "shared": random_shared,
    "texts": random_hosted,
    "exported": random_exported,
    "contents": random_contents,
    "outside": random_outside,
    "chains": random_chain,
    "growth": random_growth,
    "sizes": random_sizes,
}
"""The maker of each kind: a case from a seed and a target, or None where nothing came of it."""

SHARES: dict[str, int] = {
    **dict.fromkeys(("graphs",), 20),
    **dict.fromkeys(("chains", "contents", "invalid", "shared", "sizes"), 10),
    **dict.fromkeys(("damage", "data", "growth"), 8),
    **dict.fromkeys(("exported", "folding", "forged", "narrow", "nodes", "outside", "texts"), 5),
    "resealed": 3,
}
"""The share of each kind in the time of a search of all; those that cannot be drawn have none."""

ROUND: dict[str, int] = {
    "graphs": 12,
    "nodes": 16,
    "folding": 8,
    "invalid": 300,
    "damage": 80,
    "data": 12,
    "narrow": 10,
    "forged": 30,
    "resealed": 40,
    "shared": 4,
    "texts": 100,
    "exported": 8,
    "contents": 40,
    "outside": 8,
    "chains": 6,
    "growth": 8,
    "sizes": 12,
}
"""The cases of each kind in a round: about half a minute of two cores by the shares above. The same
seed has the same cases on every machine, which a search by the clock has not."""
