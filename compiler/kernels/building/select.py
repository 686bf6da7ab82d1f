"""The template and the config of a group's kernel: measured, from similar problems, or estimated.

A config comes from the database entry of the problem, else from its nearest neighbours there, else
it is the one with the least estimate. A config that reads the weight as other modules of a program
have it in memory saves memory, and may cost a little.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property, lru_cache
from itertools import islice
from typing import Any, ClassVar

from compiler.choice.alternatives import Alternatives, choose
from compiler.choice.judges import estimated_timing
from compiler.kernels import database
from compiler.kernels.cpu.host import database_name
from compiler.kernels.cpu.templates import TEMPLATES as CPU_TEMPLATES
from compiler.kernels.database import Entry, typed_config
from compiler.kernels.database.fields import (
    Config,
    config_fields,
    full_version,
    problem_key,
)
from compiler.kernels.gpu.ranges.groups import with_folded_results, without_ranges
from compiler.kernels.group import Group
from compiler.kernels.requantise import requantised
from compiler.kernels.same import Same
from compiler.kernels.template import (
    Folds,
    KernelSource,
    Key,
    Outlines,
    Predicts,
    Reserves,
    SharesWeights,
    Shortlists,
    Template,
    Varies,
)
from compiler.kernels.versions import code_hash, llvm_version
from compiler.net.operators.contractions import FLOAT_CONTRACTIONS
from compiler.schedule.choices import ChoiceSource, Timing
from compiler.schedule.kernels import Launch
from compiler.target.nvrtc import nvrtc_version
from compiler.target.target import Target
from compiler.tensors.extents import NotForAllSizes

AnyTemplate = Template[Any, Any, Any]

REMEMBERED = 256
"""Groups whose kernel is remembered: the cache asks for its config before it is built."""

SAVING_COST = 1.01
"""The most estimated time of a config that saves memory, as a part of the least: the tiles that
lengths of a BERT share are within 1.005. Four rows in place of eight, at 1.015, took 1.16."""

NO_ENTRIES: Mapping[str, Entry] = {}


class Provenance(Enum):
    """The provenance of a config, the most reliable first."""

    TUNED = "tuned"
    OTHER_DEVICE = "tuned on another device"
    OTHER_VERSION = "tuned with older templates or another compiler"
    SIMILAR = "taken from similar kernels"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class TemplateSet:
    """The templates of a kind of target, the last of which takes what no other one matches.

    `compiler` names the compiler of their code, `database` the database of a target's times: empty
    where none can be.
    """

    templates: tuple[AnyTemplate, ...]
    compiler: Callable[[], str]
    database: Callable[[Any], str]
    sized: tuple[AnyTemplate, ...]
    """Those that take groups with symbols."""

    def of(self, group: Group) -> tuple[AnyTemplate, ...]:
        """The templates that a group may have; of results of no elements only the last."""
        if group.is_empty:
            return self.templates[-1:]
        return self.sized if group.symbols else self.templates


CPU_SET = TemplateSet(CPU_TEMPLATES, llvm_version, database_name, CPU_TEMPLATES)


@cache
def _gpu_set() -> TemplateSet:
    from compiler.kernels.gpu.templates import SIZED_TEMPLATES, TEMPLATES

    return TemplateSet(TEMPLATES, nvrtc_version, lambda t: t.architecture, SIZED_TEMPLATES)


def templates_of(target: Target) -> TemplateSet:
    """The templates for a target."""
    return _gpu_set() if target.is_gpu else CPU_SET


@dataclass(frozen=True)
class Candidate:
    """A template that can compute a group as a problem, with that problem's measured configs.

    The `whole` group has ranges of results, which the template does not see.
    """

    template: AnyTemplate
    group: Group
    problem: Any
    target: Any
    whole: Group | None = None

    @cached_property
    def key(self) -> str:
        """The text of the problem's fields; empty where its configs are not measured."""
        return self._text(self.template.key(self.problem, self.target))

    @cached_property
    def known(self) -> Mapping[str, Entry]:
        """The entries of the target's database."""
        return entries(self.target)

    @cached_property
    def entry(self) -> Entry | None:
        """The database entry of the problem."""
        return self.known.get(self.key)

    @property
    def version(self) -> str:
        """The hash of the template's code, to which measured times belong."""
        return code_hash(self.template.sources)

    @cached_property
    def least_ns(self) -> float:
        """The least estimate in nanoseconds."""
        return self.estimate_ns(self._estimated)

    def estimate_ns(self, config: Any) -> float:
        """The estimated nanoseconds of a config."""
        own = self.template.estimate_ns(self.problem, config, self.target)
        return own and own + self.ranges_ns

    @cached_property
    def ranges_ns(self) -> float:
        """The nanoseconds that the ranges of results take."""
        if self.whole is None:
            return 0.0
        from compiler.kernels.gpu.ranges.kernels import extra_us

        return 1e3 * extra_us(self.whole, _folds(self.template), self.target.device.sms)

    @cached_property
    def configs(self) -> tuple[Any, ...]:
        """The configs that fit the target."""
        return tuple(self.template.configs(self.problem, self.target))

    @cached_property
    def by_fields(self) -> Mapping[Config, Any]:
        """The configs by the fields that databases hold."""
        return {config_fields(config): config for config in self.configs}

    def read(self, fields: Config) -> Any:
        """The config of fields that a database holds; None if the problem cannot have it."""
        template = self.template
        if not isinstance(template, Varies):
            config = typed_config(dict.fromkeys(map(type, self.configs)), fields)
            return config if config in self._listed else None
        config = typed_config([template.config_type], fields)
        allowed = config is not None and template.allows(
            self.problem, config, self.target, self._listed
        )
        return config if allowed else None

    def choose(self) -> tuple[Any, Provenance]:
        """The config to build, and its provenance."""
        if not self.key:
            return self._estimated, Provenance.ESTIMATED
        config = self._measured(self.entry or self.known.get(self._related))
        if config is not None:
            entry = self.entry
            return config, provenance_of(entry, self.target) if entry else Provenance.SIMILAR
        template = self.template
        if isinstance(template, Predicts):
            config = template.nearest(self.problem, self.target, self.known, self._listed)
            if config is not None:
                return config, Provenance.SIMILAR
        return self._estimated, Provenance.ESTIMATED

    def provenance(self, device: str) -> Provenance:
        """The provenance on a device of the config that is chosen without more measurements."""
        if self.entry is not None:
            return provenance_of(self.entry, self.target, device)
        return self.choose()[1]

    def shortlist(self, count: int) -> Sequence[Any]:
        """At most `count` configs to measure, the likeliest first."""
        if isinstance(self.template, Shortlists):
            return self.template.shortlist(self.problem, self.target, self.known, count)
        return [*islice(sorted(self.configs, key=self.estimate_ns), count)]

    def config_text(self, config: Any) -> str:
        """The text under which a cache has the group's kernel with a config."""
        return f"config {self.template.name} {self.key} {config}"

    def variants(self, config: Any) -> Sequence[Any]:
        """Configs that differ from one only by how they overlap with other kernels."""
        template = self.template
        if not isinstance(template, Varies):
            return ()
        return template.variants(self.problem, config, self.target)

    def modelled(self, configs: Sequence[Any]) -> Sequence[Any]:
        """Those of some configs that the estimate alone may choose."""
        template = self.template
        if not isinstance(template, Reserves):
            return configs
        return [config for config in configs if template.is_modelled(self.problem, config)]

    def emit(self, config: Any) -> KernelSource:
        """The group's kernel with a config."""
        kernel = self.template.emit(self.group, self.problem, config, self.target)
        if not self.target.is_gpu:
            return kernel
        from compiler.kernels.gpu.entries.early_numbers import with_early_numbers
        from compiler.kernels.gpu.ranges.kernels import with_ranges

        kernel = with_early_numbers(kernel, self.group)
        if self.whole is None:
            return kernel
        return with_ranges(kernel, self.whole, _folds(self.template), self.target.shared_bytes)

    def launches(self, config: Any) -> Sequence[Launch]:
        """The launches of the group's kernel with a config, for estimates."""
        template = self.template
        write = template.launches if isinstance(template, Outlines) else self._emitted_launches
        own = write(self.group, self.problem, config, self.target)
        if self.whole is None:
            return own
        from compiler.kernels.gpu.ranges.kernels import extra_launches

        return [*own, *extra_launches(self.whole, _folds(self.template))]

    def _emitted_launches(self, *arguments: Any) -> Sequence[Launch]:
        return self.template.emit(*arguments).launches

    def _measured(self, entry: Entry | None) -> Any:
        """The best measured config that can be built; None without any."""
        read = (self.read(measured.config) for measured in (entry.ranked if entry else ()))
        saving = self._saving
        return next((c for c in read if c is not None and (not saving or c in saving)), None)

    @cached_property
    def _saving(self) -> Sequence[Any]:
        """The configs of about the least estimate whose weight is packed in memory already."""
        template, problem, target = self.template, self.problem, self.target
        if not isinstance(template, SharesWeights) or not any(self.group.packed):
            return ()
        most = SAVING_COST * self.estimate_ns(self._likeliest(self.configs))
        near = (config for config in self.configs if self.estimate_ns(config) <= most)
        return [c for c in near if template.is_packed(self.group, problem, c, target)]

    @cached_property
    def _estimated(self) -> Any:
        return self._likeliest(self._saving or self.configs)

    def _likeliest(self, configs: Sequence[Any]) -> Any:
        """The config of the least estimate, the first of equals."""
        modelled = self.modelled(configs) or configs
        return modelled[0] if len(modelled) == 1 else min(modelled, key=self.estimate_ns)

    @cached_property
    def _listed(self) -> set[Any]:
        return set(self.configs)

    @property
    def _related(self) -> str:
        """The key of the problem whose entry may be used instead; empty without one."""
        if not isinstance(self.template, Predicts):
            return ""
        return self._text(self.template.related_key(self.problem, self.target))

    def _text(self, fields: Key) -> str:
        return problem_key(self.template.name, fields) if fields else ""


class _TemplateJudge:
    """Judges candidates by measured times where all have one of the same device.

    Else by estimates. Both are taken as exact: no candidate is safer than another.
    """

    source: ClassVar[ChoiceSource] = "model"

    def times(self, ways: Mapping[str, Candidate]) -> Mapping[str, Timing | str]:
        """The time of each candidate's best config."""
        entries = {name: way.entry for name, way in ways.items() if way.entry}
        if len(entries) == len(ways) and len({entry.device for entry in entries.values()}) == 1:
            times = {name: entry.ranked[0].warm for name, entry in entries.items()}
        else:
            times = {name: way.least_ns for name, way in ways.items()}
        return {name: estimated_timing(time) for name, time in times.items()}


@dataclass(frozen=True)
class Selection:
    """The template, problem and config of a group's kernel."""

    candidate: Candidate
    config: Any
    provenance: Provenance

    @property
    def template(self) -> AnyTemplate:
        """The template that writes the kernel."""
        return self.candidate.template

    @property
    def is_generic(self) -> bool:
        """Whether no template matches the group but the last one, the generic schedule."""
        return self.template is templates_of(self.candidate.target).templates[-1]

    @property
    def time_ns(self) -> float:
        """Nanoseconds by the database, else by the template's model of the config."""
        entry = self.candidate.entry
        if entry is None:
            return self.candidate.estimate_ns(self.config)
        return entry.ranked[0].warm + self.candidate.ranges_ns

    @property
    def estimated_ns(self) -> int:
        """The nanoseconds that simulators take: 0 for templates without a model, and for targets
        without a simulator."""
        return round(self.time_ns) if self.candidate.target.searches_schedules else 0

    def emit(self) -> KernelSource:
        """The group's kernel."""
        kernel = self.candidate.emit(self.config)
        return replace(kernel, estimated_ns=self.estimated_ns)

    def launches(self) -> Sequence[Launch]:
        """The launches of the group's kernel, for estimates."""
        return self.candidate.launches(self.config)


def best(group: Group, target: Target) -> Selection:
    """The fastest kernel of a group.

    Templates are asked in order; of equally fast ones the first is selected.
    """
    return _best(Same(group), accurate_target(group, target), Same(entries(target)))


def accurate_target(group: Group, target: Target) -> Target:
    """The target by whose precision a group's contractions are computed.

    One in TF32 rounds operands to parts of the largest terms; where terms cancel, a logarithm of
    their sum makes much of that. Before a logarithm contractions are computed in float32.
    """
    if not target.is_gpu or target.precision != "tf32":
        return target
    following: set[int] = set()
    for op in group.operators:
        follows = not following.isdisjoint(i for i in op.inputs if i is not None)
        if follows and op.type == "Log":
            return replace(target, precision="fp32")
        if follows or op.type in FLOAT_CONTRACTIONS:
            following.update(op.outputs)
    return target


@lru_cache(REMEMBERED)
def _best(same: Same[Group], target: Target, known: Same[Mapping[str, Entry]]) -> Selection:
    """The fastest kernel of a group by the entries that are `known`."""
    group = same.value
    *special, generic = templates_of(target).of(group)
    of_each = (best_of(candidates_of(template, group, target)) for template in special)
    candidate = best_of(filter(None, of_each)) or next(candidates_of(generic, group, target))
    return Selection(candidate, *candidate.choose())


@lru_cache(REMEMBERED)
def _requantised(group: Same[Group]) -> Group:
    return requantised(group.value)


@lru_cache(REMEMBERED)
def _without_ranges(group: Same[Group], folds: bool) -> Group:
    """The group that a template sees, which folds ranges of results or leaves them out."""
    bare = without_ranges(group.value)
    return bare if bare is group.value or not folds else with_folded_results(group.value)


@cache
def _folds(template: AnyTemplate) -> bool:
    """Whether a template is a `Folds`: Python takes long to say so."""
    return isinstance(template, Folds)


def candidates_of(template: AnyTemplate, group: Group, target: Target) -> Iterator[Candidate]:
    """A template's candidates for a group: one for each problem."""
    whole = _requantised(Same(group))
    own = _without_ranges(Same(whole), _folds(template)) if target.is_gpu else whole
    if group.symbols and (own is not whole or whole.symbols != group.symbols):
        raise NotForAllSizes("no symbolic kernel: its results have ranges, or it is quantised")
    for problem in template.match(own, target):
        yield Candidate(template, own, problem, target, None if own is whole else whole)


def measurable(group: Group, target: Target) -> Iterator[Candidate]:
    """The candidates of all templates whose configs are measured.

    Two templates can compute a convolution of few channels, and GEMM tiles a grouped one with
    different numbers of merged groups: measured times decide.
    """
    own = accurate_target(group, target)
    for template in templates_of(target).templates:
        yield from (c for c in candidates_of(template, group, own) if c.key)


def best_of(candidates: Iterable[Candidate]) -> Candidate | None:
    """The candidate that remains when each is compared with the best before it."""
    best: Candidate | None = None
    for candidate in candidates:
        if best is None:
            best = candidate
            continue
        # in pairs: two may have times of one device that a third has not
        ways = {"best": best, "next": candidate}
        best = ways[choose(Alternatives("template", ways), _TemplateJudge()).chosen]
    return best


def current_versions(target: Target) -> frozenset[str]:
    """The versions of this package's templates for a target, with the compiler in use."""
    return _versions(templates_of(target))


@cache
def _versions(templates: TemplateSet) -> frozenset[str]:
    sources = {template.sources for template in templates.templates if template.sources}
    return frozenset(full_version(code_hash(files), templates.compiler()) for files in sources)


def entries(target: Target) -> Mapping[str, Entry]:
    """The preferred entry for each key of a target's database."""
    name = templates_of(target).database(target)
    return database.known(name, current_versions(target)) if name else NO_ENTRIES


def provenance_of(entry: Entry, target: Target, device: str = "") -> Provenance:
    """The provenance of an entry's configs on a device; an empty one is unknown."""
    if entry.version not in current_versions(target):
        return Provenance.OTHER_VERSION
    return Provenance.TUNED if device in ("", entry.device) else Provenance.OTHER_DEVICE
