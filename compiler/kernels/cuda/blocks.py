"""The CUDA text that stores blocks of consecutive rows, and copies beforehand what that reads."""

from collections.abc import Sequence

from compiler.ir.layouts import block_steps
from compiler.kernels.cuda.problem import Problem
from compiler.kernels.cuda.store import Part, StoreFunction
from compiler.kernels.group import Group

DEVICE = "  __device__ __forceinline__"
PROBLEM_NUMBER = "    const int z = share / Problem::SPLITS;"


def block_methods(store: StoreFunction, problem: Problem, group: Group) -> list[str]:
    """The methods of `Store`: copy the blocks of a place, of a row; store the blocks of a place."""
    block = problem.block
    reads = [i for i, argument in enumerate(store.arguments) if argument < group.inputs]
    places = [i for i in reads if store.parts[i] is Part.PLACE]
    rows = [i for i in reads if store.parts[i] is Part.ROW]
    return [
        f"{DEVICE} static int64_t place_of(int share, int m, int n) {{",
        PROBLEM_NUMBER,
        f"    return {_place(problem, group)};",
        "  }",
        f"{DEVICE} static int row_of(int share, int m) {{",
        PROBLEM_NUMBER,
        f"    return ({problem.place[1]}) / {block};",
        "  }",
        *_fetch("places", "int64_t place", places, store, block, "place"),
        *_fetch("rows", "int row", rows, store, block, "row"),
        *_store(store, problem, places, rows, group),
    ]


def _place(problem: Problem, group: Group) -> str:
    """The number of a block within a result, as a C expression."""
    outer, row, column = problem.place
    return block_place(
        group.writes[0].shape, problem.block, outer, f"({row}) / {problem.block}", column
    )


def block_place(shape: Sequence[int], block: int, outer: str, number: str, pixel: str) -> str:
    """Where a block of channels lies, counted in blocks, as a C expression of C expressions."""
    image, channels = block_steps(shape, block)
    return f"(int64_t)({number}) * {channels} + (int64_t)({outer}) * {image} + ({pixel})"


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
    store: StoreFunction, problem: Problem, places: list[int], rows: list[int], group: Group
) -> list[str]:
    block = problem.block
    outer, row, column = problem.place
    fetched = problem.fetches != (0, 0)
    lines = [
        f"{DEVICE} void operator()(int share, int m, int n, const float (&values)[{block}],"
        " const char* places, int place_stride, const char* rows, int row_stride) const {",
        PROBLEM_NUMBER,
        "    const int64_t place = place_of(share, m, n);",
    ]
    written = [i for i, part in enumerate(store.parts) if part is Part.PLACE and i not in places]
    for name, index, reads in (("places", "place", places), ("rows", "row_of(share, m)", rows)):
        for slot, i in enumerate(reads):
            kind = _type(store, i, block)
            copied = f"*(const {kind}*)({name} + {slot} * {name[:-1]}_stride)"
            source = copied if fetched else f"((const {kind}*)buffer{i})[{index}]"
            lines.append(f"    const {kind} block{i} = {source};")
    lines += [f"    {_type(store, i, block)} block{i};" for i in written]
    call = f"{store.name}({_passed(store)}, {outer}, {row} + r, {column}, values[r]);"
    lines += ["#pragma unroll", f"    for (int r = 0; r < {block}; r++) {call}"]
    lines += [f"    (({_type(store, i, block)}*)buffer{i})[place] = block{i};" for i in written]
    return [*lines, "  }"]


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


def _passed(store: StoreFunction) -> str:
    """What a store function is given for row `r`: elements of blocks, or whole buffers."""
    return ", ".join(
        f"buffer{i}" if part is Part.ANY else f"({store.types[i]}*)block{i}.at + r"
        for i, part in enumerate(store.parts)
    )
