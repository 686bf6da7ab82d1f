"""The protocol of kernel templates: they match groups, list configs, estimate and emit kernels."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Protocol, TypeVar

from compiler.kernels.database import Entry
from compiler.kernels.database.fields import Config as Fields
from compiler.kernels.database.fields import Value
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.group import Group
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

Problem = TypeVar("Problem")
Config = TypeVar("Config")

Key = Mapping[str, Value]
"""Named fields of a problem."""


class Template(Protocol[Problem, Config]):
    """Kernels for groups of one kind. A template with nothing to choose has one config, None.

    Sums never depend on timing (there are no atomic additions), so that a kernel gives the same
    bits every time.
    """

    name: ClassVar[str]
    headers: ClassVar[tuple[str, ...]] = ()
    """The headers that decide how fast a config is: measured times belong to their code's hash."""
    config_type: ClassVar[type[Any] | None] = None
    """The dataclass of configs; None where none are measured."""
    folds_ranges: ClassVar[bool] = False
    """Whether a store function stores each element of every result once, so that threads can fold
    the range of what they store, see `ranges`."""

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The problems that a group can be computed as; none for a group of another kind."""
        ...

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Config]:
        """The configs that fit the target; of equal estimates the first is taken."""
        ...

    def estimate_us(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """The estimated microseconds of a kernel."""
        ...

    def emit(self, group: Group, problem: Problem, config: Config, target: GpuTarget) -> CudaKernel:
        """The kernel of a group; raises KernelError for a config that the problem cannot have."""
        ...

    def launches(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> Sequence[Launch]:
        """The launches of a group's kernel, for estimates: perhaps without arguments."""
        return self.emit(group, problem, config, target).launches

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The fields that decide the speed of a problem's configs; empty if none are measured."""
        return {}

    def related_key(self, problem: Problem, target: GpuTarget) -> Key:
        """The key of a problem whose measured configs may be used where this one has none."""
        return {}

    def config(self, fields: Fields) -> Config:
        """The config of fields that the database holds."""
        assert self.config_type is not None, f"the template {self.name} has one config"
        return self.config_type(**dict(fields))

    def is_modelled(self, config: Config) -> bool:
        """Whether the estimate alone may choose a config."""
        return True

    def allows(
        self, problem: Problem, config: Config, target: GpuTarget, configs: Collection[Config]
    ) -> bool:
        """Whether a problem can have a measured config; `configs` are all that are listed."""
        return config in configs

    def nearest(
        self,
        problem: Problem,
        target: GpuTarget,
        known: Mapping[str, Entry],
        configs: Collection[Config],
    ) -> Config | None:
        """The fastest config predicted from times of similar problems; None without any."""
        return None

    def shortlist(
        self, problem: Problem, target: GpuTarget, known: Mapping[str, Entry], count: int
    ) -> Sequence[Config]:
        """At most `count` configs to measure, the most promising first; `known` were measured."""
        found = self.configs(problem, target)
        ranked = sorted(found, key=lambda config: self.estimate_us(problem, config, target))
        return [*islice(ranked, count)]

    def variants(self, problem: Problem, config: Config, target: GpuTarget) -> Sequence[Config]:
        """Configs that overlap otherwise with other kernels: to be measured within a model."""
        return ()
