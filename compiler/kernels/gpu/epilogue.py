"""The epilogue of a contraction as a CUDA function that stores the results for one sum."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import Any

from tvm.ir import PointerType, PrimType, TensorLoad, Var
from tvm.sym import Analyzer
from tvm.tirx import BufferStore, Stmt
from tvm.tirx.stmt import Bind, DeclBuffer

from compiler.errors import KernelError
from compiler.ir.layouts import block_steps
from compiler.kernels.gpu.channels_last import ends_channels_last, last_index
from compiler.kernels.gpu.lower import DEVICE_CALL, device_target
from compiler.kernels.gpu.source import cuda_text
from compiler.kernels.gpu.untyped import IRModule, PrimFunc, Sequential, ir, s_tir, tirx, tvm_ffi
from compiler.kernels.group import Group, Node
from compiler.kernels.same import Same
from compiler.kernels.sizes import expression, variable_of
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.launches import buffers_of
from compiler.kernels.tir.loops import variable
from compiler.kernels.tir.matmul import Matmul, gemm_result, read_matmul
from compiler.kernels.tir.selects import LAZY_SELECTS
from compiler.kernels.tir.sized_launches import recombined_quotients, with_plain_divisions
from compiler.net.operators.contractions import MATMULS
from compiler.schedule.kernels import LARGEST_COUNT
from compiler.target.target import GpuTarget
from compiler.tensors.row_major import unflatten_index
from compiler.tensors.symbols import Symbol

_PASSES = [
    s_tir.transform.StmtSimplify(),
    LAZY_SELECTS,
    s_tir.transform.RewriteUnsafeSelect(),
    tirx.transform.CommonSubexprElim(),
]
FEW = 16
"""Cached epilogues: those of one group, which are needed several times."""

_WRITTEN: ContextVar[bool] = ContextVar("written", default=True)
"""Whether device functions have their text, see `without_text`."""

_QUALIFIERS = 'extern "C" __global__ void'


class Part(Enum):
    """The part of a buffer that one sum accesses: any, its element, its row or its column."""

    ANY = 0
    ELEMENT = 1
    ROW = 2
    COLUMN = 3


@dataclass(frozen=True)
class Storing:
    """The tensors that a store function is given elements of, see `store_function`."""

    block: int
    vectors: bool
    channels_last: bool


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its C type, its name, and the number of its buffer."""

    type: str
    name: str
    number: int


@dataclass(frozen=True)
class StoreFunction:
    """A device function `name(buffers..., outer, row, column, value)`.

    `arguments` index the task's buffers; `types` are their C types. `parts` says which part of each
    buffer is accessed: for all but ANY, the function takes the address of that one element.
    """

    name: str
    text: str
    arguments: tuple[int, ...]
    types: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def names(self) -> list[str]:
        """The names of the buffers."""
        return [f"buffer{i}" for i in range(len(self.types))]

    @property
    def parameters(self) -> list[Parameter]:
        """The buffers as parameters, none of which overlap."""
        parts = zip(self.types, self.names, self.arguments, strict=True)
        return [Parameter(f"{kind}* __restrict__", name, number) for kind, name, number in parts]

    @property
    def members(self) -> list[str]:
        """The buffers as members of a struct."""
        return [f"  {own.type} {own.name};" for own in self.parameters]


def is_fusible(group: Group, anchor: Node[int]) -> bool:
    """Whether the epilogue of an anchor can be computed element by element."""
    return _fusion(Same(group), Same(anchor)).elementwise


def store_function(
    group: Group,
    anchor: Node[int],
    target: GpuTarget,
    block: int = 0,
    vectors: bool = False,
    channels_last: bool = False,
) -> StoreFunction:
    """The results that follow from one sum of the anchor.

    With a block, NCHWc tensors of that block are passed as elements; with vectors, row-major ones
    are, and if those of a convolution end with `channels_last`, such ones. Raises KernelError where
    results need other elements.
    """
    store = Storing(block, vectors, channels_last)
    return _store_function(Same(group), Same(anchor), target, store, _WRITTEN.get())


@contextmanager
def without_text() -> Generator[None]:
    """Leave device functions without text in the block, where only launches are asked for: TVM
    takes as long to write it as all else takes."""
    token = _WRITTEN.set(False)
    try:
        yield
    finally:
        _WRITTEN.reset(token)


@lru_cache(FEW)
def _fusion(group: Same[Group], anchor: Same[Node[int]]) -> FusionContext:
    return FusionContext(group.value, anchor.value)


@lru_cache(FEW)
def _store_function(
    same: Same[Group],
    operator: Same[Node[int]],
    target: GpuTarget,
    storing: Storing,
    written: bool,
) -> StoreFunction:
    """The store function of a group; `written` is whether it has a text."""
    group = same.value
    anchor = operator.value
    context = _fusion(same, operator)
    last, block = storing.channels_last, storing.block
    if not (ends_channels_last(group, anchor) if last else context.elementwise):
        raise KernelError(f"{group.describe()}: results need several elements of {anchor.type}")
    place = [variable(name) for name in ("outer", "row", "column")]
    value = Var("value", PrimType(context.dtype))
    matmul = read_matmul(group, anchor) if anchor.type in MATMULS else None
    if matmul is not None:
        extents = prod(matmul.batch), matmul.rows, matmul.columns
        statement = _store_matmul(context, matmul, place, value)
    elif last:
        extents = context.shape[0], prod(context.shape[2:]), context.shape[1]
        bias = context.bias([place[1]]) if context.dtype == "float32" else None
        total = value if bias is None else value + bias
        index = last_index(context.stored[0].shape, context.shape, place)
        statement = context.store_each(total, [index] * len(context.results))
    else:
        extents = *context.shape[:2], prod(context.shape[2:])
        outer, channel, pixel = place
        bias = context.bias([channel]) if context.dtype == "float32" else None
        total = value if bias is None else value + bias
        if context.spatial in (1, 2) and context.flat:
            statement = context.store_flat(total, [outer, channel], pixel)
        else:
            statement = context.store(
                total, [outer, channel, *unflatten_index(pixel, context.shape[2:])]
            )
    if group.symbols:
        statement = recombined_quotients(statement)
    order = [place[0], place[2], place[1]] if last else place
    together = block > 0 or storing.vectors or last
    parts = _parts(context, group, statement, order, extents, block=block) if together else {}
    statement = by_element(statement, list(parts)) if parts else statement
    name = f"{group.name}_store"
    scalars = [*place, value]
    return device_function(name, context, statement, scalars, target, parts=parts)


def _store_matmul(context: FusionContext, matmul: Matmul, place: list[Var], value: Any) -> Stmt:
    z, row, column = place
    columns = 1 if len(matmul.right) > 1 else 0
    lead = context.shape[: len(context.shape) - columns]
    if matmul.shared:
        at = unflatten_index(row, lead, inside=bool(context.symbols))
    else:
        at = [*unflatten_index(z, matmul.batch), row][: len(lead)]
    at = [*at, column][: len(context.shape)]
    return context.store(gemm_result(context, matmul, value, at), at)


def _parts(
    context: FusionContext,
    group: Group,
    statement: Stmt,
    place: list[Var],
    extents: Sequence[int],
    block: int,
) -> dict[Var, Part]:
    """The buffers that are accessed only at the element of the sum, or at its row or column.

    With a block, the former are NCHWc; the latter have one element for each row, and are weights,
    which begin at multiples of 16 bytes. Else the former are row-major, and the latter have one
    element for each column.
    """
    analyzer = Analyzer()
    indices = _indices(place, extents, block)
    for symbol in group.symbols:
        least = symbol.low
        most = symbol.high or LARGEST_COUNT
        analyzer.bind(variable_of(symbol), ir.Range.from_min_extent(least, most - least + 1))
    for scalar, extent in zip(place, extents, strict=True):
        analyzer.bind(scalar, ir.Range(0, expression(extent)))
    part_of = _of_the_size(context, group, extents, block)

    def visit(access: Any) -> None:
        buffer = _buffer_of(access)
        index = indices.get(part_of.get(buffer, Part.ANY))
        if index is None or not analyzer.can_prove_equal(access.indices[0], index):
            part_of.pop(buffer, None)

    tvm_ffi.structural_walk(statement, [(TensorLoad, visit), (BufferStore, visit)], order="pre")
    return part_of if Part.ELEMENT in part_of.values() else {}


def _indices(place: list[Any], extents: Sequence[int], block: int) -> dict[Part, Any]:
    """The index of each part's element in its buffer."""
    (outer, row, column), (_, rows, columns) = place, extents
    if not block:
        return {Part.ELEMENT: (outer * rows + row) * columns + column, Part.COLUMN: column}
    image, channels = block_steps(extents, block)
    first = row // block * channels + outer * image + column
    return {Part.ELEMENT: first * block + row % block, Part.ROW: row}


def _of_the_size(
    context: FusionContext, group: Group, extents: Sequence[int], block: int
) -> dict[Var, Part]:
    """The buffers that have an element for each sum, or for each row or column."""
    edge, length = (Part.ROW, extents[1]) if block else (Part.COLUMN, extents[2])
    part_of: dict[Var, Part] = {}
    infos = [*group.reads, *group.writes]
    for i, (buffer, info) in enumerate(zip(context.buffers, infos, strict=True)):
        if info.folded:
            continue
        if info.block == block and info.elements == prod(extents):
            part_of[buffer] = Part.ELEMENT
        elif i < group.inputs and info.nbytes == length * 4 and (group.weights[i] or not block):
            part_of[buffer] = edge
    return part_of


def _buffer_of(access: Any) -> Var:
    return access.buffer if isinstance(access, BufferStore) else access.source


def by_element(statement: Stmt, single: Sequence[Var]) -> Stmt:
    """A statement whose accesses to some buffers are to their first element."""

    def mutate(access: Any, mutator: Any) -> Any:
        access, buffer = mutator.default_mutate(access), _buffer_of(access)
        if not any(buffer.same_as(b) for b in single):
            return access
        if isinstance(access, BufferStore):
            return tirx.BufferStore(buffer, access.value, [0])
        return tirx.BufferLoad(buffer, [0])

    return tvm_ffi.structural_mutate(statement, ((TensorLoad, mutate), (BufferStore, mutate)))


def value_function(
    name: str, context: FusionContext, value: Any, scalars: list[Var], target: GpuTarget
) -> StoreFunction:
    """A float that depends on a group's buffers and some scalars as a device function.

    Its first argument is where the float goes; `arguments` leave that out.
    """
    result = tirx.decl_buffer((1,), "float32", name="result")
    statement = tirx.BufferStore(result, value, [0])
    return device_function(name, context, statement, scalars, target, results=[result])


def device_function(
    name: str,
    context: FusionContext,
    statement: Stmt,
    scalars: list[Var],
    target: GpuTarget,
    results: Sequence[Any] = (),
    parts: Mapping[Var, Part] = MappingProxyType({}),
    exact: bool = False,
) -> StoreFunction:
    """A statement on buffers of a group and some scalars; its `results` come first.

    Quotients by constants are multiplications unless they are to be `exact`.
    """
    used = [buffer for buffer in buffers_of(statement) if buffer in context.buffers]
    passed = [*results, *used]
    pointers = [
        Var(f"buffer{i}", PointerType(PrimType(str(b.dtype)))) for i, b in enumerate(passed)
    ]
    declared = [DeclBuffer(b, data=p) for b, p in zip(passed, pointers, strict=True)]
    if context.symbols:
        declared = [*runtime_sizes(context.symbols), *declared]
        statement = with_plain_divisions(recombined_quotients(statement))
    function = tirx.PrimFunc([*pointers, *scalars], tirx.SeqStmt([*declared, statement]))
    text = device_text(name, function, target, exact)
    numbers = [context.buffers.index(buffer) for buffer in used]
    types = tuple(c_type(str(b.dtype)) for b in used)
    own = tuple(parts.get(b, Part.ANY) for b in used)
    return StoreFunction(name, text, tuple(numbers), types, own)


def runtime_sizes(symbols: Sequence[Symbol]) -> list[Stmt]:
    """The statements that give a device function of `with_runtime_sizes` the values of symbols."""
    reads = (tirx.call_pure_extern("int32", "runtime_size", i) for i in range(len(symbols)))
    return [Bind(variable_of(own), read) for own, read in zip(symbols, reads, strict=True)]


def device_text(name: str, function: PrimFunc, target: GpuTarget, exact: bool = False) -> str:
    """A function of pointers and scalars as the text of a device function."""
    if not _WRITTEN.get():
        return ""
    function = function.with_attr(
        {"global_symbol": name, "tirx.noalias": True, "calling_conv": DEVICE_CALL}
    ).with_attr({"tirx.is_global_func": True, "target": device_target(target)})
    text = cuda_text(Sequential(_PASSES)(IRModule({name: function})), target, exact)
    return text.replace(_QUALIFIERS, "static __device__ __forceinline__ void")


def c_type(dtype: str) -> str:
    """The C type of a dtype in TVM's CUDA text."""
    special = {
        "float32": "float",
        "float64": "double",
        "float16": "half",
        "bfloat16": "nv_bfloat16",
    }
    special |= {"bool": "bool", "int32": "int", "int64": "int64_t", "int8": "signed char"}
    return special.get(dtype, f"{dtype}_t")
