"""Generated kernels are proved to stay inside their tensors; wrong ones are refused by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy
import pytest
import tvm_ffi
from hypothesis import given, settings
from tvm.ir import Call, TensorLoad, Var
from tvm.tirx import (
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IntImm,
    Max,
    Min,
    PrimFunc,
    SeqStmt,
    address_of,
    call_pure_extern,
    const,
)
from tvm.tirx.stmt import AttrStmt, Bind, DeclBuffer

from compiler.errors import KernelError
from compiler.kernels.building import kernel
from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.building.module import distinct_groups
from compiler.kernels.cpu.generic import schedule_cpu
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.gpu.generic import schedule_gpu
from compiler.kernels.gpu.lower import split_device
from compiler.kernels.gpu.templates.generic import template as generic
from compiler.kernels.gpu.templates.generic.template import Generic
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.requantise import requantised
from compiler.kernels.tir.footprint import TaskBuffers, cpu_footprint, gpu_footprint, task_buffers
from compiler.kernels.tir.launches import LaunchFunction, lower_function, split_launches
from compiler.schedule.kernels import Footprint, Launch
from compiler.target.target import CpuTarget, parse_cpu, parse_gpu
from tests.grouped import Model, grouped
from tests.kernels.harness import single
from tests.kernels.node_cases import node_case, usable_names

CPU, GPU = parse_cpu("cpu:x86-64-v3"), parse_gpu("cuda:sm_90")
Mutate = Callable[[PrimFunc], PrimFunc]


@dataclass(frozen=True)
class Lowered:
    """The functions of a kernel by the generic schedule, before their code is generated."""

    gpu: bool
    functions: tuple[PrimFunc, ...]
    launches: tuple[Launch, ...]
    buffers: TaskBuffers

    def footprint(self) -> Footprint:
        """The proofs; raises KernelError."""
        if not self.gpu:
            parts = [LaunchFunction(function, (), None) for function in self.functions]
            return cpu_footprint(parts, self.launches, self.buffers)
        symbols = (launch.symbol for launch in self.launches)
        functions = dict(zip(symbols, self.functions, strict=True))
        return gpu_footprint(functions, self.launches, self.buffers)

    def changed(self, mutate: Mutate) -> "Lowered":
        """With all functions changed."""
        return replace(self, functions=tuple(map(mutate, self.functions)))

    def launched(self, **changes: Any) -> "Lowered":
        """With its launches changed."""
        return replace(self, launches=tuple(replace(x, **changes) for x in self.launches))


def lowered(group: Group, gpu: bool) -> Lowered:
    """A group by the generic schedule."""
    packings = ("",) * group.inputs
    if gpu:
        device = split_device(schedule_gpu(group), group.name, GPU)
        functions = {str(f.attrs["global_symbol"]): f for f in device.module.functions.values()}
        own = tuple(functions[launch.symbol] for launch in device.launches)
        return Lowered(True, own, device.launches, task_buffers(group, packings, device.scratch))
    scheduled = schedule_cpu(group, CPU)
    assert scheduled.function is not None
    pieces, scratch = split_launches(lower_function(scheduled.function, group.name), group.name)
    launches = tuple(
        Launch(f"{group.name}_{i}", part.args, (part.blocks, 1, 1)) for i, part in enumerate(pieces)
    )
    workspaces = scheduled.workspaces + scratch
    functions = tuple(part.function for part in pieces)
    return Lowered(False, functions, launches, task_buffers(group, packings, workspaces))


def zeros(*shape: int) -> numpy.ndarray:
    """An operand: only its type matters."""
    return numpy.zeros(shape, "float32")


def image() -> Group:
    """A padded window of 3x3 over an image."""
    info = TensorInfo("float32", (1, 4, 34, 34))
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
    return single("AveragePool", [zeros(1, 4, 34, 34)], [info], attributes)[0]


def addition() -> Group:
    """The sum of two tensors whose elements fill their blocks."""
    info = TensorInfo("float32", (512, 2048))
    return single("Add", [zeros(512, 2048), zeros(512, 2048)], [info])[0]


def gather() -> Group:
    """Rows by number."""
    info = TensorInfo("float32", (6, 32))
    return single("Gather", [zeros(10, 32), numpy.zeros(6, "int64")], [info])[0]


targets = pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])


@targets
@pytest.mark.parametrize("group", [image, addition, gather], ids=["image", "addition", "gather"])
def test_right_kernels_are_proved(group: Callable[[], Group], gpu: bool):
    footprint = lowered(group(), gpu).footprint()
    assert footprint.accesses > 0
    assert footprint.undecided == ()


def test_a_cpu_launch_of_one_block_too_many_is_outside():
    kernel = lowered(addition(), False)
    (blocks, _, _), *_ = (launch.grid for launch in kernel.launches)
    with pytest.raises(KernelError, match=r"Add_test_0 (reads|writes) element .* has 1048576 at"):
        kernel.launched(grid=(blocks + 1, 1, 1)).footprint()


def test_a_gpu_launch_has_the_extents_of_its_function():
    kernel = lowered(addition(), True)
    (blocks, _, _), *_ = (launch.grid for launch in kernel.launches)
    with pytest.raises(KernelError, match=rf"counts blockIdx up to \({blocks}, 1, 1\), but"):
        kernel.launched(grid=(blocks + 1, 1, 1)).footprint()
    with pytest.raises(KernelError, match="counts threadIdx up to"):
        kernel.launched(block=(32, 1, 1)).footprint()


def counting(more: Callable[[int], int]) -> Mutate:
    """Another number of a GPU's blocks, in the function."""

    def axis(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        tag = str(getattr(node.node, "thread_tag", ""))
        if node.attr_key != "thread_extent" or tag != "blockIdx.x":
            return node
        extent = const(more(int(node.value)), "int32")
        return AttrStmt(node.node, node.attr_key, extent, node.body)

    return lambda function: function.with_body(
        tvm_ffi.structural_mutate(function.body, (AttrStmt, axis))
    )


def test_a_gpu_kernel_of_one_block_too_many_is_outside():
    kernel = lowered(addition(), True)
    (blocks, _, _), *_ = (launch.grid for launch in kernel.launches)
    more = kernel.changed(counting(lambda n: n + 1)).launched(grid=(blocks + 1, 1, 1))
    with pytest.raises(KernelError, match=r"element .* which has 1048576 at blockIdx.x ="):
        more.footprint()


@targets
def test_half_of_the_blocks_write_half_of_the_result(gpu: bool):
    kernel = lowered(addition(), gpu)
    (blocks, _, _), *_ = (launch.grid for launch in kernel.launches)
    assert blocks % 2 == 0
    half = kernel.changed(counting(lambda n: n // 2)) if gpu else kernel
    with pytest.raises(KernelError, match="writes at most 524288 of 1048576 elements"):
        half.launched(grid=(blocks // 2, 1, 1)).footprint()


@targets
def test_a_shorter_loop_writes_less(gpu: bool):
    """The innermost loop of a store misses its last turn."""

    def loop(node: For, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if not isinstance(node.extent, IntImm) or int(node.extent) == 1:
            return node
        extent = const(int(node.extent) - 1, "int32")
        return For(node.loop_var, node.min, extent, node.kind, node.body, node.thread_binding)

    shorter = lowered(addition(), gpu).changed(
        lambda f: f.with_body(tvm_ffi.structural_mutate(f.body, (For, loop)))
    )
    with pytest.raises(KernelError, match="writes at most"):
        shorter.footprint()


def shifted(function: PrimFunc) -> PrimFunc:
    """Every read of a parameter is one element further on."""

    def load(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if node.source.name not in ("input0", "read0"):
            return node
        index = node.indices[0]
        base = getattr(index, "base", None)
        if base is None:
            return BufferLoad(node.source, [index + 1])
        return BufferLoad(node.source, [type(index)(base + 1, index.stride, index.lanes)])

    return function.with_body(tvm_ffi.structural_mutate(function.body, (TensorLoad, load)))


@targets
@pytest.mark.parametrize("group", [addition, image], ids=["addition", "image"])
def test_a_shifted_read_is_outside(group: Callable[[], Group], gpu: bool):
    with pytest.raises(KernelError, match=r"reads element .* of (input0|read0)"):
        lowered(group(), gpu).changed(shifted).footprint()


@targets
def test_a_window_without_the_bounds_of_its_padding_is_outside(gpu: bool):
    def guarded(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        name = str(getattr(node.op, "name", ""))
        return node.args[1] if name.endswith("if_then_else") else node

    def unguarded(function: PrimFunc) -> PrimFunc:
        return function.with_body(tvm_ffi.structural_mutate(function.body, (Call, guarded)))

    with pytest.raises(KernelError, match=r"AveragePool_test_\d reads element .* has 4624"):
        lowered(image(), gpu).changed(unguarded).footprint()


@targets
def test_a_store_that_forgets_its_block_is_refused(gpu: bool):
    def forgetting(function: PrimFunc) -> PrimFunc:
        blocks: list[Any] = []
        values: dict[Any, Any] = {}

        def bind(node: Bind) -> None:
            values[node.var] = node.value

        def loop(node: For) -> None:
            if not gpu and not blocks:
                blocks.append(node.loop_var)

        def axis(node: Any) -> None:
            if str(getattr(node.node, "thread_tag", "")) == "blockIdx.x":
                blocks.append(node.node.var)

        def variable(node: Var, mutator: Any) -> Any:
            if any(node.same_as(block) for block in blocks):
                return const(0, "int32")
            return mutator.mutate(values[node]) if node in values else node

        def store(node: BufferStore, mutator: Any) -> Any:
            indices = [tvm_ffi.structural_mutate(i, (Var, variable)) for i in node.indices]
            return BufferStore(node.buffer, node.value, indices)

        visitors = ((For, loop), (AttrStmt, axis), (Bind, bind))
        tvm_ffi.structural_walk(function.body, visitors, order="pre")
        return function.with_body(tvm_ffi.structural_mutate(function.body, (BufferStore, store)))

    with pytest.raises(KernelError, match=r"writes element .*, in each of \d+ blocks"):
        lowered(addition(), gpu).changed(forgetting).footprint()


@targets
def test_a_buffer_is_no_larger_than_its_view(gpu: bool):
    kernel = lowered(addition(), gpu)
    sizes = (*kernel.buffers.nbytes[:-1], kernel.buffers.nbytes[-1] - 4)
    small = replace(kernel, buffers=replace(kernel.buffers, nbytes=sizes))
    with pytest.raises(KernelError, match="for 4194304 bytes, but buffer 2 has 4194300"):
        small.footprint()


def unclamped(function: PrimFunc) -> PrimFunc:
    """A function that takes every number of memory as it is."""

    def limit(node: Any, mutator: Any) -> Any:
        return mutator.mutate(node.b if isinstance(node.a, IntImm) else node.a)

    rules = ((Min, limit), (Max, limit))
    return function.with_body(tvm_ffi.structural_mutate(function.body, rules))


@targets
def test_an_index_of_memory_without_its_clamp_is_no_proof(gpu: bool):
    """It may be right, for what memory has: the kernel is built, and says so."""
    footprint = lowered(gather(), gpu).changed(unclamped).footprint()
    assert len(footprint.undecided) == 1
    assert "Gather_test_0 reads element" in footprint.undecided[0]


def test_an_address_that_is_passed_on_is_no_proof():
    kernel = lowered(addition(), False)

    def passing(function: PrimFunc) -> PrimFunc:
        body: Any = function.body
        declared = next(n for n in body.seq if isinstance(n, DeclBuffer))
        address: Any = address_of(BufferLoad(declared.buffer, [0]))
        call = Evaluate(call_pure_extern("int32", "take", address))
        return function.with_body(SeqStmt([*body.seq, call]))

    (undecided,) = kernel.changed(passing).footprint().undecided
    assert "is passed on" in undecided


def without_code(patch: pytest.MonkeyPatch) -> None:
    """Generate no code of what is scheduled and lowered."""

    def object_code(*_: object) -> bytes:
        return b""

    def text(*_: object) -> str:
        return ""

    patch.setattr(kernel, "compile_llvm", object_code)
    patch.setattr(generic, "cuda_text", text)


@pytest.fixture
def no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are scheduled and lowered, but their code is not generated."""
    without_code(monkeypatch)


def footprints(group: Group, target: CpuTarget) -> Iterator[Footprint]:
    """Those of a group's kernels for a CPU and for a GPU by the generic schedule."""
    yield build_kernel(group, target).footprint
    if any(info.elements for info in group.writes):
        yield Generic().emit(requantised(group), None, None, GPU).footprint


NODES = sorted(usable_names())[::37]
"""Node cases of many operators: a guard against proofs that are lost."""


@pytest.mark.usefixtures("no_code")
def test_all_kernels_of_the_guard_are_proved():
    assert len(NODES) >= 20
    target = host_target()
    for name in NODES:
        for footprint in footprints(node_case(name).group, target):
            assert footprint.undecided == (), name


@pytest.mark.usefixtures("no_code")
@pytest.mark.parametrize(
    "name",
    [
        "test_gather_negative_indices",
        "test_reflect_pad",
        "test_resize_upsample_sizes_cubic",
        "test_reversesequence_batch",
        "test_scatternd_add",
        "test_maxpool_with_argmax_2d_precomputed_strides",
        "test_gather_elements_1",
        "test_cumsum_2d_axis_1",
        "test_top_k",
        "test_onehot_with_axis",
    ],
)
def test_operators_whose_indices_are_data_or_tables_are_proved(name: str):
    target = host_target()
    for footprint in footprints(node_case(name).group, target):
        assert footprint.undecided == ()


@settings(max_examples=12, deadline=None)
@given(grouped())
def test_kernels_of_random_graphs_are_proved(model: Model):
    with pytest.MonkeyPatch.context() as patch:
        without_code(patch)
        for group in distinct_groups(model.module).values():
            for footprint in footprints(group, CPU):
                assert footprint.undecided == (), group.describe()


def test_the_footprint_is_on_the_kernel():
    spec = build_kernel(addition(), CPU)
    assert spec.containment == "proved"
    assert spec.footprint.read_launches == tuple(launch.symbol for launch in spec.launches)
    assert replace(spec, footprint=Footprint()).containment == "declared"
    undecided = replace(spec.footprint, undecided=("reads element i of x, which has 3",))
    assert replace(spec, footprint=undecided).containment == "tested"
