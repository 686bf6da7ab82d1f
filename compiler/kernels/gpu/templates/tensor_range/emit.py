"""The CUDA text of a kernel around tensor_range.cuh."""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.kernels.gpu.blocks import DEVICE
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.gpu.epilogue import device_function, value_function, value_struct
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.tensor_range.problem import Config, Problem, after_range
from compiler.kernels.group import Group, Operator
from compiler.kernels.ops.lowering import unflatten_index
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.schedule import Launch
from compiler.target.target import GpuTarget

FLOAT_BYTES = 4

EXTREMES = ("&low", "&high")
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


def range_kernel(group: Group, problem: Problem, config: Config, target: GpuTarget) -> CudaKernel:
    """The kernel of a group: one launch, or one for the ranges of blocks and one for the rest."""
    parts = (
        *_loads(group, problem, target),
        _store("Store", group, problem, problem.wide, target),
        _store("Scalars", group, problem, problem.scalars, target),
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
    return CudaKernel("\n".join(text), launches, scratch, flops=group.operations)


def _loads(group: Group, problem: Problem, target: GpuTarget) -> list[Part]:
    """An element of the tensor, or those of the extremes of its parts."""
    reduced = {"Load": problem.lowest}
    if problem.parts:
        reduced = {"Low": problem.lowest, "High": problem.highest}
    return [_load(name, group, operator, target) for name, operator in reduced.items()]


def _load(name: str, group: Group, operator: Operator, target: GpuTarget) -> Part:
    """An element of the tensor that an operator reduces."""
    context, element = FusionContext(group, operator), variable("element")
    shape = group.values[operator.operand(0)].shape
    value = context.operand(0, unflatten_index(element, shape))
    own = f"{group.name}_{name.lower()}"
    function = value_function(own, context, value, [element], target)
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
    own = f"{group.name}_{name.lower()}"
    function = device_function(own, context, statement, [element], target, exact=True)
    numbers = [_number(group, results, i) for i in function.arguments]
    passed = [EXTREMES[-n - 1] if n < 0 else f"buffer{n}" for n in numbers]
    buffers = {n: t for n, t in zip(numbers, function.types, strict=True) if n >= 0}
    call = f"{own}({', '.join([*passed, 'element'])});"
    members = [f"{kind}* buffer{number};" for number, kind in buffers.items()]
    text = f"{function.text}\n{_struct(name, members, call)}"
    return Part(name, text, tuple(buffers.values()), tuple(buffers))


def _struct(name: str, members: Sequence[str], call: str) -> str:
    """A struct that is called with the number of an element and the extremes."""
    lines = [f"struct {name} {{", *(f"  {member}" for member in members)]
    lines += [f"{DEVICE} void operator()(int element, float low, float high) const {{ {call} }}"]
    return "\n".join([*lines, "};", ""])


def _number(group: Group, results: Sequence[int], buffer: int) -> int:
    """A kernel's argument for a buffer of `after_range`; those of extremes are negative."""
    place = buffer - group.inputs
    if place < 0:
        return buffer
    extremes = len(EXTREMES)
    if place < extremes:
        return -place - 1
    return group.inputs + group.outputs.index(results[place - extremes])


def _constants(problem: Problem, config: Config) -> str:
    constants = {
        "ELEMENTS": problem.elements,
        "PARTS": problem.parts,
        "THREADS": config.threads,
        "ITEMS": config.items,
        "BLOCKS": config.blocks,
    }
    lines = [f"  static constexpr int {name} = {value};" for name, value in constants.items()]
    return "\n".join(["struct Problem {", *lines, "};", ""])
