"""Fourier transforms of rows, each by some threads of a block."""

from dataclasses import dataclass

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.source import header, literal
from compiler.kernels.gpu.structs import kernel, restricted
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.fourier import roots_of_unity
from compiler.kernels.template import KernelSource, OneWay
from compiler.net.operators import FOURIER
from compiler.net.operators.fourier import radices_of
from compiler.schedule.kernels import Launch
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.target.target import GpuTarget

EACH, FEWEST_THREADS, MOST_THREADS = 8, 32, 512
"""Elements of a thread, and the fewest and most threads of a row."""

BLOCK = 128
"""Threads of a block, unless a row has more."""

ELEMENT_BYTES = 8


@dataclass(frozen=True)
class Problem:
    """A transform of `rows` of `have` elements, of which `bins` are wanted."""

    operator: Node[int]
    rows: int
    have: int
    length: int
    bins: int

    @property
    def threads(self) -> int:
        """Threads of a row: a power of two."""
        wanted = 1 << (ceil_div(self.length, EACH) - 1).bit_length()
        return min(MOST_THREADS, max(FEWEST_THREADS, wanted))

    @property
    def rows_of_block(self) -> int:
        """Rows of a block."""
        return max(1, BLOCK // self.threads)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        return self.rows_of_block * (self.length + self.length // 32 + 1) * ELEMENT_BYTES


def _constants(problem: Problem) -> str:
    attributes = problem.operator.attributes
    inverse = bool(attributes["inverse"])
    constants = {
        "THREADS": problem.threads,
        "ROWS_OF_BLOCK": problem.rows_of_block,
        "ROWS": problem.rows,
        "HAVE": problem.have,
        "LENGTH": problem.length,
        "BINS": problem.bins,
        "SIGN": 1 if inverse else -1,
        "HALF": attributes["half"],
    }
    tables = zip(("cosine", "sine"), roots_of_unity(problem.length, inverse), strict=True)
    lines = [f"  static constexpr int {name} = {value};" for name, value in constants.items()]
    texts: list[str] = []
    for name, table in tables:
        numbers = ", ".join(map(literal, table))
        texts.append(f"static __device__ const float {name}s[] = {{{numbers}}};")
        lines.append(
            f"  static __device__ __forceinline__ float {name}(int i) {{ return {name}s[i]; }}"
        )
    return "\n".join([*texts, "struct Problem {", *lines, "};"])


LAUNCH_US, STAGE_US = 2.0, 0.6
"""Microseconds of a launch with its loads and stores, and of a stage, by latencies: not fitted."""


class TransformRows(OneWay[Problem, GpuTarget]):
    """A group that is a FourierTransform, in n log n steps a row."""

    name = "fourier"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The transform that a group is; None for any other group, or too long a one."""
        (anchor, *others) = group.operators
        if anchor.type != FOURIER or others or any(i >= group.inputs for i in anchor.inputs if i):
            return None
        rows, have = group.values[anchor.operand(0)].shape
        length, bins = anchor.attributes["length"], anchor.attributes["bins"]
        problem = Problem(anchor, rows, have, length, bins)
        fits = problem.shared_bytes <= DEFAULT_SHARED_BYTES and rows > 0
        return problem if fits and radices_of(length) else None

    def estimate_ns(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """Waves of blocks with the latencies of their stages, or the traffic of the tensors."""
        threads = problem.threads * problem.rows_of_block
        device = target.device
        resident = device.sms * device.resident_blocks(threads, 64, problem.shared_bytes)
        waves = ceil_div(ceil_div(problem.rows, problem.rows_of_block), resident)
        traffic = 8 * problem.rows * (problem.have + problem.bins) / device.bandwidth / 1000
        latency = waves * len(radices_of(problem.length)) * STAGE_US
        return 1e3 * (LAUNCH_US + max(traffic, latency))

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> KernelSource:
        """The kernel of a group: one launch."""
        given = {"real": 0, "imaginary": 1}
        inputs, results = problem.operator.inputs, problem.operator.outputs
        reads = {own: inputs[i] for own, i in given.items() if i < len(inputs)}
        reads = {own: number for own, number in reads.items() if number is not None}
        writes = {
            f"{own}_bins": group.inputs + group.outputs.index(results[i])
            for own, i in given.items()
            if i < len(results) and results[i] in group.outputs
        }
        numbers = dict.fromkeys(reads.values())
        parameters = [restricted("const float*", f"read{number}", number) for number in numbers]
        parameters += [restricted("float*", own, number) for own, number in writes.items()]
        passed = [f"read{reads[own]}" if own in reads else "nullptr" for own in given]
        passed += [own if own in writes else "nullptr" for own in (f"{n}_bins" for n in given)]
        radices = ", ".join(map(str, radices_of(problem.length)))
        grid = (ceil_div(problem.rows, problem.rows_of_block), 1, 1)
        block = (problem.threads * problem.rows_of_block, 1, 1)
        call = f"transform_rows<Problem, {radices}>({', '.join(passed)})"
        text, launch = kernel(Launch(f"{group.name}_0", (), grid, block), parameters, call)
        return KernelSource("\n".join([header("fourier"), _constants(problem), text]), (launch,))
