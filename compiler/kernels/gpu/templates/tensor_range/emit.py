"""The CUDA text of a kernel around tensor_range.cuh."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compiler.kernels.gpu.blocks import DEVICE
from compiler.kernels.gpu.epilogue import by_element, device_function, value_function, value_struct
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.tensor_range.problem import Config, Problem, after_range
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.row_major import unflatten_index

FLOAT_BYTES = 4

GIVEN = ("&low", "&high", "&x")
"""The arguments for the reads that `after_range` adds."""


@dataclass(frozen=True)
class Part:
    """A struct of some buffers that the kernel makes: their C types and numbers."""

    name: str
    text: str
    types: tuple[str, ...] = ()
    arguments: tuple[int, ...] = ()

    @property
    def made(self) -> str:
        """The expression that makes it."""
        return f"{self.name}{{{', '.join(f'buffer{number}' for number in self.arguments)}}}"


def range_kernel(group: Group, problem: Problem, config: Config, target: GpuTarget) -> KernelSource:
    """The kernel of a group: one launch, or one for the ranges of blocks and one for the rest."""
    parts = (
        *_loads(group, problem, target),
        _store("Store", group, problem, (*problem.wide, *_sums(problem)), target),
        _store("Scalars", group, problem, problem.scalars, target),
        _rows(group, problem),
    )
    phases = ("WHOLE",) if config.launches(problem) == 1 else ("RANGES", "REST")
    scratch = (2 * FLOAT_BYTES * config.blocks,) if len(phases) > 1 else ()
    types = {n: t for part in parts for n, t in zip(part.arguments, part.types, strict=True)}
    if scratch:
        types[group.inputs + len(group.writes)] = "float"
    names = [f"{group.name}_{i}" for i in range(len(phases))]
    text = [header("tensor_range"), _constants(problem, config), *(part.text for part in parts)]
    for name, phase in zip(names, phases, strict=True):
        made = ", ".join(part.made for part in parts)
        workspace = f"buffer{max(types)}" if scratch else "nullptr"
        given = ", ".join(f"{kind}* buffer{number}" for number, kind in types.items())
        call = "follow_parts<Problem>" if problem.parts else f"follow_range<Problem, {phase}>"
        passed = made if problem.parts else f"{made}, {workspace}"
        text += [
            f'extern "C" __global__ void __launch_bounds__({config.threads}) {name}({given}) {{',
            f"  {call}({passed});\n}}\n",
        ]
    grid, block = (config.blocks, 1, 1), (config.threads, 1, 1)
    launches = tuple(Launch(name, tuple(types), grid, block) for name in names)
    return KernelSource("\n".join(text), launches, scratch, flops=group.operations)


def _loads(group: Group, problem: Problem, target: GpuTarget) -> list[Part]:
    """An element of the tensor, and those of the extremes of its parts."""
    loaded = {"Load": problem.tensor}
    if problem.parts:
        loaded |= {"Low": problem.lowest.operand(0), "High": problem.highest.operand(0)}
    return [_load(name, group, value, target) for name, value in loaded.items()]


def _load(name: str, group: Group, value: int, target: GpuTarget) -> Part:
    """An element of a value that is read or a cast of what is read."""
    info, element = group.values[value], variable("element")
    anchor = Node("Identity", {}, (value,), (len(group.values),))
    around = replace(
        group,
        values=(*group.values, info),
        operators=(*group.operators, anchor),
        outputs=anchor.outputs,
    )
    context = FusionContext(around, anchor)
    loaded = context.operand(0, unflatten_index(element, info.shape))
    own = f"{group.name}_{name.lower()}"
    function = value_function(own, context, loaded, [element], target)
    text = f"{function.text}\n{value_struct(name, function, 'int element')}"
    return Part(name, text, function.types, function.arguments)


def _store(
    name: str, group: Group, problem: Problem, results: Sequence[int], target: GpuTarget
) -> Part:
    """Some results, all for an element of the tensor or all of one element, given the extremes."""
    if not results:
        return Part(name, _struct(name, (), ""))
    after, element = after_range(group, problem, results), variable("element")
    context = FusionContext(after, None)
    statement = context.store(None, unflatten_index(element, after.writes[0].shape))
    statement = by_element(statement, context.reads[-1:])
    own = f"{group.name}_{name.lower()}"
    function = device_function(own, context, statement, [element], target, exact=True)
    numbers = [_number(group, results, i) for i in function.arguments]
    names = dict(zip((-1, -2, -3), GIVEN, strict=True))
    names |= {group.inputs + group.outputs.index(v): "&sum" for v in _sums(problem)}
    passed = [names.get(n, f"buffer{n}") for n in numbers]
    buffers = {n: t for n, t in zip(numbers, function.types, strict=True) if n not in names}
    call = f"{own}({', '.join([*passed, 'element'])});"
    members = [f"{kind}* buffer{number};" for number, kind in buffers.items()]
    text = f"{function.text}\n{_struct(name, members, call)}"
    return Part(name, text, tuple(buffers.values()), tuple(buffers))


def _struct(name: str, members: Sequence[str], call: str) -> str:
    """A struct that is called with an element, its number, the extremes and the sum of a row."""
    given = "int element, float x, float low, float high, int& sum"
    head = f"{DEVICE} void operator()({given}) const {{ {call} }}"
    return "\n".join([f"struct {name} {{", *(f"  {member}" for member in members), head, "};", ""])


def _sums(problem: Problem) -> tuple[int, ...]:
    """The result that adds rows, if there is one."""
    return () if problem.sums is None else (problem.sums,)


def _rows(group: Group, problem: Problem) -> Part:
    """The struct that writes the sum of a row."""
    numbers = tuple(group.inputs + group.outputs.index(value) for value in _sums(problem))
    members = [f"  int* buffer{number};" for number in numbers]
    written = [f"buffer{number}[row] = sum;" for number in numbers]
    call = f"{DEVICE} void operator()(int row, int sum) const {{ {' '.join(written)} }}"
    text = "\n".join(["struct Rows {", *members, call, "};", ""])
    return Part("Rows", text, ("int",) * len(numbers), numbers)


def _number(group: Group, results: Sequence[int], buffer: int) -> int:
    """A kernel's argument for a buffer of `after_range`; those of `GIVEN` are negative."""
    place = buffer - group.inputs
    if place < 0:
        return buffer
    if place < len(GIVEN):
        return -place - 1
    return group.inputs + group.outputs.index(results[place - len(GIVEN)])


def _constants(problem: Problem, config: Config) -> str:
    constants = {
        "ELEMENTS": problem.elements,
        "PARTS": problem.parts,
        "THREADS": config.threads,
        "ITEMS": config.items,
        "BLOCKS": config.blocks,
        "ROW": problem.row,
    }
    lines = [f"  static constexpr int {name} = {value};" for name, value in constants.items()]
    return "\n".join(["struct Problem {", *lines, "};", ""])
