"""The configuration of each kernel, and its provenance, as the compiler chooses it again."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

from compiler.kernels.cpu.tunable import Tunable, llvm_version, templates_version
from compiler.kernels.database import Entry
from compiler.kernels.database.fields import Config, full_version
from compiler.kernels.gpu.select import Candidate, Provenance, Selection, best, measurable
from compiler.kernels.group import Group
from compiler.kernels.kernel import cpu_tunable
from compiler.target.target import CpuTarget, GpuTarget, Target, parse_cpu, parse_gpu
from compiler.tools.explore.document import TileFact

GENERIC = "generic"
"""The provenance of a kernel that no template computes: TVM's schedule has no config."""

CPU_RULES = "rules"
"""The provenance of a CPU's kernel that can be computed in one way."""


@dataclass(frozen=True)
class KernelConfig:
    """The template of a kernel, the values of its config, their provenance, and what competed."""

    template: str
    provenance: str
    config: dict[str, str] = field(default_factory=dict[str, str])
    candidates: list[TileFact] = field(default_factory=list[TileFact])


def kernel_configs(groups: Mapping[str, Group], target: Target) -> dict[str, KernelConfig]:
    """The configs of kernels by name."""
    if not target.is_gpu:
        cpu = parse_cpu(str(target))
        return {name: cpu_config(cpu_tunable(group, cpu), cpu) for name, group in groups.items()}
    gpu = parse_gpu(str(target))
    return {name: _config(group, gpu) for name, group in groups.items()}


def cpu_config(found: Tunable | None, target: CpuTarget) -> KernelConfig:
    """The config of a kernel with a choice, and those that this CPU's database has times of."""
    if found is None:
        return KernelConfig("", CPU_RULES)
    entry, chosen = found.entry(target), found.chosen(target)
    config = config_values(chosen)
    if entry is None:
        return KernelConfig(found.template, Provenance.ESTIMATED.value, config)
    current = entry.version == full_version(templates_version(), llvm_version())
    provenance = Provenance.TUNED if current else Provenance.OTHER_VERSION
    known = found.by_fields
    tiles = entry_tiles(found.template, entry, lambda fields: known.get(fields, fields), chosen)
    return KernelConfig(found.template, provenance.value, config, tiles)


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
    return entry_tiles(template.name, entry, template.config, built.config if mine else None)


def entry_tiles(
    template: str, entry: Entry, config_of: Callable[[Config], Any], built: Any
) -> list[TileFact]:
    """The measured configs of an entry, the one that was built marked."""
    return [
        TileFact(
            template=template,
            config=config_values(config),
            warm=measured.warm,
            low=measured.interval and measured.interval[0],
            high=measured.interval and measured.interval[1],
            cold=measured.cold,
            device=entry.device,
            chosen=config == built,
        )
        for measured in entry.configs
        for config in (config_of(measured.config),)
    ]


def config_values(config: Any) -> dict[str, str]:
    """The fields of a config as text; one without fields is a single value."""
    if is_dataclass(config) and not isinstance(config, type):
        return {name: str(value) for name, value in asdict(config).items()}
    return {"config": str(config)}
