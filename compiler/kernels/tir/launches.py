"""Splitting a scheduled PrimFunc into launches, a plain function for each root-level loop nest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import tvm_ffi
from tvm import IRModule, s_tir, tirx
from tvm.ir import PointerType, PrimType, Var
from tvm.ir.transform import Sequential
from tvm.tirx import AttrStmt, For, ForKind, IntImm, PrimFunc, SeqStmt, Stmt
from tvm.tirx.buffer import is_buffer_var
from tvm.tirx.stmt import AllocBuffer, DeclBuffer

from compiler.errors import KernelError
from compiler.kernels.sizes import tensor_extents
from compiler.kernels.tir.flatten import FLATTEN_BUFFERS
from compiler.kernels.tir.memory import buffer_elements
from compiler.kernels.tir.narrow import computed_in_float32
from compiler.kernels.tir.registers import in_registers
from compiler.kernels.tir.selects import LAZY_SELECTS
from compiler.kernels.tir.sized_launches import (
    SizedGrid,
    SizesOperand,
    sized_grid,
    uses_symbols,
    with_bound_quotients,
    with_lines,
    with_named_loops,
    with_plain_divisions,
)
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.tensors.symbols import Symbol


class StackError(KernelError):
    """A block's local buffers outgrow the stack, or what TVM can bound."""


STACK_LIMIT = 16 << 10
"""Most bytes of buffers that one block keeps on the stack; larger ones must be workspaces."""

_FLATTEN = [
    s_tir.transform.CanonicalizeLoop(),
    s_tir.transform.LowerInitBlock(),
    s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    s_tir.transform.ConvertBlocksToOpaque(),
    s_tir.transform.CompactBufferAllocation(),
    s_tir.transform.LowerMatchBuffer(),
    s_tir.transform.StmtSimplify(),
    s_tir.transform.LowerOpaqueBlock(),
]

_FLATTEN_SIZED = [s_tir.transform.LowerOpaqueBlock()]
"""The passes that loops over symbols without blocks need: others would lose what the loops say."""

_HOIST = s_tir.transform.HoistIfThenElse()
"""Not for kernels with symbols: a condition on sizes alone would leave the loop over blocks, which
must be the outermost one."""

_LOWER = [
    tirx.transform.NarrowDataType(32),
    s_tir.transform.LoopPartition(),
    tirx.transform.VectorizeLoop(True),
    _HOIST,
    tirx.transform.UnrollLoop(),
    s_tir.transform.RenormalizeSplitPattern(),
    tirx.transform.StmtSimplify(),
    tirx.transform.RemoveNoOp(),
    LAZY_SELECTS,
    s_tir.transform.RewriteUnsafeSelect(),
]


@dataclass(frozen=True)
class LaunchFunction:
    """One root-level loop nest; `args` index the task's buffers, `blocks` is its grid.

    It reads `symbols`, if any; `grid` is what it has over them.
    """

    function: PrimFunc
    args: tuple[int, ...]
    blocks: Any
    symbols: tuple[Symbol, ...] = ()
    grid: SizedGrid | None = None


@dataclass
class _Root:
    """The statements of a lowered PrimFunc's root, sorted."""

    aliases: dict[Any, Any] = field(default_factory=dict[Any, Any])
    scratch: list[Any] = field(default_factory=list[Any])
    nests: list[Stmt] = field(default_factory=list[Stmt])


_SHARE = [tirx.transform.CommonSubexprElim()]
"""Not for kernels with symbols: the pass binds what extents of several nests have in common."""


def lower_function(function: PrimFunc, name: str, sized: bool = False) -> PrimFunc:
    """Lower a scheduled PrimFunc, whose extents may be `sized`, to loops over flat buffers."""
    module = IRModule({name: function.with_attr("global_symbol", name)})
    blocks = isinstance(function.body, s_tir.SBlockRealize)
    flatten = _FLATTEN if blocks or not sized else _FLATTEN_SIZED
    module = Sequential(flatten)(module)
    _check_bounds(module[name], name)
    flat = computed_in_float32(FLATTEN_BUFFERS(module)[name])
    passes = [own for own in _LOWER if own is not _HOIST] if sized else [*_LOWER, *_SHARE]
    return in_registers(Sequential(passes)(IRModule({name: flat}))[name])


def split_launches(
    function: PrimFunc, name: str, sizes: SizesOperand | None = None
) -> tuple[list[LaunchFunction], tuple[Any, ...]]:
    """The launches of a lowered PrimFunc, and the bytes of its scratch buffers.

    Those buffers follow the PrimFunc's parameters, and the operand of sizes among them, in the
    numbering of the launches' `args`: first those at its root, then those that blocks have for
    themselves. The outermost loop of a nest is its grid when it is marked parallel.
    """
    root = _Root()
    for statement in _statements(function.body):
        if isinstance(statement, AllocBuffer):
            root.scratch.append(statement.buffer)
        elif isinstance(statement, DeclBuffer):
            root.aliases[statement.buffer] = statement.data.args[0]
        else:
            root.nests.append(statement)
    before = len(function.params) if sizes is None else sizes.number
    numbers = {param: i + (i >= before) for i, param in enumerate(function.params)}
    for alias, source in root.aliases.items():
        numbers[alias] = numbers[source]
    first = len(function.params) + (sizes is not None)
    scratch = [*root.scratch]
    launches: list[LaunchFunction] = []
    for i, nest in enumerate(root.nests):
        numbers |= {buffer: first + j for j, buffer in enumerate(scratch)}
        launch, lines = _launch(nest, f"{name}_{i}", numbers, first + len(scratch), sizes)
        launches.append(launch)
        scratch += lines
    return launches, tuple(_buffer_bytes(buffer) for buffer in scratch)


def _statements(body: Stmt) -> Iterator[Stmt]:
    """The statements of a body, those of nested sequences included."""
    if isinstance(body, SeqStmt):
        for statement in body.seq:
            yield from _statements(statement)
    elif isinstance(body, AttrStmt) and body.attr_key == "pragma_scope":
        yield from _statements(body.body)
    else:
        yield body


def _buffer_bytes(buffer: Any) -> Any:
    lanes = int(getattr(buffer.dtype, "lanes", 1))
    dtype = str(buffer.dtype).split("x")[0]
    return prod(tensor_extents(buffer)) * ELEMENT_BYTES[dtype] * lanes


def buffers_of(statement: Stmt) -> list[Any]:
    """The buffers that a statement uses, in order of their first use."""
    buffers: dict[Any, None] = {}

    def visit(variable: Any) -> None:
        if is_buffer_var(variable):
            buffers.setdefault(variable)

    tvm_ffi.structural_walk(statement, (Var, visit), order="pre")
    return list(buffers)


def _check_bounds(function: PrimFunc, name: str) -> None:
    """Raise StackError if a row reads parts of a buffer that TVM has no bound for.

    So it is with the channels of a group that a row finds by a quotient of two sizes.
    """
    extents: list[Any] = []

    def visit(allocation: AllocBuffer) -> None:
        buffer: Any = allocation.buffer
        extents.extend(buffer.shape)

    tvm_ffi.structural_walk(function.body, (AllocBuffer, visit))
    unbounded = int(tirx.max_value("int32").value)
    if any(isinstance(extent, IntImm) and extent.value >= unbounded for extent in extents):
        raise StackError(
            f"a block of the kernel {name} needs a buffer that nothing bounds: its schedule must"
            " keep it in a workspace"
        )


def _check_stack(statement: Stmt, name: str, registers: bool) -> None:
    """Raise StackError if buffers outgrow the stack, with or without those of one element.

    Of many tiles, one for each rest of rows, LLVM has the sums in the same registers.
    """
    sizes: list[int] = []

    def visit(allocation: AllocBuffer) -> None:
        if registers or buffer_elements(allocation.buffer) != 1:
            sizes.append(_buffer_bytes(allocation.buffer))

    tvm_ffi.structural_walk(statement, (AllocBuffer, visit))
    if sum(sizes) > STACK_LIMIT:
        raise StackError(
            f"a block of the kernel {name} needs {sum(sizes)} bytes of stack, more than"
            f" {STACK_LIMIT}: its schedule must keep those buffers in a workspace"
        )


def _launch(
    nest: Stmt, name: str, numbers: dict[Any, int], beyond: int, sizes: SizesOperand | None
) -> tuple[LaunchFunction, list[Any]]:
    """The function of a nest, and the buffers that its blocks have, numbered from `beyond` on."""
    begin, end = Var("begin", PrimType("int32")), Var("end", PrimType("int32"))
    grid = None
    lines = list[Any]()
    if sizes is not None:
        grid = sized_grid(nest := with_named_loops(nest), begin, end)
        loop, lines = with_lines(grid.loop if grid else nest, grid.blocks if grid else 1, begin)
        nest = with_plain_divisions(with_bound_quotients(loop))
    _check_stack(nest, name, sizes is None)
    own = {**numbers, **{line: beyond + i for i, line in enumerate(lines)}}
    used = [buffer for buffer in buffers_of(nest) if buffer in own]
    pointers = [Var(f"pointer{i}", PointerType(PrimType(str(b.dtype)))) for i, b in enumerate(used)]
    declarations = [DeclBuffer(b, data=p) for b, p in zip(used, pointers, strict=True)]
    args = [own[b] for b in used]
    loop, blocks = (nest, grid.blocks) if grid else _grid_loop(nest, begin, end)
    if sizes is not None and uses_symbols(nest, used):
        pointer, reads = sizes.read()
        pointers, declarations = [*pointers, pointer], [*reads, *declarations]
        args.append(sizes.number)
    function = PrimFunc([*pointers, begin, end], SeqStmt([*declarations, loop]))
    function = function.with_attr({"global_symbol": name, "tirx.noalias": True})
    symbols = sizes.symbols if sizes else ()
    return LaunchFunction(function, tuple(args), blocks, symbols, grid), lines


def _grid_loop(nest: Stmt, begin: Var, end: Var) -> tuple[Stmt, int]:
    if isinstance(nest, For) and nest.kind == ForKind.PARALLEL and isinstance(nest.extent, IntImm):
        loop = For(nest.loop_var, begin, end - begin, ForKind.SERIAL, nest.body)
        return loop, int(nest.extent)
    once = Var("block", PrimType("int32"))
    return For(once, begin, end - begin, ForKind.SERIAL, nest), 1


def launch_module(launches: Sequence[LaunchFunction]) -> IRModule:
    """The launches' functions as one module."""
    return IRModule({str(f.function.attrs["global_symbol"]): f.function for f in launches})
