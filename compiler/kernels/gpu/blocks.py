"""The CUDA text that stores consecutive rows or columns, and copies beforehand what that reads."""

from collections.abc import Sequence

from compiler.ir.layouts import block_steps
from compiler.kernels.gpu.epilogue import Part, StoreFunction, c_type
from compiler.kernels.gpu.operands import Operand
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.group import Group
from compiler.schedule import ELEMENT_BYTES

DEVICE = "  __device__ __forceinline__"
PROBLEM_NUMBER = "    [[maybe_unused]] const int z = share / Problem::SPLITS;"
COPIED_BYTES = 16
"""Bytes that a thread copies of each place."""


def fetched_reads(
    store: StoreFunction, problem: Problem, group: Group
) -> tuple[list[int], list[int]]:
    """Which buffers of a store function are copied beforehand: blocks of a place, of an edge.

    An edge has one element for each of a tile's rows or columns.
    """
    width, places, edges = problem.together, list[int](), list[int]()
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
    width = problem.together
    edge = ("int m", problem.place[1]) if problem.block else ("int n", problem.place[2])
    fetched = problem.fetches != (0, 0)
    places, edges = fetched_reads(store, problem, group) if fetched else ([], [])
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


def block_place(shape: Sequence[int], block: int, outer: str, number: str, pixel: str) -> str:
    """Where a block of channels lies, counted in blocks, as a C expression of C expressions."""
    image, channels = block_steps(shape, block)
    return f"(int64_t)({number}) * {channels} + (int64_t)({outer}) * {image} + ({pixel})"


def _extents(problem: Problem) -> tuple[int, int]:
    """Rows and columns of each matrix of a row-major result."""
    product = problem.place[0] == "z"
    return problem.m if product else problem.count * problem.m, problem.gather.pixels


def _type(store: StoreFunction, number: int, block: int) -> str:
    return f"Block<{store.types[number]}, {block}>"


def _fetch(
    name: str, parameter: str, reads: list[int], store: StoreFunction, block: int, index: str
) -> list[str]:
    """Copy the blocks of some reads to shared memory, `stride` bytes apart."""
    lines = [f"{DEVICE} void fetch_{name}({parameter}, char* to, int stride, bool valid) const {{"]
    for slot, i in enumerate(reads):
        kind = _type(store, i, block)
        lines.append(
            f"    copy_block(({kind}*)(to + {slot} * stride), ({kind}*)buffer{i} + {index}, valid);"
        )
    return [*lines, "  }"]


def _store(
    store: StoreFunction, problem: Problem, places: list[int], edges: list[int], group: Group
) -> list[str]:
    width = problem.together
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
        kind = _type(store, i, width)
        direct = f"(const {kind}*)buffer{i} + {index[store.parts[i]]}"
        value = "" if i in written else f" = *(const {kind}*)({copied.get(i, direct)})"
        lines.append(f"    {kind} block{i}{value};")
    element = (f"{row} + r", column) if problem.block else (row, f"{column} + r")
    call = f"{store.name}({_passed(store)}, {outer}, {', '.join(element)}, values[r]);"
    lines += ["#pragma unroll", f"    for (int r = 0; r < {width}; r++) {call}"]
    lines += [f"    (({_type(store, i, width)}*)buffer{i})[place] = block{i};" for i in written]
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
    tests = [f"(uint64_t)buffer{i} % sizeof({_type(store, i, width)}) == 0" for i in single]
    return [*lines, f"{DEVICE} bool aligned() const {{ return {' && '.join(tests)}; }}"]


def block_store(store: StoreFunction, group: Group, block: int) -> str:
    """A struct `Store` that stores the results of consecutive channels at (outer, channel, pixel).

    They are stored together where the store function can be given blocks.
    """
    reads = {i for i, argument in enumerate(store.arguments) if argument < group.inputs}
    index = {Part.PLACE: "place", Part.ROW: f"channel / {block}"}
    single = [i for i, part in enumerate(store.parts) if part is not Part.ANY]
    kinds = {i: _type(store, i, block) for i in single}
    place = block_place(group.writes[0].shape, block, "outer", f"channel / {block}", "pixel")
    lines = [f"  {kind}* __restrict__ buffer{i};" for i, kind in enumerate(store.types)]
    lines += [
        f"{DEVICE} void operator()(int outer, int channel, int pixel,"
        f" const float (&values)[{block}]) const {{",
        f"    const int64_t place = {place};",
    ]
    for i in single:
        source = f" = ((const {kinds[i]}*)buffer{i})[{index[store.parts[i]]}]" if i in reads else ""
        lines.append(f"    {kinds[i]} block{i}{source};")
    call = f"{store.name}({_passed(store)}, outer, channel + r, pixel, values[r]);"
    lines += ["#pragma unroll", f"    for (int r = 0; r < {block}; r++) {call}"]
    lines += [f"    (({kinds[i]}*)buffer{i})[place] = block{i};" for i in single if i not in reads]
    return "\n".join(["struct Store {", *lines, "  }", "};", ""])


def image_kernel(
    name: str,
    function: str,
    operands: tuple[Operand, Operand],
    store: StoreFunction,
    bounds: int | str,
) -> str:
    """A kernel that hands an image, its weights and a `Store` to a template's function."""
    named = zip(operands, ("image", "weights"), strict=True)
    given = [f"const {c_type(read.dtype)}* __restrict__ {own}" for read, own in named]
    given += [f"{kind}* __restrict__ buffer{i}" for i, kind in enumerate(store.types)]
    names = ", ".join(f"buffer{i}" for i in range(len(store.types)))
    head = f'extern "C" __global__ void __launch_bounds__({bounds})'
    call = f"{function}<Problem>(image, weights, Store{{{names}}});"
    return f"{head} {name}({', '.join(given)}) {{\n  {call}\n}}\n"


def _passed(store: StoreFunction) -> str:
    """What a store function is given for row `r`: elements of blocks, or whole buffers."""
    return ", ".join(
        f"buffer{i}" if part is Part.ANY else f"({store.types[i]}*)block{i}.at + r"
        for i, part in enumerate(store.parts)
    )
