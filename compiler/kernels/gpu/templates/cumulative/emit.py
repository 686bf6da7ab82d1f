"""The CUDA text around cumulative.cuh."""

from collections.abc import Sequence

from compiler.kernels.gpu.epilogue import c_type
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.cumulative.problem import Config, Division, Problem
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES


def cumulative_kernel(
    group: Group, problem: Problem, config: Config, target: GpuTarget
) -> KernelSource:
    """The kernel of a group: sums of chunks, if there are several, and the running sums."""
    division = problem.division(config, target)
    data, result, totals = problem.operator.operand(0), group.inputs, group.inputs + 1
    lines = [header("cumulative"), _constants(problem, config, division)]
    launches: list[Launch] = []
    several = division.chunks > 1

    def add(name: str, function: str, blocks: int, buffers: Sequence[tuple[str, str, int]]) -> None:
        symbol, threads = f"{group.name}_{name}", config.threads
        parameters = ", ".join(f"{kind}* {own}" for kind, own, _ in buffers)
        passed = ", ".join(own for _, own, _ in buffers)
        lines.append(
            f'extern "C" __global__ void __launch_bounds__({threads}) {symbol}({parameters}) {{\n'
            f"  {function}<Problem>({passed});\n}}"
        )
        numbers = tuple(number for *_, number in buffers)
        launches.append(Launch(symbol, numbers, (blocks, 1, 1), (threads, 1, 1)))

    reads = ("const Problem::Element", "data", data)
    writes = ("Problem::Element", "results", result)
    if several:
        sums = ("Problem::Sum", "totals", totals)
        add("sums", "sum_chunks", division.blocks * (division.chunks - 1), [reads, sums])
    known = [("const Problem::Sum", "totals", totals)] if several else []
    add("scan", "scan_chunks", division.blocks * division.chunks, [reads, *known, writes])
    scratch = (division.chunks - 1) * problem.rows * sum_bytes(problem.dtype)
    return KernelSource("\n".join([*lines, ""]), tuple(launches), (scratch,) if scratch else ())


def sum_bytes(dtype: str) -> int:
    """The bytes of a sum: halves are added in float32."""
    return max(4, ELEMENT_BYTES[dtype])


def _constants(problem: Problem, config: Config, division: Division) -> str:
    """The problem as types, constants and conversions; adding `none` changes no bit of a float."""
    floating = "float" in problem.dtype
    unsigned = f"uint{8 * ELEMENT_BYTES[problem.dtype]}_t"
    element = c_type(problem.dtype) if floating else unsigned
    total = "double" if problem.dtype == "float64" else "float" if floating else unsigned
    attributes = problem.operator.attributes
    constants = {
        "THREADS": config.threads,
        "ITEMS": config.items,
        "LANES": division.lanes,
        "PARTS": config.threads // division.lanes,
        "STEPS": division.steps,
        "ROWS": problem.rows,
        "LENGTH": problem.length,
        "INNER": problem.inner,
        "CHUNK": division.chunk,
        "CHUNKS": division.chunks,
    }
    flags = {name: bool(attributes[name.lower()]) for name in ("EXCLUSIVE", "REVERSE")}
    lines = [
        f"  using Element = {element};",
        f"  using Sum = {total};",
        *(f"  static constexpr int {name} = {value};" for name, value in constants.items()),
        *(f"  static constexpr bool {name} = {str(on).lower()};" for name, on in flags.items()),
        "  static __device__ __forceinline__ Sum none() { return Sum(-0.0f); }",
        "  static __device__ __forceinline__ Sum load(Element value) { return Sum(value); }",
        "  static __device__ __forceinline__ Element store(Sum value) { return Element(value); }",
    ]
    return "\n".join(["struct Problem {", *lines, "};"])
