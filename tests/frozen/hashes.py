"""The recorded hashes: of networks by part, of node cases one for each target."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import compiler
from tests.frozen.cases import TARGETS, is_network
from tests.frozen.observe import Observed
from tests.frozen.store import TextStore, short_hash

FOLDER = Path(__file__).parent / "hashes"
PACKAGES = ("apache-tvm", "llvmlite", "ml_dtypes", "numpy", "onnx", "z3-solver")
ABSENT = "-"
"""Stands for a target for which a node case was not recorded."""

Key = tuple[str, str]
"""A case and a target by their names."""


@dataclass
class Hashes:
    """Hashes of networks as parts, of node cases as the hash of a text of parts.

    `headers` are those of CUDA headers, by file name; `versions` those of packages.
    """

    networks: dict[Key, dict[str, str]] = field(default_factory=dict[Key, dict[str, str]])
    nodes: dict[Key, str] = field(default_factory=dict[Key, str])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    versions: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, key: Key, observed: Sequence[Observed], store: TextStore) -> None:
        """Record a case for a target."""
        if is_network(key[0]):
            self.networks[key] = network_parts(observed)
        else:
            self.nodes[key] = store.add(node_text(observed))

    def __contains__(self, key: Key) -> bool:
        return key in self.networks or key in self.nodes

    @classmethod
    def read(cls, folder: Path = FOLDER) -> "Hashes":
        """The hashes of a folder; none if it has no files."""
        if not (folder / "networks.json").exists():
            return cls()
        of_networks: Any = json.loads((folder / "networks.json").read_text())
        of_nodes: Any = json.loads((folder / "nodes.json").read_text())
        networks = {
            (name, target): parts
            for name, targets in of_networks["hashes"].items()
            for target, parts in targets.items()
        }
        nodes = {
            (name, target): text
            for name, texts in of_nodes.items()
            for target, text in zip(TARGETS, texts.split(), strict=True)
            if text != ABSENT
        }
        return cls(networks, nodes, of_networks["headers"], of_networks["versions"])

    def write(self, folder: Path = FOLDER) -> None:
        """Write the hashes; a line of text for each node case, and for each network and target."""
        folder.mkdir(exist_ok=True)
        networks: dict[str, dict[str, dict[str, str]]] = {}
        for (name, target), parts in sorted(self.networks.items()):
            networks.setdefault(name, {})[target] = parts
        names = sorted({name for name, _ in self.nodes})
        nodes = {n: " ".join(self.nodes.get((n, t), ABSENT) for t in TARGETS) for n in names}
        lines = ",\n".join(
            f"{json.dumps(name)}: {{\n{_lines(targets)}\n}}" for name, targets in networks.items()
        )
        head = "".join(
            f"{json.dumps(part)}: {json.dumps(values, sort_keys=True)},\n"
            for part, values in (("versions", self.versions), ("headers", self.headers))
        )
        (folder / "networks.json").write_text(f'{{\n{head}"hashes": {{\n{lines}\n}}\n}}\n')
        (folder / "nodes.json").write_text(f"{{\n{_lines(nodes)}\n}}\n")


def _lines(entries: Mapping[str, Any]) -> str:
    """The entries of an object, one on each line."""
    return ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in entries.items())


def network_parts(observed: Sequence[Observed]) -> dict[str, str]:
    """The parts of a network, which is one module or has an outcome that says why it is not."""
    if len(observed) == 1:
        return observed[0].parts
    outcomes = [module.outcome or "module" for module in observed]
    return {"outcome": ", ".join(outcomes) or "nothing"}


def node_text(observed: Iterable[Observed]) -> str:
    """The parts of a node case, one on each line."""
    return "\n".join(
        f"{number} {part} {text}"
        for number, module in enumerate(observed)
        for part, text in module.parts.items()
    )


def observed_of(text: str) -> list[Observed]:
    """The modules of a node case from `node_text`."""
    modules: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        number, part, value = line.split(" ", 2)
        modules.setdefault(number, {})[part] = value
    return [Observed.of(parts) for parts in modules.values()]


def header_hashes() -> dict[str, str]:
    """A hash of each CUDA header of the product, which kernels include, by file name."""
    contents: dict[str, list[bytes]] = defaultdict(list)
    for path in Path(str(compiler.__file__)).parent.rglob("*.cuh"):
        contents[path.name].append(path.read_bytes())
    # Headers of one name are in the order of their contents: a folder may be renamed.
    return {name: short_hash(b"".join(sorted(contents[name]))) for name in sorted(contents)}


def package_versions() -> dict[str, str]:
    """The versions of the packages that write texts and machine code."""
    return {package: metadata.version(package) for package in PACKAGES}
