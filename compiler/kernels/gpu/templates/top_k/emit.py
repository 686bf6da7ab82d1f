"""The CUDA text around top_k.cuh."""

from collections.abc import Sequence

import ml_dtypes
import numpy

from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.top_k.problem import ITEMS, Config, Merging, Problem, Sorting
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import Launch
from compiler.tensors.dtypes import ELEMENT_BYTES


def top_k_kernel(group: Group, problem: Problem, config: Config) -> KernelSource:
    """The kernel of a group: launches write lists to two workspaces in turns, then the results."""
    launches = problem.launches(config)
    workspaces = problem.workspaces(config)
    data = problem.operator.operand(0)
    written = [problem.operator.outputs.index(number) for number in group.outputs]
    lines = [header("top_k"), _constants(problem, config)]
    made: list[Launch] = []
    for i, launch in enumerate(launches):
        first, last = i == 0, i == len(launches) - 1
        parameters: list[tuple[str, str, int]] = []
        if first or last:
            parameters.append(("const Problem::Bits*", "data", data))
        if not first:
            scratch = group.inputs + len(group.outputs) + (i - 1) % 2
            parameters.append(("const EntryOf<Problem>*", "entries", scratch))
        if last:
            results = (("Problem::Bits*", "values"), ("int64_t*", "positions"))
            for place, which in enumerate(written):
                parameters.append((*results[which], group.inputs + place))
        else:
            scratch = group.inputs + len(group.outputs) + i % 2
            parameters.append(("EntryOf<Problem>*", "lists", scratch))
        name = f"{group.name}_{i}"
        text = ", ".join(f"{kind} __restrict__ {own}" for kind, own, _ in parameters)
        lines += [
            f'extern "C" __global__ void __launch_bounds__({config.threads}) {name}({text}) {{',
            f"  {_call(launch, first, _target(launches, i, written))};",
            "}",
        ]
        numbers = tuple(number for *_, number in parameters)
        made.append(Launch(name, numbers, (launch.blocks, 1, 1), (config.threads, 1, 1)))
    return KernelSource("\n".join([*lines, ""]), tuple(made), workspaces)


def _call(launch: Sorting | Merging, first: bool, target: str) -> str:
    """The function that a launch calls."""
    if isinstance(launch, Merging):
        sizes = f"{launch.length}, {launch.width}, {launch.kept}"
        return f"merge_lists<Problem, {sizes}>(entries, {target})"
    source = "Elements<Problem>{data}" if first else f"Entries<Problem, {launch.length}>{{entries}}"
    return f"sort_tiles<Problem, {launch.length}, {launch.segment}>({source}, {target})"


def _target(launches: Sequence[Sorting | Merging], i: int, written: Sequence[int]) -> str:
    """The results, or the lists that the next launch reads: a launch writes its entries there."""
    if i == len(launches) - 1:
        given = [own if which in written else "nullptr" for which, own in enumerate(_RESULTS)]
        return f"Results<Problem>{{data, {', '.join(given)}}}"
    launch = launches[i]
    if isinstance(launch, Merging):
        return f"Lists<Problem, {launch.length}, {2 * launch.width}, {launch.kept}>{{lists}}"
    return f"Lists<Problem, {launch.stored}, {launch.kept}, {launch.kept}>{{lists}}"


_RESULTS = ("values", "positions")


def _constants(problem: Problem, config: Config) -> str:
    """The problem as types and constants; `INFINITE` has the bits of a float's infinity."""
    size = ELEMENT_BYTES[problem.dtype]
    floating = "float" in problem.dtype
    kind = "FLOATING" if floating else "SIGNED" if problem.dtype.startswith("int") else "UNSIGNED"
    constants = {
        "THREADS": config.threads,
        "ITEMS": ITEMS,
        "ROWS": problem.rows,
        "INNER": problem.inner,
        "LENGTH": problem.length,
        "COUNT": problem.count,
    }
    lines = [
        f"  using Bits = uint{8 * size}_t;",
        f"  using Key = uint{max(32, 8 * size)}_t;",
        f"  static constexpr Kind KIND = {kind};",
        f"  static constexpr bool LARGEST = {str(problem.largest).lower()};",
        f"  static constexpr uint64_t INFINITE = {_infinite(problem.dtype) if floating else 0}ull;",
        *(f"  static constexpr int {name} = {value};" for name, value in constants.items()),
    ]
    return "\n".join(["struct Problem {", *lines, "};"])


def _infinite(dtype: str) -> int:
    infinity = numpy.array(
        numpy.inf, ml_dtypes.bfloat16 if dtype == "bfloat16" else numpy.dtype(dtype)
    )
    return int(infinity.view(f"uint{8 * infinity.itemsize}"))
