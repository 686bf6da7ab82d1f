"""The configuration of each kernel, and its provenance, as the compiler chooses it again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

from compiler.kernels.building.kernel import naming
from compiler.kernels.building.select import Candidate, Selection, best, measurable
from compiler.kernels.group import Group
from compiler.target.target import Target
from compiler.tools.explore.document import TileFact

GENERIC = "generic"
"""The provenance of a kernel that no template computes: the generic schedule has no config."""


@dataclass(frozen=True)
class KernelConfig:
    """The template of a kernel, the values of its config, their provenance, and what competed."""

    template: str
    provenance: str
    config: dict[str, str] = field(default_factory=dict[str, str])
    candidates: list[TileFact] = field(default_factory=list[TileFact])


def kernel_configs(groups: Mapping[str, Group], target: Target) -> dict[str, KernelConfig]:
    """The configs of kernels by name."""
    return {name: kernel_config(group, target) for name, group in groups.items()}


def kernel_config(group: Group, target: Target) -> KernelConfig:
    """The config of a kernel, and those that the target's database has times of."""
    with naming(group):
        choice = best(group, target)
    if choice.is_generic:
        return KernelConfig("", GENERIC)
    tiles = [
        tile
        for candidate in measurable(group, target)
        for tile in measured_tiles(candidate, choice)
    ]
    tiles.sort(key=lambda tile: tile.warm)
    config = config_values(choice.config)
    return KernelConfig(choice.template.name, choice.provenance.value, config, tiles)


def measured_tiles(candidate: Candidate, built: Selection) -> list[TileFact]:
    """The configs of a candidate that the database has times of, the built one marked."""
    entry = candidate.entry
    template = candidate.template
    if entry is None:
        return []
    is_built = (template.name, candidate.key) == (built.template.name, built.candidate.key)
    return [
        TileFact(
            template=template.name,
            config={n: str(v) for n, v in measured.config} if read is None else config_values(read),
            warm=measured.warm,
            low=measured.interval and measured.interval[0],
            high=measured.interval and measured.interval[1],
            cold=measured.cold,
            device=entry.device,
            chosen=is_built and read == built.config,
        )
        for measured in entry.configs
        for read in (candidate.read(measured.config),)
    ]


def config_values(config: Any) -> dict[str, str]:
    """The fields of a config as text; one without fields is a single value."""
    if is_dataclass(config) and not isinstance(config, type):
        return {name: str(value) for name, value in asdict(config).items()}
    return {"config": str(config)}
