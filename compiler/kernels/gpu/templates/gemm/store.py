"""The CUDA text that stores a tile's results and prefetches the operands of its epilogue."""

from compiler.kernels.gpu.blocks import block_index, block_type, passed_buffers
from compiler.kernels.gpu.epilogue import Part, StoreFunction
from compiler.kernels.gpu.structs import DEVICE
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.group import Group
from compiler.tensors.dtypes import ELEMENT_BYTES

PROBLEM_NUMBER = "    [[maybe_unused]] const int z = slice / Problem::SPLITS;"


COPIED_BYTES = 16
"""Bytes of one asynchronous copy."""


def prefetched_reads(
    store: StoreFunction, problem: Problem, group: Group
) -> tuple[list[int], list[int]]:
    """The buffers of a store function that are prefetched: elementwise and broadcast operands.

    A broadcast operand has one element for each row, or each column, of a tile.
    """
    width = problem.width
    elementwise = list[int]()
    broadcast = list[int]()
    for i, part in enumerate(store.parts):
        if part is Part.ANY or store.arguments[i] >= group.inputs:
            continue
        size = width * ELEMENT_BYTES[group.reads[store.arguments[i]].dtype]
        if part is not Part.ELEMENT:
            broadcast.append(i)
        elif size == COPIED_BYTES:
            elementwise.append(i)
    return elementwise, broadcast


def block_methods(store: StoreFunction, problem: Problem, group: Group) -> list[str]:
    """The methods of `Store` that prefetch vectors of epilogue operands, and store vectors."""
    width = problem.width
    _, row, column = problem.result_index
    parameter, index = ("int m", row) if problem.block else ("int n", column)
    prefetched = problem.prefetched != (0, 0)
    elementwise, broadcast = prefetched_reads(store, problem, group) if prefetched else ([], [])
    return [
        f"{DEVICE} static int64_t vector_index(int slice, int m, int n) {{",
        PROBLEM_NUMBER,
        f"    return {_vector_index(problem, group)};",
        "  }",
        f"{DEVICE} static int broadcast_index(int slice, {parameter}) {{",
        PROBLEM_NUMBER,
        f"    return ({index}) / {width};",
        "  }",
        *_prefetch("elementwise", "int64_t vector", elementwise, store, width, _vectors(problem)),
        *_prefetch("broadcast", "int vector", broadcast, store, width),
        *_store(store, problem, elementwise, broadcast, group),
    ]


def _vector_index(problem: Problem, group: Group) -> str:
    """The index of a vector of a result, as a C expression."""
    outer, row, column = problem.result_index
    if problem.vector:
        rows, columns = _extents(problem)
        line = f"((int64_t)({outer}) * {rows} + {row}) * {columns // problem.vector}"
        return f"{line} + ({column}) / {problem.vector}"
    shape, block = group.writes[0].shape, problem.block
    return block_index(shape, block, outer, f"({row}) / {block}", column)


def _extents(problem: Problem) -> tuple[int, int]:
    """Rows and columns of each matrix of a row-major result."""
    single = problem.result_index[0] == "z"
    return problem.m if single else problem.count * problem.m, problem.gather.pixels


def _vectors(problem: Problem) -> str:
    """The number of vectors of a result whose rows a run decides, a C expression; else empty."""
    if problem.rows is None:
        return ""
    return f"(int64_t)Problem::rows() * {problem.gather.pixels // problem.width}"


def _prefetch(
    name: str, parameter: str, reads: list[int], store: StoreFunction, width: int, end: str = ""
) -> list[str]:
    """Copy one vector of each of some reads, before an `end`, to shared memory, `stride` apart."""
    lines = [
        f"{DEVICE} void prefetch_{name}({parameter}, char* to, int stride, bool valid) const {{"
    ]
    lines += [f"    valid = valid && {parameter.split()[-1]} < {end};"] if end else []
    for slot, i in enumerate(reads):
        kind = block_type(store, i, width)
        lines.append(
            f"    copy_block(({kind}*)(to + {slot} * stride), ({kind}*)buffer{i} + vector, valid);"
        )
    return [*lines, "  }"]


def _row_test(problem: Problem) -> list[str]:
    """Leave out rows after the last one where a run decides it: a tile does not know that."""
    return [] if problem.rows is None else ["    if (m >= Problem::rows()) return;"]


def _store(
    store: StoreFunction,
    problem: Problem,
    elementwise: list[int],
    broadcast: list[int],
    group: Group,
) -> list[str]:
    width = problem.width
    outer, row, column = problem.result_index
    lines = [
        f"{DEVICE} void operator()(int slice, int m, int n, const float (&values)[{width}],"
        " const char* elementwise, int elementwise_stride, const char* broadcast,"
        " int broadcast_stride) const {",
        PROBLEM_NUMBER,
        *_row_test(problem),
        "    const int64_t vector = vector_index(slice, m, n);",
    ]
    copied = {i: f"elementwise + {slot} * elementwise_stride" for slot, i in enumerate(elementwise)}
    copied |= {i: f"broadcast + {slot} * broadcast_stride" for slot, i in enumerate(broadcast)}
    index = {
        Part.ELEMENT: "vector",
        Part.ROW: "broadcast_index(slice, m)",
        Part.COLUMN: "broadcast_index(slice, n)",
    }
    single = [i for i, part in enumerate(store.parts) if part is not Part.ANY]
    written = [i for i in single if store.arguments[i] >= group.inputs]
    for i in single:
        kind = block_type(store, i, width)
        direct = f"(const {kind}*)buffer{i} + {index[store.parts[i]]}"
        value = "" if i in written else f" = *(const {kind}*)({copied.get(i, direct)})"
        lines.append(f"    {kind} block{i}{value};")
    element = (f"{row} + r", column) if problem.block else (row, f"{column} + r")
    passed = (passed_buffers(store), outer, *element, problem.total("values[r]"))
    call = f"{store.name}({', '.join(passed)});"
    lines += ["#pragma unroll", f"    for (int r = 0; r < {width}; r++) {call}"]
    lines += [
        f"    (({block_type(store, i, width)}*)buffer{i})[vector] = block{i};" for i in written
    ]
    return [*lines, "  }"]


def element_methods(store: StoreFunction, problem: Problem) -> list[str]:
    """The methods of `Store` that store one element and say whether vectors would be aligned."""
    outer, row, column = problem.result_index
    rows, columns = _extents(problem)
    index = {
        Part.ELEMENT: f" + (((int64_t)({outer}) * {rows} + {row}) * {columns} + {column})",
        Part.COLUMN: f" + ({column})",
    }
    passed = [f"buffer{i}{index.get(part, '')}" for i, part in enumerate(store.parts)]
    head = f"{DEVICE} void operator()(int slice, int m, int n, float value) const {{"
    passed += [outer, row, column, problem.total("value")]
    call = f"    {store.name}({', '.join(passed)});"
    lines = [head, PROBLEM_NUMBER, *_row_test(problem), call, "  }"]
    if not problem.vector:
        return lines
    width = problem.vector
    single = [i for i, part in enumerate(store.parts) if part is not Part.ANY]
    tests = [f"(uint64_t)buffer{i} % sizeof({block_type(store, i, width)}) == 0" for i in single]
    return [*lines, f"{DEVICE} bool aligned() const {{ return {' && '.join(tests)}; }}"]
