"""The options of a build, checked and complete."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from compiler.autotune.schedule import SearchOptions
from compiler.autotune.schedule.costs import open_database
from compiler.autotune.tuner import Tuner
from compiler.backends.policy import GraphPolicy
from compiler.errors import DeviceError, PipelineError
from compiler.frontend.semantics import Semantics
from compiler.kernels.building import KernelCache
from compiler.passes.pipeline import DEFAULT_PIPELINE, without_pass
from compiler.target.target import parse_target
from compiler.tensors.contraction import Contraction

SUBSTITUTE = "substitute"
"""The pass that settings may leave out."""


def check_files(
    target: str,
    budget: float | None,
    profile: str | os.PathLike[str] | None,
    dump_ir: str | os.PathLike[str] | None,
) -> None:
    """Raise a FlowloomError for a profile or a folder that a compilation could not use.

    DeviceError for measurements that are not made for a target.
    """
    name = parse_target(target).backend
    measured = parse_target(target).searches_schedules
    if name in ("hip", "emu") and (budget or profile is not None):
        raise DeviceError(
            f"for the target {name} nothing is measured: leave out budget and profile"
        )
    if name == "cpu" and profile is not None:
        raise DeviceError("a profile is for a GPU's schedules: leave it out for cpu")
    if measured and profile is not None:
        open_database(profile, required=budget == 0)
    if dump_ir is not None:
        try:
            Path(dump_ir).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"cannot dump IR to {dump_ir}: {error.strerror}") from error


@dataclass(frozen=True)
class Settings:
    """The options of a build; see `compiler.compile`."""

    target: str
    """The complete target, see `full_target`."""
    pipeline: str | None = None
    """None for the default pipeline, on a GPU for the best of several candidates."""
    dump_ir: str | os.PathLike[str] | None = None
    cache: KernelCache | None = None
    # the cores that this process may use, which a container may limit
    jobs: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    budget: float = 0.0
    """Seconds for measuring on a GPU."""
    tuner: Tuner | None = None
    """The measuring of kernels, where there are a device and a budget."""
    profile: str | os.PathLike[str] | None = None
    """A file of kernel times, to which measurements are added."""
    searching: SearchOptions = field(default_factory=SearchOptions)
    """The options of the schedule search for a GPU."""
    check_indices: bool = False
    """Whether runs raise an error for indices out of range."""
    substitution: bool = True
    """Whether the default pipeline substitutes operators."""
    graphs: GraphPolicy = field(default_factory=GraphPolicy)
    """The parts of PyGraph that are used on a GPU."""
    packed: frozenset[str] = frozenset()
    """The names of weights that other modules of a program read, packed or not."""
    contractions: tuple[Contraction, ...] = ()
    """The ways to contract quantised operands to compare; the target's if it is empty."""
    semantics: Semantics = field(default_factory=Semantics)
    """Whether results are the ONNX text's or onnxruntime's, where these differ."""
    chosen: bool = False
    """Whether the user chose pipeline, schedule, budget or profile."""

    @property
    def compared_contractions(self) -> tuple[Contraction, ...]:
        """The ways to contract quantised operands to compare."""
        return self.contractions or parse_target(self.target).compared_contractions

    @property
    def passes(self) -> str:
        """The given pipeline or the default one."""
        if self.pipeline is not None:
            return self.pipeline
        return DEFAULT_PIPELINE if self.substitution else without_pass(DEFAULT_PIPELINE, SUBSTITUTE)
