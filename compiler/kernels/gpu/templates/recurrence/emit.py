"""The CUDA text of a kernel around recurrence.cuh."""

from compiler.graph.fusion.recurrences import RecurrentConfig, element_bytes_of, step_us
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import c_type
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.recurrence.activations import cell_struct
from compiler.kernels.gpu.templates.recurrence.problem import (
    READS,
    WRITES,
    Buffer,
    Problem,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget


def recurrence_kernel(
    group: Group, problem: Problem, config: RecurrentConfig, target: GpuTarget
) -> KernelSource:
    """The kernel of a group: a cluster for each direction and eight sequences."""
    sizes, symbol = problem.sizes, f"{group.name}_0"
    buffers = {**problem.reads, **problem.writes}
    text = [header(name) for name in ("instructions", "arrivals", "recurrence")]
    text += [_cell(problem)]
    text += [_struct(problem, config, buffers, target), _function(symbol, config, buffers)]
    arguments = tuple(buffer.argument for buffer in buffers.values())
    grid = (ceil_div(sizes.batch, sizes.sequences), sizes.directions, config.blocks)
    registers = target.device.registers
    shared = config.shared_bytes(sizes, element_bytes_of(target), registers)
    launch = Launch(symbol, arguments, grid, (config.threads, 1, 1), shared)
    multiplied = sizes.gates * sizes.hidden * sizes.hidden * sizes.directions
    return KernelSource(
        "\n".join(text),
        (launch,),
        flops=2 * sizes.steps * sizes.batch * multiplied,
        serial_ns=round(1000 * sizes.steps * step_us(sizes, config, target)),
    )


def _cell(problem: Problem) -> str:
    attributes, cell = problem.operator.attributes, problem.sizes.cell
    return cell_struct(
        cell,
        problem.sizes.gates,
        attributes["activations"],
        attributes["activation_alpha"],
        attributes["activation_beta"],
        attributes["clip"],
        bool(attributes["input_forget"]),
        problem.sizes.exchanges > 1,
    )


def _struct(
    problem: Problem, config: RecurrentConfig, buffers: dict[str, Buffer], target: GpuTarget
) -> str:
    """The struct of the constants and the buffers."""
    sizes = problem.sizes
    backwards = {"forward": 0, "reverse": 1, "bidirectional": 2}
    constants = {
        "PRECISION": target.precision.upper(),
        "STEPS": sizes.steps,
        "BATCH": sizes.batch,
        "HIDDEN": sizes.hidden,
        "DIRECTIONS": sizes.directions,
        "BACKWARDS": backwards[problem.operator.attributes["direction"]],
        "GATES": sizes.gates,
        "EXCHANGES": sizes.exchanges,
        "SEQUENCES": sizes.sequences,
        "UNITS": config.units(sizes),
        "BLOCKS": config.blocks,
        "WARPS": config.warps,
        "SPLITS": config.splits,
        "HELD": config.held(sizes, element_bytes_of(target), target.device.registers),
    }
    lines = [f"  static constexpr int {name} = {value};" for name, value in constants.items()]
    element = "float" if element_bytes_of(target) == 4 else "uint16_t"
    lines.append(f"  using Element = {element};")
    for name in (*READS, *WRITES):
        given, kind = name in buffers, c_type(buffers[name].dtype) if name in buffers else "float"
        qualifier = "const " if name in READS else ""
        if name not in READS[:2]:
            lines.append(f"  static constexpr bool {name.upper()} = {int(given)};")
        lines += [f"  using {_type(name)} = {kind};", f"  {qualifier}{kind}* {name};"]
    lines.append("  static __device__ __forceinline__ void wait() { grid_dependency_wait(); }")
    return "\n".join(["struct Problem {", *lines, "};", ""])


def _type(name: str) -> str:
    """The name of a buffer's C type: `LastH` of `last_h`."""
    return "".join(word.capitalize() for word in name.split("_"))


def _function(symbol: str, config: RecurrentConfig, buffers: dict[str, Buffer]) -> str:
    """The entry point; operands that are left out are null."""
    given = [
        f"const {c_type(b.dtype)}* __restrict__ {name}"
        if name in READS
        else f"{c_type(b.dtype)}* __restrict__ {name}"
        for name, b in buffers.items()
    ]
    passed = ", ".join(name if name in buffers else "nullptr" for name in (*READS, *WRITES))
    cluster = f" __cluster_dims__(1, 1, {config.blocks})" if config.blocks > 1 else ""
    bounds = f"__launch_bounds__({config.threads}, 1)"
    return (
        f'extern "C" __global__ void{cluster} {bounds} {symbol}({", ".join(given)}) {{\n'
        f"  recurrence<Problem, Cell>(Problem{{{passed}}});\n}}\n"
    )
