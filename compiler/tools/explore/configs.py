"""The configuration of each kernel, and its provenance, as the compiler chooses it again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

from compiler.kernels.gpu.select import Candidate, Selection, best, measurable
from compiler.kernels.group import Group
from compiler.target.target import GpuTarget, Target, parse_gpu
from compiler.tools.explore.document import TileFact

GENERIC = "generic"
"""The provenance of a kernel that no template computes: TVM's schedule has no config."""

CPU_RULES = "rules"
"""The provenance of a CPU's kernels: fixed rules of its templates, of which none is measured."""


@dataclass(frozen=True)
class KernelConfig:
    """The template of a kernel, the values of its config, their provenance, and what competed."""

    template: str
    provenance: str
    config: dict[str, str] = field(default_factory=dict[str, str])
    candidates: list[TileFact] = field(default_factory=list[TileFact])


def kernel_configs(groups: Mapping[str, Group], target: Target) -> dict[str, KernelConfig]:
    """The configs of a GPU's kernels by name; a CPU's follow from rules."""
    if not target.is_gpu:
        return {name: KernelConfig("", CPU_RULES) for name in groups}
    gpu = parse_gpu(str(target))
    return {name: _config(group, gpu) for name, group in groups.items()}


def _config(group: Any, target: GpuTarget) -> KernelConfig:
    found = best(group, target)
    if found is None:
        return KernelConfig("", GENERIC)
    tiles = [
        tile for candidate in measurable(group, target) for tile in measured_tiles(candidate, found)
    ]
    tiles.sort(key=lambda tile: tile.warm)
    config = config_values(found.config)
    return KernelConfig(found.template.name, found.provenance.value, config, tiles)


def measured_tiles(candidate: Candidate, built: Selection) -> list[TileFact]:
    """The configs of a candidate that the database has times of, the built one marked."""
    entry, template = candidate.entry, candidate.template
    if entry is None:
        return []
    mine = (template.name, candidate.key) == (built.template.name, built.candidate.key)
    return [
        TileFact(
            template=template.name,
            config=config_values(config),
            warm=measured.warm,
            low=measured.interval and measured.interval[0],
            high=measured.interval and measured.interval[1],
            cold=measured.cold,
            device=entry.device,
            chosen=mine and config == built.config,
        )
        for measured in entry.configs
        for config in (template.config(measured.config),)
    ]


def config_values(config: Any) -> dict[str, str]:
    """The fields of a config as text; one without fields is a single value."""
    if is_dataclass(config) and not isinstance(config, type):
        return {name: str(value) for name, value in asdict(config).items()}
    return {"config": str(config)}
