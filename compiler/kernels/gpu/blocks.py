"""The CUDA text around templates that compute consecutive channels of an image."""

from collections.abc import Sequence
from math import prod

from compiler.ir.layouts import block_steps
from compiler.kernels.gpu.epilogue import Part, StoreFunction
from compiler.kernels.gpu.structs import DEVICE, struct
from compiler.kernels.group import Group
from compiler.kernels.ops.windows import Window


def block_index(shape: Sequence[int], block: int, outer: str, number: str, pixel: str) -> str:
    """The index of a block of channels in an NCHWc image, as a C expression of C expressions."""
    image, channels = block_steps(shape, block)
    return f"(int64_t)({number}) * {channels} + (int64_t)({outer}) * {image} + ({pixel})"


def window_constants(
    source: Sequence[int], result: Sequence[int], window: Window
) -> dict[str, int]:
    """Constants for depth, rows and columns of images and a window; those that are missing do not
    matter."""
    axes = {
        "SOURCE": source[2:],
        "RESULT": result[2:],
        "WINDOW": window.kernel,
        "STRIDES": window.strides,
        "DILATIONS": window.dilations,
        "PADS": window.before,
    }
    return {
        f"{name}{axis}": value
        for name, values in axes.items()
        for axis, value in enumerate((*[int(name != "PADS")] * (3 - len(values)), *values))
    }


def block_type(store: StoreFunction, number: int, block: int) -> str:
    """The C type of a vector of a buffer of a store function."""
    return f"Block<{store.types[number]}, {block}>"


def block_store(store: StoreFunction, group: Group, block: int) -> str:
    """A struct `Store` that stores the results of consecutive channels at (outer, channel, pixel).

    They are stored as a vector where the store function can be given vectors.
    """
    reads = {i for i, argument in enumerate(store.arguments) if argument < group.inputs}
    index = {Part.ELEMENT: "vector", Part.ROW: f"channel / {block}"}
    single = [i for i, part in enumerate(store.parts) if part is not Part.ANY]
    kinds = {i: block_type(store, i, block) for i in single}
    element = block_index(group.writes[0].shape, block, "outer", f"channel / {block}", "pixel")
    lines = [
        *store.members,
        f"{DEVICE} void operator()(int outer, int channel, int pixel,"
        f" const float (&values)[{block}]) const {{",
        f"    const int64_t vector = {element};",
    ]
    for i in single:
        source = f" = ((const {kinds[i]}*)buffer{i})[{index[store.parts[i]]}]" if i in reads else ""
        lines.append(f"    {kinds[i]} block{i}{source};")
    call = f"{store.name}({passed_buffers(store)}, outer, channel + r, pixel, values[r]);"
    lines += ["#pragma unroll", f"    for (int r = 0; r < {block}; r++) {call}"]
    lines += [f"    (({kinds[i]}*)buffer{i})[vector] = block{i};" for i in single if i not in reads]
    return struct("Store", [*lines, "  }"])


def pixel_store(store: StoreFunction, group: Group, width: int) -> str:
    """A struct `Store` that stores the results of consecutive pixels of a channel.

    They are stored as a vector where the store function can be given vectors and they are aligned.
    """
    _, channels, *spatial = group.writes[0].shape
    pixels = prod(spatial)
    index = f"((int64_t)outer * {channels} + channel) * {pixels} + pixel"
    return _row_store(store, group, width, (index, "pixel"), "channel, pixel + r")


def channel_store(store: StoreFunction, group: Group, width: int, pixels: int) -> str:
    """As `pixel_store`, of consecutive channels of one of an image's pixels: channels are last."""
    channels = group.writes[0].shape[-1]
    index = f"((int64_t)outer * {pixels} + pixel) * {channels} + channel"
    return _row_store(store, group, width, (index, "channel"), "channel + r, pixel")


def _row_store(
    store: StoreFunction, group: Group, width: int, indices: tuple[str, str], place: str
) -> str:
    """A struct `Store` of consecutive elements of a row-major result; `indices` are those of the
    first one in buffers of elements and of columns, `place` are arguments for element `r`."""
    index: dict[Part, str] = dict(zip((Part.ELEMENT, Part.COLUMN), indices, strict=True))
    single = [i for i, part in enumerate(store.parts) if part is not Part.ANY]
    written = [i for i in single if store.arguments[i] >= group.inputs]
    kinds = {i: block_type(store, i, width) for i in single}
    lines = [
        *store.members,
        f"{DEVICE} void operator()(int outer, int channel, int pixel,"
        f" const float (&values)[{width}]) const {{",
        *(f"    {store.types[i]}* at{i} = buffer{i} + {index[store.parts[i]]};" for i in single),
    ]
    if single:
        tests = [f"(uint64_t)at{i} % sizeof({kinds[i]}) == 0" for i in single]
        lines += [f"    if ({' && '.join(tests)}) {{"]
        for i in single:
            source = "" if i in written else f" = *(const {kinds[i]}*)at{i}"
            lines.append(f"      {kinds[i]} block{i}{source};")
        call = f"{store.name}({passed_buffers(store)}, outer, {place}, values[r]);"
        lines += ["#pragma unroll", f"      for (int r = 0; r < {width}; r++) {call}"]
        lines += [f"      *({kinds[i]}*)at{i} = block{i};" for i in written]
        lines += ["      return;", "    }"]
    elements = ", ".join(
        f"at{i} + r" if i in single else f"buffer{i}" for i in range(len(store.types))
    )
    call = f"{store.name}({elements}, outer, {place}, values[r]);"
    lines += ["#pragma unroll", f"    for (int r = 0; r < {width}; r++) {call}"]
    return struct("Store", [*lines, "  }"])


def passed_buffers(store: StoreFunction) -> str:
    """The arguments of a store function for row `r`: elements of vectors, or whole buffers."""
    return ", ".join(
        f"buffer{i}" if part is Part.ANY else f"({store.types[i]}*)block{i}.at + r"
        for i, part in enumerate(store.parts)
    )
