"""The CUDA text around templates that compute consecutive channels of an image."""

from collections.abc import Sequence

from compiler.ir.layouts import block_steps
from compiler.kernels.gpu.epilogue import Part, StoreFunction, c_type
from compiler.kernels.gpu.operands import Operand
from compiler.kernels.group import Group

DEVICE = "  __device__ __forceinline__"


def block_place(shape: Sequence[int], block: int, outer: str, number: str, pixel: str) -> str:
    """Where a block of channels lies, counted in blocks, as a C expression of C expressions."""
    image, channels = block_steps(shape, block)
    return f"(int64_t)({number}) * {channels} + (int64_t)({outer}) * {image} + ({pixel})"


def block_type(store: StoreFunction, number: int, block: int) -> str:
    """The C type of consecutive elements of a buffer of a store function."""
    return f"Block<{store.types[number]}, {block}>"


def block_store(store: StoreFunction, group: Group, block: int) -> str:
    """A struct `Store` that stores the results of consecutive channels at (outer, channel, pixel).

    They are stored together where the store function can be given blocks.
    """
    reads = {i for i, argument in enumerate(store.arguments) if argument < group.inputs}
    index = {Part.PLACE: "place", Part.ROW: f"channel / {block}"}
    single = [i for i, part in enumerate(store.parts) if part is not Part.ANY]
    kinds = {i: block_type(store, i, block) for i in single}
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
    call = f"{store.name}({passed_buffers(store)}, outer, channel + r, pixel, values[r]);"
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


def passed_buffers(store: StoreFunction) -> str:
    """What a store function is given for row `r`: elements of blocks, or whole buffers."""
    return ", ".join(
        f"buffer{i}" if part is Part.ANY else f"({store.types[i]}*)block{i}.at + r"
        for i, part in enumerate(store.parts)
    )
