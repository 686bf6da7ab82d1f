"""Running a kernel without the executor: it is linked as in a module, its launches run in order."""

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence

import numpy

from compiler.backends.cpu.build import CpuProgram
from compiler.graph.packing import apply_packing
from compiler.ir.layouts import blocks_first
from compiler.kernels.building import KernelCache
from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.building.module import KERNELS_DEPEND_ON, exact_target
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.net.operators.canonical import canonical_node
from compiler.net.spec import KnownTensor
from compiler.schedule.kernels import KernelSpec
from compiler.support.caches import COMPILED_VARIABLE
from compiler.target.target import parse_target
from compiler.tensors.dtypes import numpy_dtype

Array = numpy.ndarray
Order = Callable[[int], Sequence[tuple[int, int]]]

POISON = 0xFF
"""Every byte of results and workspaces beforehand: NaN in floats, -1 in integers."""


def aligned(nbytes: int, offset: int = 0) -> Array:
    """Poisoned bytes that start `offset` bytes after a multiple of 64."""
    raw = numpy.full(nbytes + 128, POISON, numpy.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + nbytes]


def whole(blocks: int) -> Sequence[tuple[int, int]]:
    """All blocks at once."""
    return [(0, blocks)]


def laid_out(array: Array, info: TensorInfo) -> Array:
    """An array in its stored layout."""
    if not info.block or array.shape != info.shape:
        return array
    outer, channels, *spatial = info.shape
    split = array.reshape(outer, channels // info.block, info.block, *spatial)
    stored = numpy.moveaxis(split, 2, -1)
    return numpy.ascontiguousarray(stored.swapaxes(0, 1) if blocks_first(info.shape) else stored)


def logical(array: Array, info: TensorInfo) -> Array:
    """The logical array of a stored one."""
    if not info.block:
        return array.reshape(info.shape)
    stored = array.reshape(info.stored_shape)
    stored = stored.swapaxes(0, 1) if blocks_first(info.shape) else stored
    return numpy.moveaxis(stored, -1, 2).reshape(info.shape)


def run_kernel(
    spec: KernelSpec, group: Group, inputs: Sequence[Array], order: Order = whole
) -> list[Array]:
    """Run a kernel on arrays; its results start poisoned and at element alignment only.

    Inputs after the group's reads are what a kernel with symbols reads besides.
    """
    reads: list[Array] = []
    more = [TensorInfo(array.dtype.name, array.shape) for array in inputs[len(group.reads) :]]
    for array, packing, info in zip(inputs, spec.packings, [*group.reads, *more], strict=True):
        packed = apply_packing(laid_out(array, info), packing)
        reads.append(aligned(packed.nbytes, packed.itemsize % 64))
        reads[-1][:] = numpy.ascontiguousarray(packed).reshape(-1).view(numpy.uint8)
    results = [aligned(t.nbytes, numpy_dtype(t.dtype).itemsize) for t in group.writes]
    buffers = [*reads, *results, *[aligned(n) for n in spec.workspaces]]
    program = CpuProgram([spec])
    for launch in spec.launches:
        function = entry(program, launch.symbol)
        pointers = (ctypes.c_void_p * len(launch.args))(
            *[buffers[i].ctypes.data for i in launch.args]
        )
        for begin, end in order(launch.grid[0]):
            function(pointers, begin, end)
    return [
        logical(r.view(numpy_dtype(t.element)), t)
        for r, t in zip(results, group.writes, strict=True)
    ]


def entry(program: CpuProgram, symbol: str) -> Callable[..., None]:
    """A kernel's entry point as a Python function, valid as long as its program."""
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return signature(program.addresses[symbol])


def single(
    type: str,
    inputs: Sequence[Array | None],
    outputs: Sequence[TensorInfo],
    attributes: Mapping[str, object] | None = None,
    constants: Sequence[int] = (),
    weights: Sequence[int] = (),
) -> tuple[Group, list[Array]]:
    """A group of one operator, and the arrays of its inputs that are not constants.

    The operator may be in ONNX's form, whose inputs that decide shapes are constants.
    """
    tensors = [None if a is None else KnownTensor(a.dtype.name, a.shape, a) for a in inputs]
    known = {id(tensor) for i, tensor in enumerate(tensors) if tensor and i in constants}
    use = canonical_node(type, tensors, attributes or {}, len(outputs))
    inputs = [tensor and tensor.array for tensor in use.inputs]
    constants = [i for i, tensor in enumerate(use.inputs) if id(tensor) in known]
    infos: list[TensorInfo] = []
    arrays: list[Array] = []
    numbers: list[int | None] = [None] * len(inputs)
    fixed: dict[int, Array] = {}
    for chosen in (False, True):
        for position, array in enumerate(inputs):
            if array is None or (position in constants) is not chosen:
                continue
            numbers[position] = len(infos)
            if chosen:
                fixed[len(infos)] = array
            else:
                arrays.append(array)
            infos.append(TensorInfo(array.dtype.name, array.shape))
    read = [i for i, a in enumerate(inputs) if a is not None and i not in constants]
    results = tuple(range(len(infos), len(infos) + len(outputs)))
    operator = Node(type, use.attributes, tuple(numbers), results, "node")
    flags = tuple(i in weights for i in read)
    values = (*infos, *outputs)
    group = Group(f"{type}_test", values, len(read), flags, fixed, (operator,), results)
    return group, arrays


def evaluate(group: Group, inputs: Sequence[Array], target: str = "cpu") -> list[Array]:
    """Build a group's kernel and run it."""
    return run_kernel(build_kernel(group, parse_target(target)), group, inputs)


def evaluate_once(group: Group, inputs: Sequence[Array], target: str = "cpu") -> list[Array]:
    """Run a group's kernel, which is built unless FLOWLOOM_COMPILED has it of the same sources.

    Only for tests that change nothing of what builds kernels.
    """
    folder = os.environ.get(COMPILED_VARIABLE)
    if not folder:
        return evaluate(group, inputs, target)
    cache, exact = KernelCache(folder), exact_target(target)
    facts = KERNELS_DEPEND_ON["cpu"](exact)
    spec = cache.load(group, str(exact), facts)
    if spec is None:
        spec = build_kernel(group, exact)
        cache.store(group, str(exact), spec, facts)
    return run_kernel(spec, group, inputs)
