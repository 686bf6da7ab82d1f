"""Recurrences: all steps in one kernel, the recurrent weights in registers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from compiler.graph.fusion.recurrences import (
    Recurrence,
    RecurrentConfig,
    element_bytes_of,
    kernel_us,
    recurrent_configs,
    step_us,
)
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import c_type
from compiler.kernels.gpu.operands import find_operand
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import constants, kernel, restricted, struct
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, Key, Template
from compiler.net.operators import facts_of
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

READS = ("x", "weights", "bias", "lengths", "first_h", "first_c")
"""The operands, in the operator's order."""

WRITES = ("all_h", "last_h", "last_c")
"""The results, in the operator's order."""


@dataclass(frozen=True)
class Buffer:
    """A task's argument and its dtype."""

    argument: int
    dtype: str


@dataclass(frozen=True)
class Problem:
    """A recurrence and its operands and results by name; those left out are missing."""

    sizes: Recurrence
    operator: Node[int]
    reads: Mapping[str, Buffer]
    writes: Mapping[str, Buffer]


def _reads(group: Group, operator: Node[int]) -> dict[str, Buffer] | None:
    """The operands that are given; None if one is not a whole tensor that the kernel reads."""
    buffers: dict[str, Buffer] = {}
    for name, value in zip(READS, operator.inputs, strict=False):
        if value is None:
            continue
        if name == "lengths":
            if value >= group.inputs:
                return None
            buffers[name] = Buffer(value, group.values[value].dtype)
            continue
        operand = find_operand(group, value)
        if operand is None or operand.block or not operand.view.flags.c_contiguous:
            return None
        buffers[name] = Buffer(operand.read, operand.dtype)
    return buffers


def _writes(group: Group, operator: Node[int]) -> dict[str, Buffer] | None:
    """The results that are stored; None if one is in blocks of channels or is stored twice."""
    buffers: dict[str, Buffer] = {}
    for place, (value, info) in enumerate(zip(group.outputs, group.writes, strict=True)):
        maker = next(op for op in group.operators if value in op.outputs)
        source = value if maker is operator else maker.operand(0)
        name = WRITES[operator.outputs.index(source)] if source in operator.outputs else ""
        if info.block or not name or name in buffers:
            return None
        buffers[name] = Buffer(group.inputs + place, info.dtype)
    return buffers


FUNCTIONS: dict[str, Callable[[str, str], str]] = {
    "Affine": lambda alpha, beta: f"{alpha} * x + {beta}",
    "Elu": lambda alpha, beta: f"x < 0 ? {alpha} * flowloom_expm1(x) : x",
    "HardSigmoid": lambda alpha, beta: (
        f"flowloom_minimum(flowloom_maximum({alpha} * x + {beta}, 0.0f), 1.0f)"
    ),
    "LeakyRelu": lambda alpha, beta: f"x < 0 ? {alpha} * x : x",
    "Relu": lambda alpha, beta: "flowloom_maximum(x, 0.0f)",
    "ScaledTanh": lambda alpha, beta: f"{alpha} * flowloom_tanh({beta} * x)",
    "Sigmoid": lambda alpha, beta: "flowloom_sigmoid(x)",
    "Softplus": lambda alpha, beta: (
        "flowloom_maximum(x, 0.0f) + flowloom_log1p(flowloom_exp(-fabsf(x)))"
    ),
    "Softsign": lambda alpha, beta: "x / (1.0f + fabsf(x))",
    "Tanh": lambda alpha, beta: "flowloom_tanh(x)",
    "ThresholdedRelu": lambda alpha, beta: f"x > {alpha} ? x : 0.0f",
}
"""The C expression of each function, by its alpha and beta."""

CELLS = {
    "RNN": "h = f(x[0] + r[0]);",
    "GRU": (
        "const float update = f(x[0] + r[0]), reset = f(x[1] + r[1]);\n"
        "    h = (1.0f - update) * g(x[2] + reset * (r[2] + bias)) + update * h;"
    ),
    "GRU that resets first": "h = (1.0f - c) * g(x[2] + r[2]) + c * h;",
    "LSTM": (
        "const float write = f(x[0] + r[0]), keep = {keep};\n"
        "    c = write * g(x[3] + r[3]) + keep * c;\n"
        "    h = f(x[1] + r[1]) * k(c);"
    ),
}
"""The statements of a cell, by the gates of the inputs `x` and of the state `r`."""

RESET = "c = f(x[0] + r[0]);\n    return f(x[1] + r[1]) * h;"
"""The statements of the reset state of a GRU whose GEMM reads it; `c` keeps the update gate."""


def _literal(number: float) -> str:
    return f"{float(number)!r}f"


def _cell(problem: Problem) -> str:
    attributes, cell = problem.operator.attributes, problem.sizes.cell
    # The struct of a cell whose `step` computes its state from the gates. One that resets first
    # has the function of the reset state, too.
    resets_first = problem.sizes.exchanges > 1
    head = "  static __device__ __forceinline__"
    lines: list[str] = []
    for own, name, alpha, beta in zip(
        "fgk",
        attributes["activations"],
        attributes["activation_alpha"],
        attributes["activation_beta"],
        strict=False,
    ):
        body = FUNCTIONS[name](_literal(alpha), _literal(beta))
        bound = _literal(attributes["clip"])
        clipped = (
            f"x = flowloom_minimum(flowloom_maximum(x, -{bound}), {bound}); "
            if attributes["clip"]
            else ""
        )
        lines.append(f"{head} float {own}(float x) {{ {clipped}return {body}; }}")
    inputs = f"const float (&x)[{problem.sizes.gates}], const float (&r)[{problem.sizes.gates}]"
    keep = "1.0f - write" if bool(attributes["input_forget"]) else "f(x[2] + r[2])"
    step = CELLS["GRU that resets first" if resets_first else cell].format(keep=keep)
    lines += [
        f"{head} void step({inputs}, float bias, float& h, float& c) {{",
        f"    {step}",
        "  }",
    ]
    if resets_first:
        lines += [f"{head} float reset({inputs}, float h, float& c) {{", f"    {RESET}", "  }"]
    return struct("Cell", lines)


def _struct(
    problem: Problem, config: RecurrentConfig, buffers: dict[str, Buffer], target: GpuTarget
) -> str:
    """The struct of the constants and the buffers."""
    sizes = problem.sizes
    backwards = {"forward": 0, "reverse": 1, "bidirectional": 2}
    values: Mapping[str, int | str] = {
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
    lines = constants(values)
    element = "float" if element_bytes_of(target) == 4 else "uint16_t"
    lines.append(f"  using Element = {element};")
    for name in (*READS, *WRITES):
        given = name in buffers
        kind = c_type(buffers[name].dtype) if name in buffers else "float"
        qualifier = "const " if name in READS else ""
        if name not in READS[:2]:
            lines.append(f"  static constexpr bool {name.upper()} = {int(given)};")
        lines += [f"  using {_type(name)} = {kind};", f"  {qualifier}{kind}* {name};"]
    lines.append("  static __device__ __forceinline__ void wait() { grid_dependency_wait(); }")
    return struct("Problem", lines)


def _type(name: str) -> str:
    """The name of a buffer's C type: `LastH` of `last_h`."""
    return "".join(word.capitalize() for word in name.split("_"))


def _launched(launch: Launch, buffers: Mapping[str, Buffer]) -> tuple[str, Launch]:
    """The entry point and its launch; operands that are left out are null."""
    parameters = [
        restricted(f"{'const ' * (name in READS)}{c_type(own.dtype)}*", name, own.argument)
        for name, own in buffers.items()
    ]
    passed = ", ".join(name if name in buffers else "nullptr" for name in (*READS, *WRITES))
    call = f"recurrence<Problem, Cell>(Problem{{{passed}}})"
    return kernel(launch, parameters, call, f"{launch.block[0]}, 1", launch.grid[2])


class PersistentRecurrence(Template[Problem, RecurrentConfig, GpuTarget]):
    """A group of one Recurrence: a cluster computes eight sequences of a direction.

    Sums have an order that depends on the sizes and the config only: the same bits every time.
    """

    name = "recurrence"
    sources = ("recurrence.cuh", "arrivals.cuh", "instructions.cuh")

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The problem of a group that is a recurrence, casts aside; None for any other."""
        operator = group.only("Recurrence")
        others = (op.type for op in group.operators if op is not operator)
        if operator is None or not all(facts_of(type).converts for type in others):
            return None
        reads = _reads(group, operator)
        writes = _writes(group, operator)
        if reads is None or writes is None or not group.weights[reads["weights"].argument]:
            return None
        steps, batch, _ = group.values[operator.operand(0)].shape
        directions, _, hidden = group.values[operator.operand(1)].shape
        cell = str(operator.attributes["cell"])
        after = operator.attributes["linear_before_reset"]
        exchanges = 1 if after else 2
        sizes = Recurrence(cell, steps, batch, hidden, directions, exchanges=exchanges)
        return Problem(sizes, operator, reads, writes)

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[RecurrentConfig]:
        """The configs whose weights fit the registers and shared memory of a cluster."""
        return recurrent_configs(problem.sizes, target)

    def estimate_ns(self, problem: Problem, config: RecurrentConfig, target: GpuTarget) -> float:
        """Loading the weights, and the exchange, the MMAs and the cells of each step."""
        return 1e3 * kernel_us(problem.sizes, config, target)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The sizes and the type of the weights; the times of steps are alike."""
        sizes = problem.sizes
        return {
            "cell": sizes.cell + (", resets first" if sizes.exchanges > 1 else ""),
            "steps": sizes.steps,
            "batch": sizes.batch,
            "hidden": sizes.hidden,
            "directions": sizes.directions,
            "dtype": problem.reads["weights"].dtype,
        }

    def emit(
        self, group: Group, problem: Problem, config: RecurrentConfig, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group: a cluster for each direction and eight sequences."""
        sizes, registers = problem.sizes, target.device.registers
        buffers = {**problem.reads, **problem.writes}
        grid = (ceil_div(sizes.batch, sizes.sequences), sizes.directions, config.blocks)
        shared = config.shared_bytes(sizes, element_bytes_of(target), registers)
        bare = Launch(f"{group.name}_0", (), grid, (config.threads, 1, 1), shared)
        own, launch = _launched(bare, buffers)
        text = [header(name) for name in ("instructions", "arrivals", "recurrence")]
        text += [_cell(problem), _struct(problem, config, buffers, target), own]
        multiplied = sizes.gates * sizes.hidden * sizes.hidden * sizes.directions
        return KernelSource(
            "\n".join(text),
            (launch,),
            flops=2 * sizes.steps * sizes.batch * multiplied,
            serial_ns=round(1000 * sizes.steps * step_us(sizes, config, target)),
        )
