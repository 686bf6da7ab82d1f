"""Splitting a scheduled PrimFunc into device functions and their launches, without a GPU."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import tvm
from tvm.ir import PointerType, Var
from tvm.tirx.stmt import AllocBuffer, DeclBuffer

from compiler.errors import KernelError
from compiler.kernels.gpu.untyped import (
    IRModule,
    PrimFunc,
    Sequential,
    UntypedModule,
    s_tir,
    tirx,
    tvm_ffi,
)
from compiler.kernels.sizes import extent_from, symbol_of, tensor_extents, variable_of
from compiler.kernels.tir.flatten import FLATTEN_BUFFERS
from compiler.kernels.tir.selects import LAZY_SELECTS
from compiler.kernels.tir.sized_launches import SizesOperand, with_plain_divisions
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

DEVICE_CALL = 2
"""TVM's number of the calling convention of a device function."""

SUMMED_AXIS = 2
"""TVM's number of the axes of a reduction."""

PARTIAL = ("in_thread_", "cross_thread_")
"""How TVM names the buffers of reductions over threads."""

SHARED_TAG = "tirx.use_dyn_shared_memory"

REDUCTION_PASSES = [
    s_tir.transform.CanonicalizeLoop(),
    s_tir.transform.LowerCrossThreadReduction(),
]
"""The start of TVM's pipeline, after which no reduction may run over threads."""

LOWERING_PASSES = [
    s_tir.transform.LowerInitBlock(),
    s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    s_tir.transform.ConvertBlocksToOpaque(),
    s_tir.transform.LiftThreadBinding(),
    COMPACT := s_tir.transform.CompactBufferAllocation(),
    s_tir.transform.UnifyThreadBinding(),
    s_tir.transform.LowerMatchBuffer(),
    s_tir.transform.StmtSimplify(),
    s_tir.transform.LowerOpaqueBlock(),
    FLATTEN_BUFFERS,
    tirx.transform.BF16ComputeLegalize(),
    tirx.transform.NarrowDataType(32),
    s_tir.transform.LoopPartition(),
    tirx.transform.VectorizeLoop(True),
    s_tir.transform.HoistIfThenElse(),
    tirx.transform.UnrollLoop(),
    s_tir.transform.RenormalizeSplitPattern(),
    tirx.transform.StmtSimplify(),
    tirx.transform.RemoveNoOp(),
    LAZY_SELECTS,
    s_tir.transform.RewriteUnsafeSelect(),
    SHARE := tirx.transform.CommonSubexprElim(),
    tirx.transform.VerifyMemory(),
    tirx.transform.AnnotateEntryFunc(),
    s_tir.transform.ThreadSync("shared"),
    s_tir.transform.ThreadSync("shared.dyn"),
    s_tir.transform.ThreadSync("warp"),
    s_tir.transform.LowerThreadAllreduce(),
    s_tir.transform.MergeSharedMemoryAllocations(),
    tirx.transform.SplitHostDevice(),
]
"""The rest of TVM's pipeline, up to where its own host calling convention begins."""

SIZED_PASSES = [
    s_tir.transform.CompactBufferAllocation(False) if step is COMPACT else step
    for step in LOWERING_PASSES
    if step is not SHARE
]
"""The same for kernels with symbols: buffers of a tile have its size even where a tensor may be
smaller, and the host has no variable for what grids of several launches have in common."""


@dataclass(frozen=True)
class DeviceCode:
    """Device functions with their launches, whose `args` index the PrimFunc's parameters.

    Buffers at the root that several launches share follow the parameters, and the operand of sizes
    among them; `scratch` are their bytes. Grids and these may be extents.
    """

    module: UntypedModule
    launches: tuple[Launch, ...]
    scratch: tuple[int, ...]


def device_target(target: GpuTarget) -> Any:
    """TVM's form of a target."""
    return tvm.target.Target(
        {
            "kind": "cuda",
            "arch": target.cuda_architecture,
            "max_threads_per_block": 1024,
            "max_num_threads": 1024,
            "thread_warp_size": 32,
            "max_shared_memory_per_block": 48 << 10,
            "registers_per_block": 65536,
        }
    )


def split_device(
    function: PrimFunc, name: str, target: GpuTarget, sizes: SizesOperand | None = None
) -> DeviceCode:
    """Lower a scheduled PrimFunc; its kernels are called `name_0`, `name_1`, ...

    Those of a function over symbols read them from the operand of `sizes`.
    """
    module = IRModule({name: function.with_attr("global_symbol", name)})
    module = tirx.transform.BindTarget(device_target(target).with_host(tvm.target.Target("c")))(
        module
    )
    module = Sequential(REDUCTION_PASSES)(module)
    _check_reductions(module[name])
    module = Sequential(LOWERING_PASSES if sizes is None else SIZED_PASSES)(module)
    host = [
        f for f in module.functions.values() if int(f.attrs.get("calling_conv", 0)) != DEVICE_CALL
    ]
    if len(host) != 1:
        raise KernelError(f"the kernel {name} was lowered to {len(host)} host functions")
    launches, scratch = _read_host(host[0], sizes)
    functions: dict[str, PrimFunc] = {}
    renamed: list[Launch] = []
    for i, launch in enumerate(launches):
        symbol = f"{name}_{i}"
        own = module[launch.symbol].with_attr("global_symbol", symbol)
        functions[symbol] = own if sizes is None else _reading_sizes(own, sizes)
        renamed.append(replace(launch, symbol=symbol))
    return DeviceCode(IRModule(functions), tuple(renamed), scratch)


def _reading_sizes(function: PrimFunc, sizes: SizesOperand) -> PrimFunc:
    """A device function that reads its symbols from memory, which TVM has as parameters.

    It does so before it waits for the kernels that it follows: sizes are written before a run.
    """
    passed = [own for own in function.params if isinstance(own.ty, PointerType)]
    by_name = {symbol.name: variable_of(symbol) for symbol in sizes.symbols}
    numbers = {own: by_name[own.name] for own in function.params if own not in passed}
    if numbers:
        function = function.specialize(numbers)
    wait = tirx.Evaluate(tirx.call_extern("int32", "grid_dependency_wait"))
    body = tirx.SeqStmt([wait, with_plain_divisions(function.body)])
    if numbers:
        pointer, reads = sizes.read()
        passed = [*passed, pointer]
        body = tirx.SeqStmt([*reads, body])
    return tirx.PrimFunc(passed, body, function.ret_type, function.attrs)


def _check_reductions(function: PrimFunc) -> None:
    """Raise KernelError if threads would race on one element: TVM skips what it cannot lower."""
    threads: list[Any] = []
    races: list[str] = []

    def loop(statement: Any) -> None:
        axis = statement.thread_binding
        if axis is not None and str(axis.thread_tag).startswith("threadIdx"):
            threads.append(statement.loop_var)

    def block(statement: Any) -> None:
        if all(_is_partial(region.source) for region in statement.block.writes):
            return
        for axis, value in zip(statement.block.iter_vars, statement.iter_values, strict=True):
            used = tirx.analysis.undefined_vars(value)
            over_threads = any(v.same_as(thread) for v in used for thread in threads)
            if int(axis.iter_type) == SUMMED_AXIS and over_threads:
                races.append(statement.block.name_hint)

    visitors = [(tirx.For, loop), (s_tir.SBlockRealize, block)]
    tvm_ffi.structural_walk(function.body, visitors, order="pre")
    if races:
        raise KernelError(f"threads would race in the reduction {races[0]}")


def _is_partial(buffer: Any) -> bool:
    """Whether a buffer holds what one thread has reduced, or the threads together."""
    return buffer.scope() == "local" and buffer.name.startswith(PARTIAL)


def _read_host(host: PrimFunc, sizes: SizesOperand | None) -> tuple[list[Launch], tuple[int, ...]]:
    """The launches of a host function, and the bytes of the buffers that it allocates."""
    aliases: dict[Any, Any] = {}
    scratch: dict[Any, int] = {}
    calls: list[Any] = []

    def allocation(statement: AllocBuffer) -> None:
        elements = prod(tensor_extents(statement.buffer))
        scratch[statement.buffer] = elements * ELEMENT_BYTES[str(statement.buffer.dtype)]

    def declaration(statement: DeclBuffer) -> None:
        aliases[statement.buffer] = _base(statement.data)

    def call(expression: Any) -> None:
        if getattr(expression.op, "name", "") == "tirx.call_ffi_kernel":
            calls.append(expression)

    visitors = [(AllocBuffer, allocation), (DeclBuffer, declaration), (tvm.ir.Call, call)]
    tvm_ffi.structural_walk(host.body, visitors, order="pre")
    buffers = [own for own in host.params if symbol_of(own) is None]
    if sizes is not None:
        buffers.insert(sizes.number, sizes)
    numbers: dict[Any, int] = {own: i for i, own in enumerate([*buffers, *scratch])}
    for alias, source in aliases.items():
        numbers.setdefault(alias, numbers[source])
    return [_launch(c, numbers, sizes) for c in calls], tuple(scratch.values())


def _base(data: Any) -> Any:
    """The buffer that an expression of its data pointer belongs to."""
    return data.args[0] if isinstance(data, tvm.ir.Call) else data


def _launch(call: Any, numbers: Mapping[Any, int], sizes: SizesOperand | None) -> Launch:
    tags = [str(tag) for tag in call.attrs.launch_params]
    symbol, *rest = list(call.args)
    passed, extents = rest[: len(rest) - len(tags)], rest[len(rest) - len(tags) :]
    pointers = [own for own in passed if not (isinstance(own, Var) and symbol_of(own) is not None)]
    if len(pointers) < len(passed):
        pointers.append(sizes)
    launched = {tag: extent_from(extent) for tag, extent in zip(tags, extents, strict=True)}
    grid, block = (
        [launched.get(f"{kind}Idx.{axis}", 1) for axis in "xyz"] for kind in ("block", "thread")
    )
    return Launch(
        str(symbol.value),
        tuple(numbers[_base(p)] for p in pointers),
        (grid[0], grid[1], grid[2]),
        (block[0], block[1], block[2]),
        launched.get(SHARED_TAG, 0),
    )
