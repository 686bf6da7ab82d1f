"""Convolution: lanes along the image or along output channels, whichever wastes less.

Lanes along the image (weights are broadcast, results need no transposition):

    for each block (runs of images and groups, chunks of positions, tiles of output channels):
      tile = 0                                                    rows x vectors registers
      for channel, kernel row, kernel column:
        tile += broadcast(weights[rows]) x plane[position + shift : vectors]
      scratch = tile                                              on the stack
      for each channel, row, vector of columns: store(epilogue(scratch + bias))

Lanes along output channels (inputs are broadcast, for small images) is the same with
`tile += broadcast(plane[positions]) x weights[vectors]` and a transposing epilogue.

Of depthwise convolutions a tile may be several rows of one channel's result (`row_lanes`).

The planes are the input itself for a pointwise convolution, else a first launch fills them (see
`planes`). A chunk is a run of row-major positions of the planes, so short rows waste few lanes.

Three by three taps at strides of one have ways of fewer multiplications besides (`winograd`).

In three dimensions every slice of the result is an image, whose sums go over slices of the input
besides. Rows are slices, too, where many taps of a dilated kernel fall outside the image.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields, replace
from math import prod

from compiler.graph.packing.winograd import POINTS
from compiler.kernels.cpu.convolution import Convolution, Depth
from compiler.kernels.cpu.core import core_of
from compiler.kernels.cpu.machine import second_cache_bytes
from compiler.kernels.cpu.operands import FloatOperands
from compiler.kernels.cpu.templates.anchors import (
    CPU_SOURCES,
    AnchorTemplate,
    Loops,
    Ways,
    elementwise_context,
    widening,
)
from compiler.kernels.cpu.templates.conv_choices import (
    ConvChoices,
    ConvConfig,
    worth_measuring,
)
from compiler.kernels.cpu.templates.nests import Nest
from compiler.kernels.cpu.templates.winograd.choices import (
    WinogradChoices,
    WinogradConfig,
)
from compiler.kernels.database.fields import Value
from compiler.kernels.group import Group, Node
from compiler.kernels.long_sums import LONG_SUM
from compiler.kernels.sizes import is_number
from compiler.kernels.tir.fusion import FusionContext
from compiler.target.target import CpuTarget

LIVE_SHARE = 0.8
"""The share of live taps along dilated rows up to which they are treated as slices."""


AnyConfig = ConvConfig | WinogradConfig


class FloatConvolution(AnchorTemplate[AnyConfig]):
    """A group around one float32 convolution whose weights are constant."""

    name = "convolution"
    sources = CPU_SOURCES
    types = ("Conv",)
    takes_symbols = True

    def read(self, group: Group, anchor: Node[int], target: CpuTarget) -> Ways[AnyConfig] | None:
        """The likeliest of each kind, then others near these."""
        conv = read_float_convolution(group, anchor)
        around = elementwise_context(group, anchor) if conv else None
        if conv is None or around is None:
            return None
        given = conv, around, core_of(target), FloatOperands(around), second_cache_bytes(target)
        direct = ConvChoices(*given)
        winograd = WinogradChoices(*given)
        kinds = [*direct.kinds, *winograd.kinds]
        key = {} if group.symbols else convolution_fields(conv, around)
        if winograd.kinds:
            kinds.sort(key=lambda kind: kind[0][1])
            # not to be confused with times from before
            key |= {} if group.symbols else {"winograd": tuple(POINTS)}
        slots = dict(worth_measuring(kinds))
        weight = group.packable(anchor.operand(1))
        assert weight is not None, "the template takes constant weights"
        wide = widening(group, weight)

        def loops(config: AnyConfig) -> Loops:
            if isinstance(config, WinogradConfig):
                nest = winograd.nest(config)
                packing = wide + nest.packing
            else:
                nest = direct.nest(config, slots[config])
                packing = wide + weight_packing(nest)
            return Loops(lambda: nest.launches(around.reads[weight]), {weight: packing})

        example = conv.example
        total = {c: example.images * conv.groups * own for c, own in slots.items()}
        reserved = {c for c in slots if isinstance(c, ConvConfig) and direct.is_unusual(c)}
        return Ways(
            around=around,
            flops=2 * example.multiplications,
            slots=total,
            loops=loops,
            key=key,
            reserved=reserved,
        )


def convolution_fields(conv: Convolution, around: FusionContext) -> dict[str, Value]:
    """The fields of a convolution that decide which config is fast."""
    depth = conv.depth
    values: dict[str, Value] = {
        field.name: getattr(conv, field.name) for field in fields(conv) if field.name != "depth"
    }
    values |= {f"depth_{name}": value for name, value in asdict(depth).items()} if depth else {}
    values |= {"converted": True} if around.is_converted(0) else {}
    return values | {"flat": around.flat, "computed": around.read_number(0) is None}


def read_float_convolution(group: Group, anchor: Node[int]) -> Convolution | None:
    """The convolution of an operator, if the template can take it."""
    if not constant_weights(group, anchor, most_axes=3):
        return None
    return sliced_rows(read_convolution(group, anchor))


def sliced_rows(conv: Convolution) -> Convolution:
    """The convolution with its rows as slices, if many taps of dilated rows are outside."""
    numbers = is_number(conv.image[0]) and is_number(conv.pads[0])
    if conv.depth or conv.dilations[0] == 1 or not numbers:
        return conv
    rows = _depth(pair[0] for pair in _pairs(conv))
    if rows.live_taps > LIVE_SHARE * rows.kernel * rows.output:
        return conv
    image, kernel, strides, dilations, pads, output = (pair[1] for pair in _pairs(conv))
    return replace(
        conv,
        image=(1, image),
        kernel=(1, kernel),
        strides=(1, strides),
        dilations=(1, dilations),
        pads=(0, pads),
        output=(1, output),
        depth=rows,
    )


def _depth(numbers: Iterable[int]) -> Depth:
    """A depth of its numbers in order."""
    image, kernel, stride, dilation, pad, output = numbers
    return Depth(
        image=image, kernel=kernel, stride=stride, dilation=dilation, pad=pad, output=output
    )


def _pairs(conv: Convolution) -> tuple[tuple[int, int], ...]:
    """The extents, kernel and so on of rows and columns, in the order of `Depth`."""
    return conv.image, conv.kernel, conv.strides, conv.dilations, conv.pads, conv.output


def read_convolution(group: Group, anchor: Node[int]) -> Convolution:
    """The convolution of an operator with one to three spatial axes."""
    image, weight = (group.values[anchor.operand(i)].shape for i in range(2))
    output = group.values[anchor.output].shape
    rank = len(image) - 2
    groups = anchor.attributes["group"]
    strides, dilations = (tuple(anchor.attributes[name]) for name in ("strides", "dilations"))
    pads = tuple(anchor.attributes["pads"][:rank])
    axes = list(zip(image[2:], weight[2:], strides, dilations, pads, output[2:], strict=True))
    return Convolution(
        batch=output[0],
        groups=groups,
        channels=weight[1],
        filters=weight[0] // groups,
        image=plane_of(image[2:], 1),
        kernel=plane_of(weight[2:], 1),
        strides=plane_of(strides, 1),
        dilations=plane_of(dilations, 1),
        pads=plane_of(pads, 0),
        output=plane_of(output[2:], 1),
        depth=_depth(axes[0]) if rank == 3 else None,
    )


def constant_weights(group: Group, anchor: Node[int], most_axes: int = 2) -> bool:
    """Whether an operator is a float32 convolution in so many dimensions at most over a weight,
    perhaps of 16 bits, that nothing else in the group reads, with few enough taps for one sum."""
    used = [group.values[i] for i in (*anchor.inputs, *anchor.outputs) if i is not None]
    weight = anchor.operand(1)
    return (
        {value.dtype for value in used} == {"float32"}
        and all(value.elements for value in used)
        and group.packable(weight) is not None
        and len(used[0].shape) - 2 in range(1, most_axes + 1)
        and prod(used[1].shape[2:]) <= LONG_SUM
    )


def plane_of(extents: Sequence[int], missing: int) -> tuple[int, int]:
    """Extents of rows and columns, the last ones; one dimension is a single row."""
    return (extents[-2], extents[-1]) if len(extents) > 1 else (missing, extents[0])


def weight_packing(nest: Nest) -> str:
    """Weights as tiles of output channels, innermost the channels of a tile."""
    conv, kernel = nest.conv, nest.conv.kernel
    missing = nest.tiles * nest.width - conv.filters
    inner = (conv.channels, *([conv.depth.kernel] if conv.depth else []), *kernel)
    order = (4, 3, 5, 6) if conv.depth else (3, 4, 5)
    return "|".join(
        [
            packing_step("reshape", [conv.groups, conv.filters, *inner]),
            packing_step("pad", [0, missing, *[0] * len(inner)]),
            packing_step("reshape", [conv.groups, nest.tiles, nest.width, *inner]),
            packing_step("transpose", [0, 1, *order, 2]),
        ]
    )


def packing_step(name: str, numbers: Sequence[int]) -> str:
    """One step of a packing."""
    return f"{name}:{','.join(map(str, numbers))}"
