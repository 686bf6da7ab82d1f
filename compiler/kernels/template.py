"""The protocol of kernel templates, the same for CPUs and GPUs, and the kernels that they emit.

A template matches groups, lists the configs of a problem, estimates and emits them. Methods of few
templates are in other protocols.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from tvm.tirx import PrimFunc

from compiler.kernels.database import Entry
from compiler.kernels.database.fields import Value
from compiler.kernels.group import Group
from compiler.schedule.kernels import DECLARED, Footprint, Launch

Problem = TypeVar("Problem")
Config = TypeVar("Config")
Machine = TypeVar("Machine", contravariant=True)

Key = Mapping[str, Value]
"""Named fields of a problem."""


@dataclass(frozen=True)
class KernelSource:
    """The source of a kernel: CUDA text without its prelude, or a scheduled TIR function.

    `args` of launches index the group's reads, writes, then `workspaces`, whose bytes are given.
    The parameters of a `function` are these buffers, packed reads with their packed shape; buffers
    that it still allocates at its root become further workspaces, its launches and footprint are
    read off its loops: the outermost loop of a root nest is its grid when it is marked parallel.
    `reassociate` lets LLVM reorder sums to vectorise them; `whole_loops` lets it make the vectors,
    and keeps it from unrolling loops that its vectoriser should see. The other fields are as a
    KernelSpec's.
    """

    text: str = ""
    launches: tuple[Launch, ...] = ()
    workspaces: tuple[int, ...] = ()
    packings: tuple[str, ...] = ()
    flops: int = 0
    serial_ns: int = 0
    estimated_ns: int = 0
    footprint: Footprint = DECLARED
    function: PrimFunc | None = None
    reassociate: bool = False
    whole_loops: bool = False


def packings_of(group: Group, given: Mapping[int, str]) -> tuple[str, ...]:
    """The packings of a group's reads, of which most have none."""
    return tuple(given.get(number, "") for number in range(group.inputs))


class Template(Protocol[Problem, Config, Machine]):
    """Kernels for groups of one kind.

    Sums never depend on timing (there are no atomic additions), so that a kernel gives the same
    bits every time.
    """

    name: ClassVar[str]
    sources: ClassVar[tuple[str, ...]] = ()
    """The files that decide how fast a config is, see `versions`: measured times belong to their
    hash. None where no config is measured."""

    def problem(self, group: Group, target: Machine) -> Problem | None:
        """The problem that a group can be computed as; None for a group of another kind."""
        return None

    def match(self, group: Group, target: Machine) -> Sequence[Problem]:
        """The problems that a group can be computed as: of most templates one at most, and none
        that no config fits."""
        problem = self.problem(group, target)
        if problem is None or not any(True for _ in self.configs(problem, target)):
            return []
        return [problem]

    def configs(self, problem: Problem, target: Machine) -> Iterable[Config]:
        """The configs that fit the target; of equal estimates the first is taken."""
        ...

    def estimate_ns(self, problem: Problem, config: Config, target: Machine) -> float:
        """The estimated nanoseconds of a kernel."""
        ...

    def key(self, problem: Problem, target: Machine) -> Key:
        """The fields that decide the speed of a problem's configs; empty if none are measured."""
        return {}

    def emit(self, group: Group, problem: Problem, config: Config, target: Machine) -> KernelSource:
        """The kernel of a group; raises KernelError for a config that the problem cannot have."""
        ...


class OneWay(Template[Problem, None, Machine], Protocol[Problem, Machine]):
    """A template with nothing to choose."""

    def configs(self, problem: Problem, target: Machine) -> Iterable[None]:
        """The only config."""
        return [None]


@runtime_checkable
class Outlines(Protocol):
    """Templates whose launches are known without their kernels."""

    def launches(self, group: Group, problem: Any, config: Any, target: Any) -> Sequence[Launch]:
        """The launches of a group's kernel, for estimates: perhaps without arguments."""
        ...


@runtime_checkable
class Shortlists(Protocol):
    """Templates that do not have their configs measured in the order of the estimates."""

    def shortlist(
        self, problem: Any, target: Any, known: Mapping[str, Entry], count: int
    ) -> Sequence[Any]:
        """At most `count` configs to measure, the most promising first; `known` were measured."""
        ...


@runtime_checkable
class Reserves(Protocol):
    """Templates with configs that are built only where they were measured."""

    def is_modelled(self, problem: Any, config: Any) -> bool:
        """Whether the estimate alone may choose a config."""
        ...


@runtime_checkable
class Predicts(Protocol):
    """Templates that predict a problem's configs from measured times of other problems."""

    def related_key(self, problem: Any, target: Any) -> Key:
        """The key of a problem whose measured configs may be used where this one has none."""
        ...

    def nearest(
        self,
        problem: Any,
        target: Any,
        known: Mapping[str, Entry],
        configs: Collection[Any],
    ) -> Any:
        """The fastest config predicted from times of similar problems; None without any."""
        ...


@runtime_checkable
class Varies(Protocol):
    """Templates with configs that are not listed, as only a whole model shows their speed."""

    config_type: ClassVar[type[Any]]
    """The dataclass of configs."""

    def allows(self, problem: Any, config: Any, target: Any, configs: Collection[Any]) -> bool:
        """Whether a problem can have a measured config; `configs` are all that are listed."""
        ...

    def variants(self, problem: Any, config: Any, target: Any) -> Sequence[Any]:
        """Configs that overlap otherwise with other kernels: to be measured within a model."""
        ...


@runtime_checkable
class Folds(Protocol):
    """Templates whose store function stores each element of every result once.

    Threads can then fold the range of what they store, see `gpu/ranges`.
    """

    folds_ranges: ClassVar[bool]


@runtime_checkable
class SharesWeights(Protocol):
    """Templates that can read a weight as other modules of a program have it in memory."""

    def is_packed(self, group: Group, problem: Any, config: Any, target: Any) -> bool:
        """Whether memory has the weight already as a config's kernel reads it."""
        ...
