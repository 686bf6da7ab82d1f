"""Groups around one anchor for the tests of templates, and how their kernels are checked."""

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy
from hypothesis import strategies as st

from compiler.backends.cpu.build import CpuProgram
from compiler.graph.packing import apply_packing
from compiler.kernels.building.kernel import compile_scheduled
from compiler.kernels.building.select import Candidate, best
from compiler.kernels.database.fields import Config
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import CpuTarget, parse_cpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.harness import POISON, Array, entry

targets = st.sampled_from(["cpu", "cpu", "cpu:x86-64-v3", "cpu:x86-64"])
"""The host and narrower vectors."""


def fused(
    type: str,
    arrays: Sequence[Array],
    output: Sequence[int],
    attributes: Mapping[str, object],
    weights: int,
    prologue: bool = False,
    residual: bool = False,
) -> Group:
    """An anchor over `arrays`, of which the last `weights` are weights.

    `prologue` puts a Relu before its operand 0; `residual` adds a read of the result's shape and
    a Relu after it, and returns the anchor's result too.
    """
    values = [TensorInfo(a.dtype.name, a.shape) for a in arrays]
    flags = [False] * (len(arrays) - weights) + [True] * weights
    result = TensorInfo("float32", tuple(output))
    if residual:
        values.append(result)
        flags.append(False)
    reads, operands = len(values), list(range(len(arrays)))
    operators: list[Node[int]] = []

    def add(type: str, inputs: Sequence[int], info: TensorInfo, **attributes: object) -> int:
        values.append(info)
        operators.append(Node(type, attributes, tuple(inputs), (len(values) - 1,), "node"))
        return len(values) - 1

    if prologue:
        operands[0] = add("Relu", [0], values[0])
    anchor = add(type, operands, result, **attributes)
    outputs = [anchor]
    if residual:
        outputs.append(add("Relu", [add("Add", [anchor, reads - 1], result)], result))
    return Group(
        f"{type}_template", tuple(values), reads, tuple(flags), {}, tuple(operators), tuple(outputs)
    )


def narrowed(group: Group, dtype: str) -> Group:
    """A float32 group whose reads and results have 16 bits: Casts come before and after the rest.

    So are the groups of a model in 16 bits, whose anchors compute in float32.
    """
    floats = [i for i in range(group.inputs) if group.values[i].dtype == "float32"]
    values = [replace(v, dtype=dtype) if i in floats else v for i, v in enumerate(group.values)]
    wide: dict[int, int] = {}
    operators: list[Node[int]] = []

    def cast(value: int, to: str) -> int:
        values.append(replace(values[value], dtype=to))
        operators.append(
            Node("Cast", {"to": ELEMENT_NUMBERS[to]}, (value,), (len(values) - 1,), "cast")
        )
        return len(values) - 1

    wide = {i: cast(i, "float32") for i in floats}
    for op in group.operators:
        inputs = tuple(i if i is None else wide.get(i, i) for i in op.inputs)
        operators.append(replace(op, inputs=inputs))
    outputs = tuple(cast(i, dtype) for i in group.outputs)
    return replace(group, values=tuple(values), operators=tuple(operators), outputs=outputs)


ELEMENT_NUMBERS = {"float32": 1, "float16": 10, "bfloat16": 16}
"""ONNX's numbers of the types of floats."""


AXES = {
    "a Gemm": ("Gemm", ((20, 64), (64, 36)), (20, 36), (1, 20, 1, 36)),
    "one row": ("MatMul", ((1, 64), (64, 36)), (1, 36), (36,)),
    "one element after vectors": ("MatMul", ((1, 1, 20), (1, 20, 5)), (1, 1, 5), (5,)),
    "batches of these": ("MatMul", ((2, 3, 1, 20), (2, 3, 20, 5)), (2, 3, 1, 5), (2, 3, 5)),
    "batches": ("MatMul", ((3, 1, 20, 16), (3, 1, 16, 36)), (3, 1, 20, 36), (3, 20, 36)),
    "an image": ("Conv", ((1, 8, 5, 6), (12, 8, 1, 1)), (1, 12, 5, 6), (12, 5, 6)),
    "a column": ("Conv", ((2, 8, 5, 1), (12, 8, 1, 1)), (2, 12, 5, 1), (2, 12, 5)),
}
"""Anchors with their operands' shapes and their own, and what they are reshaped to."""


def with_other_axes(name: str) -> tuple[Group, list[Array], Array]:
    """A case of AXES to whose result a residual is added, its operands and its result.

    So are GPT-2's GEMMs, whose rows are a batch again before the residual is added.
    """
    type, operands, made, shape = AXES[name]
    shapes = (*operands, shape, made, shape, shape)
    values = tuple(TensorInfo("float32", own) for own in shapes)
    operators = (
        Node(type, {}, (0, 1), (3,)),
        Node("Reshape", {"shape": list(shape)}, (3,), (4,)),
        Node("Add", {}, (4, 2), (5,)),
    )
    group = Group("axes", values, 3, (False, True, False), {}, operators, (5,))
    arrays = [random_array(seed, v.shape) for seed, v in enumerate(values[:3])]
    left, right = (array.astype("float64") for array in arrays[:2])
    product = "bchw,ocij->bohw" if type == "Conv" else "...mk,...kn->...mn"
    result = numpy.einsum(product, left, right)
    return group, arrays, result.reshape(shape) + arrays[2]


def expected(anchor: Array, addend: Array | None) -> list[Array]:
    """The results of a group from `fused`, given the anchor's result in float64."""
    return [anchor] if addend is None else [anchor, numpy.maximum(anchor + addend, 0)]


def candidate_of(group: Group, target: CpuTarget) -> Candidate:
    """The template that computes a group, and its configs."""
    return best(group, target).candidate


def template_kernel(
    group: Group, target: CpuTarget, config: Config | None = None
) -> KernelSource | None:
    """The kernel by a template, perhaps with a config; None by the generic schedule."""
    found = best(group, target)
    if found.is_generic:
        return None
    candidate = found.candidate
    return candidate.emit(found.config if config is None else candidate.by_fields[config])


def check(
    group: Group,
    arrays: Sequence[Array],
    results: Sequence[Array],
    target: str,
    config: Config | None = None,
    relative: float = 1e-4,
) -> None:
    """Build a group's kernel by its template and run it block by block in a random order.

    Every buffer is poisoned and ends at memory that cannot be accessed, then begins after such
    memory: a kernel that leaves its buffers crashes.
    """
    machine = parse_cpu(target)
    scheduled = template_kernel(group, machine, config)
    assert scheduled is not None, "the template declined"
    spec = compile_scheduled(group, scheduled, machine)
    for after in (True, False):
        for got, want in zip(run_guarded(spec, group, arrays, after), results, strict=True):
            scale = max(1.0, float(numpy.abs(want).max(initial=0)))
            got = got.astype(want.dtype)
            numpy.testing.assert_allclose(got, want, rtol=relative, atol=1e-5 * scale)


def run_guarded(
    spec: KernelSpec, group: Group, arrays: Sequence[Array], after: bool
) -> list[Array]:
    """Run each launch's blocks one by one in a random order on guarded buffers."""
    packed = [apply_packing(a, p) for a, p in zip(arrays, spec.packings, strict=True)]
    reads = [guarded(a.nbytes, a.itemsize, after) for a in packed]
    for buffer, array in zip(reads, packed, strict=True):
        buffer[:] = array.reshape(-1).view(numpy.uint8)
    writes = [guarded(t.nbytes, numpy_dtype(t.dtype).itemsize, after) for t in group.writes]
    buffers = [*reads, *writes, *[guarded(n, 64, after) for n in spec.workspaces]]
    program = CpuProgram([spec])
    for launch in spec.launches:
        pointers = (ctypes.c_void_p * len(launch.args))(
            *[buffers[i].ctypes.data for i in launch.args]
        )
        order = list(range(launch.grid[0]))
        Random(launch.grid[0]).shuffle(order)
        for block in order:
            entry(program, launch.symbol)(pointers, block, block + 1)
    results = zip(writes, group.writes, strict=True)
    return [w.view(numpy_dtype(t.dtype)).reshape(t.shape) for w, t in results]


def guarded(nbytes: int, alignment: int, after: bool) -> Array:
    """Poisoned bytes next to a page that cannot be accessed, after or before them."""
    room = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    region = mmap.mmap(-1, room + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(region))
    guard = ctypes.c_void_p(address + (room if after else 0))
    start = (room - nbytes) // alignment * alignment if after else mmap.PAGESIZE
    array = numpy.frombuffer(region, numpy.uint8, nbytes, start)
    array[:] = POISON
    assert ctypes.CDLL(None).mprotect(guard, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return array


def random_array(seed: int, shape: Sequence[int]) -> Array:
    """Standard normal float32."""
    return numpy.random.default_rng(seed).standard_normal(shape, dtype=numpy.float32)
