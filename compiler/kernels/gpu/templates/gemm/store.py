"""The CUDA text that stores a tile's results and prefetches what its epilogue reads."""

from compiler.kernels.gpu.blocks import DEVICE, block_place, block_type, passed_buffers
from compiler.kernels.gpu.epilogue import Part, StoreFunction
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.group import Group
from compiler.schedule import ELEMENT_BYTES

PROBLEM_NUMBER = "    [[maybe_unused]] const int z = share / Problem::SPLITS;"


COPIED_BYTES = 16
"""Bytes that a thread copies of each place."""


def prefetched_reads(
    store: StoreFunction, problem: Problem, group: Group
) -> tuple[list[int], list[int]]:
    """Which buffers of a store function are copied beforehand: blocks of a place, of an edge.

    An edge has one element for each of a tile's rows or columns.
    """
    width, places, edges = problem.width, list[int](), list[int]()
    for i, part in enumerate(store.parts):
        if part is Part.ANY or store.arguments[i] >= group.inputs:
            continue
        size = width * ELEMENT_BYTES[group.reads[store.arguments[i]].dtype]
        if part is not Part.PLACE:
            edges.append(i)
        elif size == COPIED_BYTES:
            places.append(i)
    return places, edges


def block_methods(store: StoreFunction, problem: Problem, group: Group) -> list[str]:
    """The methods of `Store`: copy the blocks of a place, of an edge; store those of a place."""
    width = problem.width
    edge = ("int m", problem.place[1]) if problem.block else ("int n", problem.place[2])
    fetched = problem.prefetched != (0, 0)
    places, edges = prefetched_reads(store, problem, group) if fetched else ([], [])
    return [
        f"{DEVICE} static int64_t place_of(int share, int m, int n) {{",
        PROBLEM_NUMBER,
        f"    return {_place(problem, group)};",
        "  }",
        f"{DEVICE} static int edge_of(int share, {edge[0]}) {{",
        PROBLEM_NUMBER,
        f"    return ({edge[1]}) / {width};",
        "  }",
        *_fetch("places", "int64_t place", places, store, width, "place"),
        *_fetch("edges", "int edge", edges, store, width, "edge"),
        *_store(store, problem, places, edges, group),
    ]


def _place(problem: Problem, group: Group) -> str:
    """The number of a block within a result, as a C expression."""
    outer, row, column = problem.place
    if problem.vector:
        rows, columns = _extents(problem)
        line = f"((int64_t)({outer}) * {rows} + {row}) * {columns // problem.vector}"
        return f"{line} + ({column}) / {problem.vector}"
    shape, block = group.writes[0].shape, problem.block
    return block_place(shape, block, outer, f"({row}) / {block}", column)


def _extents(problem: Problem) -> tuple[int, int]:
    """Rows and columns of each matrix of a row-major result."""
    single = problem.place[0] == "z"
    return problem.m if single else problem.count * problem.m, problem.gather.pixels


def _fetch(
    name: str, parameter: str, reads: list[int], store: StoreFunction, block: int, index: str
) -> list[str]:
    """Copy the blocks of some reads to shared memory, `stride` bytes apart."""
    lines = [f"{DEVICE} void fetch_{name}({parameter}, char* to, int stride, bool valid) const {{"]
    for slot, i in enumerate(reads):
        kind = block_type(store, i, block)
        lines.append(
            f"    copy_block(({kind}*)(to + {slot} * stride), ({kind}*)buffer{i} + {index}, valid);"
        )
    return [*lines, "  }"]


def _store(
    store: StoreFunction, problem: Problem, places: list[int], edges: list[int], group: Group
) -> list[str]:
    width = problem.width
    outer, row, column = problem.place
    lines = [
        f"{DEVICE} void operator()(int share, int m, int n, const float (&values)[{width}],"
        " const char* places, int place_stride, const char* edges, int edge_stride) const {",
        PROBLEM_NUMBER,
        "    const int64_t place = place_of(share, m, n);",
    ]
    copied = {i: f"places + {slot} * place_stride" for slot, i in enumerate(places)}
    copied |= {i: f"edges + {slot} * edge_stride" for slot, i in enumerate(edges)}
    index = {Part.PLACE: "place", Part.ROW: "edge_of(share, m)", Part.COLUMN: "edge_of(share, n)"}
    single = [i for i, part in enumerate(store.parts) if part is not Part.ANY]
    written = [i for i in single if store.arguments[i] >= group.inputs]
    for i in single:
        kind = block_type(store, i, width)
        direct = f"(const {kind}*)buffer{i} + {index[store.parts[i]]}"
        value = "" if i in written else f" = *(const {kind}*)({copied.get(i, direct)})"
        lines.append(f"    {kind} block{i}{value};")
    element = (f"{row} + r", column) if problem.block else (row, f"{column} + r")
    call = f"{store.name}({passed_buffers(store)}, {outer}, {', '.join(element)}, values[r]);"
    lines += ["#pragma unroll", f"    for (int r = 0; r < {width}; r++) {call}"]
    lines += [
        f"    (({block_type(store, i, width)}*)buffer{i})[place] = block{i};" for i in written
    ]
    return [*lines, "  }"]


def element_methods(store: StoreFunction, problem: Problem) -> list[str]:
    """The methods of `Store`: store one element; with vectors, whether whole ones are aligned."""
    outer, row, column = problem.place
    rows, columns = _extents(problem)
    index = {
        Part.PLACE: f" + (((int64_t)({outer}) * {rows} + {row}) * {columns} + {column})",
        Part.COLUMN: f" + ({column})",
    }
    passed = [f"buffer{i}{index.get(part, '')}" for i, part in enumerate(store.parts)]
    head = f"{DEVICE} void operator()(int share, int m, int n, float value) const {{"
    call = f"    {store.name}({', '.join(passed)}, {outer}, {row}, {column}, value);"
    lines = [head, PROBLEM_NUMBER, call, "  }"]
    if not problem.vector:
        return lines
    width = problem.vector
    single = [i for i, part in enumerate(store.parts) if part is not Part.ANY]
    tests = [f"(uint64_t)buffer{i} % sizeof({block_type(store, i, width)}) == 0" for i in single]
    return [*lines, f"{DEVICE} bool aligned() const {{ return {' && '.join(tests)}; }}"]
