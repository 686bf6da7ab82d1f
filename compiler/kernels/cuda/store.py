"""What follows a contraction in its group, as a CUDA function that stores one element's results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from types import MappingProxyType
from typing import Any

import tvm_ffi
from tvm import IRModule, s_tir, tirx
from tvm.ir import PointerType, PrimType, Range, TensorLoad, Var
from tvm.ir.transform import Sequential
from tvm.sym import Analyzer
from tvm.tirx import BufferLoad, BufferStore, PrimFunc, SeqStmt, Stmt
from tvm.tirx.stmt import DeclBuffer

from compiler.ir.layouts import block_steps
from compiler.kernels.cuda.lower import DEVICE_CALL, device_target
from compiler.kernels.cuda.source import cuda_text
from compiler.kernels.cuda.target import CudaTarget
from compiler.kernels.elementwise import multiply
from compiler.kernels.group import Group, Operator
from compiler.kernels.launches import buffers_of
from compiler.kernels.lowering import unflatten_index
from compiler.kernels.templates.fusion import Surroundings
from compiler.kernels.templates.loops import variable
from compiler.kernels.templates.matmul import Product, read_product

_PASSES = [
    s_tir.transform.StmtSimplify(),
    s_tir.transform.RewriteUnsafeSelect(),
    tirx.transform.CommonSubexprElim(),
]
_QUALIFIERS = 'extern "C" __global__ void'


class Part(Enum):
    """What is read or written of a buffer: any of it, its place, its row or its column."""

    ANY = 0
    PLACE = 1
    ROW = 2
    COLUMN = 3


@dataclass(frozen=True)
class StoreFunction:
    """A device function `name(buffers..., outer, row, column, value)`.

    `arguments` index the task's buffers; `types` are their C types. `parts` says which part of a
    buffer belongs to the place: of all but ANY it wants the address of the one element.
    """

    name: str
    text: str
    arguments: tuple[int, ...]
    types: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def by_block(self) -> bool:
        """Whether it can be given consecutive elements that are loaded and stored together."""
        return Part.PLACE in self.parts


def store_function(
    group: Group, anchor: Operator, target: CudaTarget, block: int = 0, vectors: bool = False
) -> StoreFunction | None:
    """The results that follow from one sum of the anchor; None when they need other elements.

    With a block, tensors with that many channels together are given element by element; with
    vectors, so are row-major ones.
    """
    around = Surroundings(group, anchor)
    if not around.elementwise:
        return None
    place = [variable(name) for name in ("outer", "row", "column")]
    value = Var("value", PrimType("float32"))
    product = read_product(group, anchor) if anchor.type in ("MatMul", "Gemm") else None
    if product is not None:
        extents = prod(product.batch), product.rows, product.columns
        statement = _store_product(around, product, place, value)
    else:
        extents = *around.shape[:2], prod(around.shape[2:])
        statement = _store_image(around, place, value)
    together = block > 0 or vectors
    parts = _parts(around, group, statement, place, extents, block) if together else {}
    statement = _by_element(statement, list(parts)) if parts else statement
    name, scalars = f"{group.name}_store", [*place, value]
    return device_function(name, around, statement, scalars, target, parts=parts)


def _store_image(around: Surroundings, place: list[Var], value: Any) -> Stmt:
    outer, channel, pixel = place
    bias = around.bias([channel])
    total = value if bias is None else value + bias
    if around.spatial in (1, 2) and around.flat:
        return around.store_flat(total, [outer, channel], pixel)
    return around.store(total, [outer, channel, *unflatten_index(pixel, around.shape[2:])])


def _store_product(around: Surroundings, product: Product, place: list[Var], value: Any) -> Stmt:
    z, row, column = place
    columns = 1 if len(product.right) > 1 else 0
    lead = around.shape[: len(around.shape) - columns]
    if product.shared:
        at = unflatten_index(row, lead)
    else:
        at = [*unflatten_index(z, product.batch), row][: len(lead)]
    at = [*at, column][: len(around.shape)]
    alpha, beta = (tirx.const(factor, "float32") for factor in product.factors)
    total = value if product.factors[0] == 1 else multiply(value, alpha)
    addend = _addend(around, at)
    if addend is not None:
        total = total + (addend if product.factors[1] == 1 else multiply(addend, beta))
    return around.store(total, at)


def _addend(around: Surroundings, at: list[Any]) -> Any:
    """Gemm's operand C, which broadcasts to the result."""
    if len(around.operands) < 3 or around.operands[2] is None:
        return None
    shape = [int(extent) for extent in around.operands[2].shape]
    own = at[len(at) - len(shape) :]
    return around.operand(2, [0 if n == 1 else i for i, n in zip(own, shape, strict=True)])


def _parts(
    around: Surroundings,
    group: Group,
    statement: Stmt,
    place: list[Var],
    extents: Sequence[int],
    block: int,
) -> dict[Var, Part]:
    """The buffers that are accessed nowhere but at the place of the sum, or in its row or column.

    With a block, the former have their channels in blocks; the latter have one element for each
    row, and are weights, which begin at multiples of 16 bytes. Else the former are row-major, and
    the latter have one element for each column.
    """
    (outer, row, column), (_, rows, columns), analyzer = place, extents, Analyzer()
    for scalar, extent in zip(place, extents, strict=True):
        analyzer.bind(scalar, Range(0, extent))
    if block:
        image, channels = block_steps(extents, block)
        first = row // block * channels + outer * image + column
        edge, length = Part.ROW, rows
        indices = {Part.PLACE: first * block + row % block, Part.ROW: row}
    else:
        edge, length = Part.COLUMN, columns
        indices = {Part.PLACE: (outer * rows + row) * columns + column, Part.COLUMN: column}
    found: dict[Var, Part] = {}
    infos = [*group.reads, *group.writes]
    for i, (buffer, info) in enumerate(zip(around.buffers, infos, strict=True)):
        if info.block == block and info.elements == prod(extents):
            found[buffer] = Part.PLACE
        elif i < group.inputs and info.nbytes == length * 4 and (group.weights[i] or not block):
            found[buffer] = edge

    def visit(access: Any) -> None:
        buffer = _buffer_of(access)
        index = indices.get(found.get(buffer, Part.ANY))
        if index is None or not analyzer.can_prove_equal(access.indices[0], index):
            found.pop(buffer, None)

    tvm_ffi.structural_walk(statement, [(TensorLoad, visit), (BufferStore, visit)], order="pre")
    return found if Part.PLACE in found.values() else {}


def _buffer_of(access: Any) -> Var:
    return access.buffer if isinstance(access, BufferStore) else access.source


def _by_element(statement: Stmt, single: list[Var]) -> Stmt:
    """A statement whose accesses of some buffers are to their first element."""

    def mutate(access: Any, mutator: Any) -> Any:
        access, buffer = mutator.default_mutate(access), _buffer_of(access)
        if not any(buffer.same_as(b) for b in single):
            return access
        if isinstance(access, BufferStore):
            return BufferStore(buffer, access.value, [0])
        return BufferLoad(buffer, [0])

    return tvm_ffi.structural_mutate(statement, ((TensorLoad, mutate), (BufferStore, mutate)))


def value_function(
    name: str, around: Surroundings, value: Any, scalars: list[Var], target: CudaTarget
) -> StoreFunction:
    """A float that depends on a group's buffers and some scalars as a device function.

    Its first argument is where the float goes; `arguments` leave that out.
    """
    result = tirx.decl_buffer((1,), "float32", name="result")
    statement = BufferStore(result, value, [0])
    return device_function(name, around, statement, scalars, target, [result])


def device_function(
    name: str,
    around: Surroundings,
    statement: Stmt,
    scalars: list[Var],
    target: CudaTarget,
    results: Sequence[Var] = (),
    parts: Mapping[Var, Part] = MappingProxyType({}),
) -> StoreFunction:
    """A statement on buffers of a group and some scalars; its `results` come first."""
    used = [found for found in buffers_of(statement) if found in around.buffers]
    passed = [*results, *used]
    pointers = [
        Var(f"buffer{i}", PointerType(PrimType(str(b.dtype)))) for i, b in enumerate(passed)
    ]
    declared = [DeclBuffer(b, data=p) for b, p in zip(passed, pointers, strict=True)]
    function = PrimFunc([*pointers, *scalars], SeqStmt([*declared, statement]))
    function = function.with_attr(
        {"global_symbol": name, "tirx.noalias": True, "calling_conv": DEVICE_CALL}
    ).with_attr({"tirx.is_global_func": True, "target": device_target(target)})
    text = cuda_text(Sequential(_PASSES)(IRModule({name: function})), target)
    text = text.replace(_QUALIFIERS, "static __device__ __forceinline__ void")
    numbers = [around.buffers.index(found) for found in used]
    types = tuple(c_type(str(b.dtype)) for b in used)
    own = tuple(parts.get(b, Part.ANY) for b in used)
    return StoreFunction(name, text, tuple(numbers), types, own)


def value_struct(name: str, function: StoreFunction, scalars: str) -> str:
    """A struct of a value function's buffers that gives its value; `scalars` are C parameters."""
    names = [f"buffer{i}" for i in range(len(function.types))]
    passed = ", ".join(["&result", *names, *(part.split()[-1] for part in scalars.split(","))])
    return "\n".join(
        [
            f"struct {name} {{",
            *(f"  {kind}* {own};" for kind, own in zip(function.types, names, strict=True)),
            f"  __device__ __forceinline__ float operator()({scalars}) const {{",
            "    float result;",
            f"    {function.name}({passed});",
            "    return result;",
            "  }",
            "};",
            "",
        ]
    )


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
