"""What each template can choose for a group: its candidates, and which one is taken without more.

Every template with a parameter that decides nothing but speed takes part.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass

from compiler.kernels.gpu.headers import template_hash
from compiler.kernels.gpu.recorded import Standing, entries, recorded, standing
from compiler.kernels.gpu.scheduled import CudaKernel
from compiler.kernels.gpu.templates.attention import template as attention
from compiler.kernels.gpu.templates.gemm.candidates import candidates, diverse
from compiler.kernels.gpu.templates.gemm.emit import Stores, contraction_kernel, tiled_problems
from compiler.kernels.gpu.templates.gemm.estimates import RATES, START_US, estimate
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.gpu.templates.gemm.tiles import Tile, in_order, overlapping
from compiler.kernels.gpu.templates.gemm.tuned import key_of, near_recorded, neighbours, transferred
from compiler.kernels.gpu.templates.grouped_conv import template as grouped
from compiler.kernels.gpu.templates.row_norm import template as rows
from compiler.kernels.gpu.templates.stem_conv import template as stem
from compiler.kernels.group import Group
from compiler.target.target import GpuTarget

Values = tuple[int, ...]


@dataclass(frozen=True)
class Option:
    """One choice of a template, and the microseconds that its kernel should take."""

    values: Values
    estimate: float


def _none(values: Values) -> tuple[Values, ...]:
    return ()


@dataclass(frozen=True)
class Choices:
    """The options of one template for a group, the likeliest first.

    `variants` gives what differs from an option only between other kernels, in a whole model.
    """

    template: str
    key: str
    options: tuple[Option, ...]
    build: Callable[[Values], CudaKernel | None]
    variants: Callable[[Values], tuple[Values, ...]] = _none

    @property
    def code(self) -> str:
        """The hash of the template's code."""
        return template_hash(self.template)


def choices_of(group: Group, target: GpuTarget, count: int) -> Iterator[Choices]:
    """The templates that can take a group, with at most `count` options each.

    A convolution of few channels may go to two, and groups to tiles of several merges of them: the
    times of all decide.
    """
    for template in (_attention, _grouped, _stem, _rows):
        found = template(group, target, count)
        if found is not None:
            yield found
    stores = Stores()
    for problem in tiled_problems(group, target):
        yield _contraction(group, problem, stores, target, count)


def standing_of(choices: Choices, target: GpuTarget, device: str) -> Standing:
    """Where the choice that is taken without more measurements comes from, on a device."""
    entry = recorded(choices.key, target)
    if entry is not None:
        return standing(entry, device)
    lent = choices.template == "contraction" and neighbours(choices.key, entries(target))
    return Standing.SIMILAR if lent else Standing.ESTIMATED


def _contraction(
    group: Group, problem: Problem, stores: Stores, target: GpuTarget, count: int
) -> Choices:
    fits = set(candidates(problem, target))
    lent = transferred(problem, target, entries(target), fits)
    first = [*near_recorded(problem, target, fits), *([in_order(lent)] if lent else [])]
    tiles = list(dict.fromkeys([*first, *diverse(problem, target, count)]))[:count]

    def build(values: Values) -> CudaKernel | None:
        return contraction_kernel(group, target, Tile(*values), stores, problem)

    def variants(values: Values) -> tuple[Values, ...]:
        return tuple(astuple(tile) for tile in overlapping(problem, Tile(*values), target))

    options = [Option(astuple(tile), estimate(problem, tile, target)) for tile in tiles]
    return Choices("contraction", key_of(problem, target), tuple(options), build, variants)


def _grouped(group: Group, target: GpuTarget, count: int) -> Choices | None:
    found = grouped.grouped_problem(group)
    if found is None:
        return None
    problem = found[1]
    able = grouped.candidates(problem)
    works = [(grouped.work_us(problem, work, target), astuple(work)) for work in able]

    def build(values: Values) -> CudaKernel | None:
        return grouped.grouped_kernel(group, target, grouped.Work(*values))

    options = tuple(Option(values, time) for time, values in sorted(works)[:count])
    return Choices("grouped", grouped.grouped_key(problem), options, build)


def _stem(group: Group, target: GpuTarget, count: int) -> Choices | None:
    found = stem.stem_problem(group, target)
    if found is None:
        return None
    problem = found[1]

    def build(values: Values) -> CudaKernel | None:
        return stem.stem_kernel(group, target, stem.Work(*values))

    works = stem.diverse(problem, target, count)
    options = tuple(Option(astuple(work), time) for time, work in works)
    return Choices("stem", stem.stem_key(problem), options, build) if options else None


def _attention(group: Group, target: GpuTarget, count: int) -> Choices | None:
    problem = attention.attention_of(group)
    if problem is None:
        return None

    def build(values: Values) -> CudaKernel | None:
        return attention.attention_kernel(group, target, attention.Block(*values))

    busy = target.device.sms * RATES[target.precision]
    stages = attention.can_stage(group, problem, target)
    blocks = map(astuple, attention.candidates(problem, target, stages))
    options = _alike([*blocks][:count], START_US + problem.multiplications / busy)
    return Choices("attention", attention.attention_key(problem, target), options, build)


def _rows(group: Group, target: GpuTarget, count: int) -> Choices | None:
    problem = rows.rows_problem(group)
    if problem is None:
        return None

    def build(values: Values) -> CudaKernel | None:
        return rows.rows_kernel(group, target, rows.Work(*values))

    options = [*map(astuple, rows.candidates(problem))][:count]
    return Choices("rows", rows.rows_key(problem), _alike(options, START_US), build)


def _alike(options: Sequence[Values], time: float) -> tuple[Option, ...]:
    """Options that no model tells apart."""
    return tuple(Option(values, time) for values in options)
