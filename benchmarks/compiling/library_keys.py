"""How many kernels of a network a library of all others has, by how much its keys leave open.

    python benchmarks/compiling/library_keys.py [--target cpu] [NETWORK ...]

Nothing is built. Without names all networks of the zoo and the field are read, but the largest, in
some minutes of a core; those that a run divides into parts are left out.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from compiler.errors import FlowloomError
from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.kernels.building.module import distinct_groups
from compiler.kernels.group import Group
from compiler.net.node import Node
from compiler.net.operators import KINDS, Kind
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from examples import named

TOO_LARGE = ("gpt2large", "nasnetalarge", "pnasnet5large")

SIZES = ("group", "shape", "sizes")
"""The attributes that are extents."""


def groups_of(name: str, target: str) -> list[Group]:
    """The groups of a network, each once."""
    module = import_model(named.load(name)).module
    set_target(module, target)
    Runner().run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    return [*distinct_groups(module).values()]


def form(group: Group, fixed: Callable[[int], bool], attributes: bool = True) -> str:
    """The content of a group whose extents are letters, but for those that are fixed."""
    letters: dict[int, str] = {}

    def extent(size: int) -> str:
        return str(size) if fixed(size) else letters.setdefault(size, f"s{len(letters)}")

    values = [(v.element, [*map(extent, v.shape)], v.block) for v in group.values]
    left_out = () if attributes else SIZES
    operators = [
        (op.type, op.inputs, op.outputs, [own for own in _attributes(op) if own[0] not in left_out])
        for op in group.operators
    ]
    constants = [
        (number, c.dtype.str, c.shape if c.size > 1 else c.tobytes())
        for number, c in sorted(group.constants.items())
    ]
    return repr((values, group.inputs, group.weights, operators, constants, group.outputs))


def _attributes(op: Node[int]) -> list[tuple[str, Any]]:
    return sorted(op.attributes.items())


def weights_fixed(group: Group) -> str:
    """The form of a group whose weights' extents stay numbers."""
    read = zip(group.reads, group.weights, strict=True)
    sizes = {size for info, weight in read if weight for size in info.shape}
    return form(group, lambda size: size <= 1 or size in sizes)


KEYS: Mapping[str, Callable[[Group], str]] = {
    "all extents": Group.content_hash,
    "weights' extents": weights_fixed,
    "no extent but 1": lambda group: form(group, lambda size: size <= 1, attributes=False),
}
"""The keys, by the extents that they hold."""


def shares(networks: Mapping[str, Sequence[str]]) -> tuple[int, int]:
    """The keys of all networks, and those that another network has, too."""
    everywhere = {name: set(keys) for name, keys in networks.items()}
    owners: dict[str, int] = {}
    for keys in everywhere.values():
        for key in keys:
            owners[key] = owners.get(key, 0) + 1
    every = [key for keys in networks.values() for key in keys]
    return len(every), sum(owners[key] > 1 for key in every)


def main() -> None:
    """Print a row for each kind of key."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--target", default="cpu:x86-64-v4")
    options = parser.parse_args()
    names = options.networks or [name for name in named.every() if name not in TOO_LARGE]
    groups: dict[str, list[Group]] = {}
    for name in names:
        try:
            groups[name] = groups_of(name, options.target)
        except FlowloomError as error:
            print(f"{name}: {error}", file=sys.stderr)
    print("| extents in keys | kernels | contractions | distinct |\n|---|---|---|---|")
    for title, key in KEYS.items():
        row: list[str] = []
        for only in (False, True):
            keys = {
                name: [key(g) for g in own if not only or contracts(g)]
                for name, own in groups.items()
            }
            count, shared = shares(keys)
            row.append(f"{shared} of {count} ({shared / max(1, count):.0%})")
        distinct = len({key(g) for own in groups.values() for g in own})
        print(f"| {title} | {' | '.join(row)} | {distinct} |", flush=True)


def contracts(group: Group) -> bool:
    """Whether a group has a contraction."""
    return any(KINDS.get(op.type) is Kind.CONTRACTION for op in group.operators)


if __name__ == "__main__":
    main()
