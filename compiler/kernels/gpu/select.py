"""The template and the config of a group's kernel: measured, from similar problems, or estimated.

A config comes from the database entry of the problem, else from its nearest neighbours there, else
it is the one with the least estimate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar

from compiler.choice.alternatives import Alternatives, choose
from compiler.choice.judges import estimated_timing
from compiler.kernels import database
from compiler.kernels.database import Entry
from compiler.kernels.database.fields import full_version, problem_key
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.gpu.entries.early_numbers import with_early_numbers
from compiler.kernels.gpu.headers import code_hash
from compiler.kernels.gpu.ranges.groups import with_folded_results, without_ranges
from compiler.kernels.gpu.ranges.kernels import extra_launches, extra_us, with_ranges
from compiler.kernels.gpu.template import Key, Template
from compiler.kernels.gpu.templates import TEMPLATES
from compiler.kernels.group import Group
from compiler.kernels.requantise import requantised
from compiler.kernels.same import Same
from compiler.schedule.choices import ChoiceSource, Timing
from compiler.schedule.kernels import Launch
from compiler.target.nvrtc import nvrtc_version
from compiler.target.target import GpuTarget

REMEMBERED = 256
"""Groups whose kernel is remembered: the cache asks for its config before it is built."""


class Provenance(Enum):
    """The provenance of a config, the most reliable first."""

    TUNED = "tuned"
    OTHER_DEVICE = "tuned on another device"
    OTHER_VERSION = "tuned with older templates or another compiler"
    SIMILAR = "taken from similar kernels"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class Candidate:
    """A template that can compute a group as a problem, with that problem's measured configs.

    The `whole` group has ranges of results, which the template does not see.
    """

    template: Template[Any, Any]
    group: Group
    problem: Any
    target: GpuTarget
    whole: Group | None = None

    @cached_property
    def key(self) -> str:
        """The text of the problem's fields; empty where its configs are not measured."""
        return self._text(self.template.key(self.problem, self.target))

    @cached_property
    def known(self) -> Mapping[str, Entry]:
        """The entries of the target's architecture."""
        return entries(self.target)

    @cached_property
    def entry(self) -> Entry | None:
        """The database entry of the problem."""
        return self.known.get(self.key)

    @cached_property
    def estimate_us(self) -> float:
        """The least estimate in microseconds."""
        return self.estimate_of(self._estimated)

    def estimate_of(self, config: Any) -> float:
        """The estimated microseconds of a config."""
        own = self.template.estimate_us(self.problem, config, self.target)
        return own and own + self.ranges_us

    @cached_property
    def ranges_us(self) -> float:
        """The microseconds that the ranges of results take."""
        if self.whole is None:
            return 0.0
        return extra_us(self.whole, self.template.folds_ranges, self.target.device.sms)

    @cached_property
    def configs(self) -> tuple[Any, ...]:
        """The configs that fit the target."""
        return tuple(self.template.configs(self.problem, self.target))

    def choose(self) -> tuple[Any, Provenance]:
        """The config to build, and its provenance."""
        if not self.key:
            return self._estimated, Provenance.ESTIMATED
        known, configs = self.known, set(self.configs)
        config = self._measured(self.entry or known.get(self._related), configs)
        if config is not None:
            entry = self.entry
            return config, provenance_of(entry, "") if entry else Provenance.SIMILAR
        config = self.template.nearest(self.problem, self.target, known, configs)
        if config is not None:
            return config, Provenance.SIMILAR
        return self._estimated, Provenance.ESTIMATED

    def provenance(self, device: str) -> Provenance:
        """The provenance on a device of the config that is chosen without more measurements."""
        if self.entry is not None:
            return provenance_of(self.entry, device)
        return self.choose()[1]

    def shortlist(self, count: int) -> Sequence[Any]:
        """At most `count` configs to measure, the likeliest first."""
        known = entries(self.target)
        return self.template.shortlist(self.problem, self.target, known, count)

    def variants(self, config: Any) -> Sequence[Any]:
        """Configs that differ from one only by how they overlap with other kernels."""
        return self.template.variants(self.problem, config, self.target)

    def emit(self, config: Any) -> CudaKernel:
        """The group's kernel with a config."""
        kernel = self.template.emit(self.group, self.problem, config, self.target)
        kernel = with_early_numbers(kernel, self.group)
        if self.whole is None:
            return kernel
        return with_ranges(kernel, self.whole, self.template.folds_ranges, self.target.shared_bytes)

    def launches(self, config: Any) -> Sequence[Launch]:
        """The launches of the group's kernel with a config, for estimates."""
        own = self.template.launches(self.group, self.problem, config, self.target)
        if self.whole is None:
            return own
        return [*own, *extra_launches(self.whole, self.template.folds_ranges)]

    def _measured(self, entry: Entry | None, configs: set[Any]) -> Any:
        """The best measured config that can be built; None without any."""
        template, problem, target = self.template, self.problem, self.target
        read = (template.config(m.config) for m in (entry.ranked if entry else ()))
        return next((c for c in read if template.allows(problem, c, target, configs)), None)

    @cached_property
    def _estimated(self) -> Any:
        """The config of the least estimate, the first of equals."""
        modelled = [c for c in self.configs if self.template.is_modelled(c)]
        return modelled[0] if len(modelled) == 1 else min(modelled, key=self.estimate_of)

    @property
    def _related(self) -> str:
        """The key of the problem whose entry may be used instead; empty without one."""
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
            times = {name: 1000.0 * way.estimate_us for name, way in ways.items()}
        return {name: estimated_timing(time) for name, time in times.items()}


@dataclass(frozen=True)
class Selection:
    """The template, problem and config of a group's kernel."""

    candidate: Candidate
    config: Any
    provenance: Provenance

    @property
    def template(self) -> Template[Any, Any]:
        """The template that writes the kernel."""
        return self.candidate.template

    @property
    def estimated_ns(self) -> int:
        """Nanoseconds by the database, else by the template's model of the config.

        0 for templates without a model, with which no other one competes, and other targets.
        """
        entry = self.candidate.entry
        if not self.candidate.target.searches_schedules:
            return 0
        if entry is None:
            return round(1000.0 * self.candidate.estimate_of(self.config))
        return round(entry.ranked[0].warm + 1000.0 * self.candidate.ranges_us)

    def emit(self) -> CudaKernel:
        """The group's kernel."""
        kernel = self.candidate.emit(self.config)
        return replace(kernel, estimated_ns=self.estimated_ns)

    def launches(self) -> Sequence[Launch]:
        """The launches of the group's kernel, for estimates."""
        return self.candidate.launches(self.config)


def best(group: Group, target: GpuTarget) -> Selection | None:
    """The fastest kernel of a group; None where only the generic schedule can compute it.

    Templates are asked in order; of equally fast ones the first is selected.
    """
    return _best(Same(group), target, Same(entries(target)))


@lru_cache(REMEMBERED)
def _best(
    same: Same[Group], target: GpuTarget, known: Same[Mapping[str, Entry]]
) -> Selection | None:
    """The fastest kernel of a group by the entries that are `known`."""
    group = same.value
    of_each = (best_of(candidates_of(template, group, target)) for template in TEMPLATES)
    candidate = best_of(filter(None, of_each))
    return None if candidate is None else Selection(candidate, *candidate.choose())


@lru_cache(REMEMBERED)
def _requantised(group: Same[Group]) -> Group:
    return requantised(group.value)


@lru_cache(REMEMBERED)
def _without_ranges(group: Same[Group], folds: bool) -> Group:
    """The group that a template sees, which folds ranges of results or leaves them out."""
    bare = without_ranges(group.value)
    return bare if bare is group.value or not folds else with_folded_results(group.value)


def candidates_of(
    template: Template[Any, Any], group: Group, target: GpuTarget
) -> Iterator[Candidate]:
    """A template's candidates for a group: one for each problem."""
    whole = _requantised(Same(group))
    own = _without_ranges(Same(whole), template.folds_ranges)
    for problem in template.match(own, target):
        yield Candidate(template, own, problem, target, None if own is whole else whole)


def measurable(group: Group, target: GpuTarget) -> Iterator[Candidate]:
    """The candidates of all templates whose configs are measured.

    Two templates can compute a convolution of few channels, and GEMM tiles a grouped one with
    different numbers of merged groups: measured times decide.
    """
    for template in TEMPLATES:
        yield from (c for c in candidates_of(template, group, target) if c.key)


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


def code_of(template: Template[Any, Any]) -> str:
    """The hash of a template's code."""
    return code_hash(template.headers)


@cache
def current_versions() -> frozenset[str]:
    """The versions of this package's templates with the compiler in use."""
    measured = (template for template in TEMPLATES if template.headers)
    return frozenset(full_version(code_of(t), nvrtc_version()) for t in measured)


def entries(target: GpuTarget) -> Mapping[str, Entry]:
    """The preferred entry for each key of an architecture."""
    return database.known(target.architecture, current_versions())


def provenance_of(entry: Entry, device: str) -> Provenance:
    """The provenance of an entry's configs on a device; an empty one is unknown."""
    if entry.version not in current_versions():
        return Provenance.OTHER_VERSION
    return Provenance.TUNED if device in ("", entry.device) else Provenance.OTHER_DEVICE
