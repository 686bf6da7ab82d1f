"""Segments that are compiled once for all sizes of their inputs, and their modules for some."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from threading import Lock
from typing import Any, cast

from compiler.artifact.artifact import Artifact
from compiler.artifact.module import Module
from compiler.artifact.symbolic import SymbolicArtifact
from compiler.backends.base import (
    Array,
    Executable,
    RunsAllSizes,
    SizedExecutables,
    backend,
)
from compiler.backends.cpu.build import SharedCode
from compiler.backends.gpu.functions import SharedFunctions
from compiler.program.folding import FoldedOutputs
from compiler.program.static import StaticSegment
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import RESERVED_NAMES, Allocation
from compiler.support.arguments import LARGEST_SIZE
from compiler.target.target import parse_target
from compiler.tensors.assumptions import Assumptions
from compiler.tensors.extents import Extent, Shape, bounds, extent_of, terms_of
from compiler.tensors.substitution import is_symbolic, substituted_shape
from compiler.tensors.symbols import Symbol

LEAST = 2
"""The least size that a symbol stands for: axes of one element broadcast, empty ones are rare."""

SHARED_CODE: Mapping[str, Callable[[Iterable[KernelSpec]], SharedCode | SharedFunctions]] = {
    "cpu": SharedCode,
    "cuda": SharedFunctions,
    "emu": SharedFunctions,
}
"""The code of kernels that modules for several sizes share, by the backends that have such."""

_SCOPES = count(1)
"""A number for each compilation: results cached for one are not those of another's symbols, as
conditions that were assumed on the way belong to the compilation."""

Sizes = Mapping[str, int]
"""Sizes by symbol."""


@dataclass(frozen=True)
class SymbolicSegment:
    """A segment for all sizes that meet what was assumed when it was compiled.

    `axes` are the shapes of its inputs: numbers and symbols. `options` are those of the modules.
    """

    axes: Mapping[str, Shape]
    assumptions: Assumptions
    outputs: FoldedOutputs
    build: SymbolicArtifact
    options: Mapping[str, Any]

    @cached_property
    def code(self) -> SharedCode | SharedFunctions:
        """The kernels' code, which the modules for all sizes share."""
        share = SHARED_CODE[parse_target(self.build.target).backend]
        return share(self.build.schedule.kernels.values())

    @cached_property
    def executables(self) -> SizedExecutables:
        """Its kernels and weights on the device; raises DeviceError if that cannot run them."""
        build = self.build
        runs = cast(RunsAllSizes, backend(build.target))
        runs.check(build.requirements or runs.requirements(build.target))
        return runs.for_sizes(build.certificate, build.weights, code=self.code, **self.options)

    def __getstate__(self) -> dict[str, Any]:
        """The state for `pickle` and `copy`, without what is on the device."""
        return {name: value for name, value in vars(self).items() if name != "executables"}

    @property
    def inputs(self) -> Sequence[Allocation]:
        """Name, dtype and shape of the inputs of its kernels."""
        return self.build.schedule.schedule.of_kind("input")

    @property
    def results(self) -> list[str]:
        """The names of its outputs, those of checks of indices among them."""
        folded = self.outputs
        computed = [output.name for output in self.build.schedule.schedule.of_kind("output")]
        return [*computed, *folded.constants, *folded.passed, *folded.sizes]

    def sizes_of(self, shapes: Mapping[str, tuple[int, ...]]) -> Sizes | None:
        """The sizes by which inputs have these shapes; None if it is not compiled for them."""
        sizes = dict[str, int]()
        for name, axes in self.axes.items():
            if len(axes) != len(shapes[name]):
                return None
            for extent, size in zip(axes, shapes[name], strict=True):
                if not is_symbolic(extent):
                    if extent != size:
                        return None
                    continue
                symbol, factor = multiple_of(extent)
                value, rest = divmod(size, factor)
                if rest or sizes.setdefault(symbol.name, value) != value:
                    return None
                if not _admits(extent, size):
                    return None
        return sizes if self.assumptions.hold(sizes) else None

    def at(self, sizes: Sizes) -> StaticSegment:
        """The segment for sizes, by the certificate for all sizes.

        Raises NotForAllSizes or ScheduleError if it is not for these.
        """
        return StaticSegment(self.outputs.at(sizes), SizedModule(self, sizes))


class SizedModule(Module):
    """A module of a symbolic segment for sizes: loaded by the certificate for all sizes.

    Its content is computed apart, and verified as that of any module, when it is asked for.
    """

    def __init__(self, segment: SymbolicSegment, sizes: Sizes) -> None:
        self._segment = segment
        self._sizes = sizes
        self._numbers = segment.build.certificate.numbers_at(sizes)
        self._backend = backend(segment.build.target)
        self._options = dict(segment.options)
        self.build_seconds = {}
        self._lock = Lock()
        self._loaded: Executable | None = None
        self._made: Module | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"segment": self._segment, "sizes": self._sizes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)

    @property
    def content(self) -> Artifact:
        """All that is saved of the module; raises ScheduleError or KernelError if it is wrong."""
        with self._lock:
            if self._made is None:
                content = self._segment.build.at(self._sizes)
                self._made = Module(content, code=self._segment.code, **self._options)
            return self._made.content

    @property
    def target(self) -> str:
        return self._segment.build.target

    @property
    def weights(self) -> Mapping[str, Array]:
        return self._segment.build.weights

    @property
    def inputs(self) -> Sequence[Allocation]:
        return [allocation for allocation in self._allocations if allocation.kind == "input"]

    @property
    def outputs(self) -> Sequence[Allocation]:
        outputs = [allocation for allocation in self._allocations if allocation.kind == "output"]
        return [
            allocation for allocation in outputs if not allocation.name.startswith(RESERVED_NAMES)
        ]

    @property
    def _allocations(self) -> Sequence[Allocation]:
        return self._segment.build.certificate.numbers.allocations_at(self._numbers)

    def _check(self) -> None:
        """Verify the content, apart from the certificate for all sizes."""
        _ = self.content

    def _load(self) -> Executable:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._segment.executables.at(self._numbers)
            return self._loaded


def multiple_of(extent: Extent) -> tuple[Symbol, int]:
    """The symbol and the factor of an input's axis that a run decides; ValueError for others."""
    match [*terms_of(extent)]:
        case [((Symbol() as symbol,), factor)] if factor > 0:
            return symbol, factor
        case _:
            raise ValueError(f"{extent} is not a multiple of a symbol")


def _admits(extent: Extent, size: int) -> bool:
    """Whether a size is within the bounds of an extent."""
    low, high = bounds(extent)
    return low <= size <= high


def symbolic_axes(
    shapes: Mapping[str, tuple[int, ...]], names: Mapping[str, Sequence[str | None]]
) -> dict[str, Shape]:
    """The shapes of inputs with symbols for the axes that may change, with these sizes as hints.

    `names` are the symbols of the model's inputs, None for an axis of fixed size. Of an input that
    another segment computes every axis may change.
    """
    symbols = dict[str, Symbol]()
    scope = next(_SCOPES)

    def extent(name: str, axis: int, size: int) -> int:
        symbol = names[name][axis] if name in names else f"{name}.{axis}"
        if symbol is None or size < LEAST:
            return size
        entry = symbols.setdefault(symbol, Symbol(symbol, LEAST, LARGEST_SIZE, size, scope))
        return extent_of(entry) if entry.hint == size else size

    return {
        name: tuple(extent(name, axis, size) for axis, size in enumerate(shape))
        for name, shape in shapes.items()
    }


def symbols_in(axes: Mapping[str, Shape]) -> Iterator[str]:
    """The names of the symbols of some shapes."""
    for shape in axes.values():
        yield from (multiple_of(extent)[0].name for extent in shape if is_symbolic(extent))


def with_extents(axes: Mapping[str, Shape], values: Mapping[Symbol, Extent]) -> dict[str, Shape]:
    """Shapes with numbers, or other extents, in place of some symbols."""
    return {name: substituted_shape(shape, values) for name, shape in axes.items()}
