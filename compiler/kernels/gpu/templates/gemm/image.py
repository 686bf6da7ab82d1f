"""Convolutions as implicit GEMMs: how images are read and weights are packed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from compiler.ir.layouts import block_steps
from compiler.kernels.arithmetic import round_up
from compiler.kernels.gpu.operands import ELEMENT_BYTES, Operand
from compiler.kernels.gpu.templates.gemm.problem import STEP_BYTES, Form, Gather, Problem, Triple
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.windows import operator_window


@dataclass(frozen=True)
class Axis:
    """One axis: which tap of the kernel each phase has at each place of a dense window.

    The window's places are `step` pixels apart, and its first is `first` pixels after a result's.
    """

    first: int
    step: int
    places: int
    taps: Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Phases:
    """A dense convolution for each phase, of one window; phases are rows of the GEMM's A.

    `taps` are the taps of the kernel for each phase and place of the window; their number where
    there is none.
    """

    strides: Triple
    gather: Gather
    taps: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of phases."""
        return prod(self.strides)

    def pixel(self, phase: str) -> str:
        """The output pixel of a phase for pixel n of a phase's results, as a C expression."""
        (_, high, wide), (_, b, c) = self.gather.result, self.strides
        pixel = f"(n % {self.gather.pixels})"
        depth = f"({pixel} / {high * wide} * {self.strides[0]} + {phase} / {b * c})"
        row = f"({pixel} / {wide} % {high} * {b} + {phase} / {c} % {b})"
        column = f"({pixel} % {wide} * {c} + {phase} % {c})"
        return f"({depth} * {high * b} + {row}) * {wide * c} + {column}"


def find_phases(gather: Gather) -> Phases | None:
    """The phases of a transposed convolution; None where they do not divide the result evenly.

    Nor where strides and dilations leave more places in the windows than the kernel has taps.
    """
    if any(n % s for n, s in zip(gather.result, gather.strides, strict=True)):
        return None
    first, second, third = (_axis(gather, i) for i in range(3))
    axes, window = (first, second, third), (first.places, second.places, third.places)
    if prod(window) > gather.taps:
        return None
    a, b, c = (n // s for n, s in zip(gather.result, gather.strides, strict=True))
    dense = replace(
        gather,
        pixels=a * b * c,
        taps=prod(window),
        tap_major=True,
        result=(a, b, c),
        window=window,
        strides=(1, 1, 1),
        pads=(-first.first, -second.first, -third.first),
        dilations=(first.step, second.step, third.step),
        transposed=False,
    )
    return Phases(gather.strides, dense, _taps(gather, axes))


def _axis(gather: Gather, axis: int) -> Axis:
    """Result `phase + i * stride` reads pixel `offset + i` by tap `tap`."""
    stride, dilation, pad = gather.strides[axis], gather.dilations[axis], gather.pads[axis]
    offsets = {
        (phase, tap): (phase + pad - tap * dilation) // stride
        for phase, tap in product(range(stride), range(gather.window[axis]))
        if (phase + pad - tap * dilation) % stride == 0
    }
    first = min(offsets.values())
    step = dilation if stride == 1 else 1
    taps = {(phase, (n - first) // step): tap for (phase, tap), n in offsets.items()}
    return Axis(first, step, (max(offsets.values()) - first) // step + 1, taps)


def _taps(gather: Gather, axes: tuple[Axis, Axis, Axis]) -> tuple[int, ...]:
    """The kernel's tap for each phase and place, in row-major order."""
    phases = product(*(range(stride) for stride in gather.strides))
    places = [*product(*(range(axis.places) for axis in axes))]
    return tuple(_tap(gather, axes, phase, place) for phase in phases for place in places)


def _tap(
    gather: Gather, axes: tuple[Axis, Axis, Axis], phase: tuple[int, ...], place: tuple[int, ...]
) -> int:
    """The kernel's tap of a phase at a place of its window; the number of taps if there is none."""
    number = 0
    for axis, extent, own in zip(axes, gather.window, zip(phase, place, strict=True), strict=True):
        if own not in axis.taps:
            return gather.taps
        number = number * extent + axis.taps[own]
    return number


TAP_CHANNELS = 16
"""From this many channels on, the taps of an NCHW image are outermost in k: one per k-step."""


WASTE = 1.125
"""How much k may grow by padding the channels of an NCHW image to whole k-steps."""


def _triple(values: Sequence[int], missing: int) -> Triple:
    padded = [missing] * (3 - len(values)) + list(values)
    return padded[0], padded[1], padded[2]


def image_problem(
    group: Group, anchor: Node[int], weight: Operand, image: Operand, merged: int = 1
) -> Problem | None:
    """The problem of a convolution, or of a transposed one whose weights are constant.

    Where groups are merged, an infinity in one makes the results of the others NaN.
    """
    groups = anchor.attributes["group"] // merged
    transposed = anchor.type == "ConvTranspose"
    shape = group.values[anchor.output].shape
    channels, rows = image.view.shape[1] // groups, shape[1] // groups
    form = _image_form(image, channels)
    narrow = groups > 1 and rows < (4 if form is Form.BLOCKS else 8)
    if narrow or form is None or weight.block or not weight.view.flags.c_contiguous:
        return None
    gather = _read_gather(group, anchor, channels, weight, image, form=form)
    if not weight.constant and (transposed or (form is Form.BLOCKS and gather.taps > 1)):
        return None
    if transposed and not anchor.attributes["finite"]:
        return None
    phases = find_phases(gather) if transposed else None
    if phases:
        return _phased_problem(group, groups, weight, image, form, phases=phases)
    k = gather.row * gather.taps if gather.tap_major else channels * gather.taps
    a_row = round_up(k, weight.chunk) if weight.constant else k
    packing = _packing(weight, groups, gather, form, a_row, transposed=transposed, merged=merged)
    return Problem(
        m=rows,
        n=shape[0] * gather.pixels,
        k=a_row,
        count=groups,
        dtype=image.dtype,
        form=form,
        a_row=a_row,
        b_row=0,
        left=weight.read,
        right=image.read,
        gather=gather,
        a_offset=f"(int64_t)z * {rows * a_row}",
        b_offset=f"(int64_t)z * {channels * gather.plane}",
        result_index=_result_index(shape[0], gather.pixels, f"z * {rows} + m"),
        packings=((weight.read, packing),) if weight.constant else (),
        block=_result_block(group, rows),
        merged=merged,
    )


def _result_index(batch: int, pixels: int, row: str) -> tuple[str, str, str]:
    """The index of an element in a convolution's result: outer, row, column as C expressions."""
    return ("0", row, "n") if batch == 1 else (f"n / {pixels}", row, f"n % {pixels}")


def _packing(
    weight: Operand,
    groups: int,
    gather: Gather,
    form: Form,
    a_row: int,
    transposed: bool,
    merged: int,
) -> str:
    """The packing of weights; merged groups are the diagonal blocks of a matrix of zeros."""
    first, second, *window = weight.view.shape
    kernel = (first, second * merged, *window)
    step = STEP_BYTES // ELEMENT_BYTES[weight.dtype]
    if form is Form.BLOCKS and gather.taps > 1 and gather.channels % step == 0:
        # The packing of weights with k contiguous: k-steps, then taps, then a k-step's channels.
        taps = gather.taps
        steps = gather.channels // step
        if transposed:
            rows = kernel[1] * groups
            moved = f"reshape:{groups},{steps},{step},{kernel[1]},{taps}|transpose:0,3,1,4,2"
        else:
            rows = kernel[0]
            moved = f"reshape:{kernel[0]},{steps},{step},{taps}|transpose:0,1,3,2"
        packing = f"{moved}|reshape:{rows},{taps * gather.channels}"
    else:
        packing = _weight_packing(kernel, groups, gather, a_row, transposed)
    return f"diagonal:{groups * merged},{merged}|{packing}" if merged > 1 else packing


def pointwise_problem(group: Group, anchor: Node[int], weight: Operand, image: Operand) -> Problem:
    """The problem of a pointwise convolution whose image each block computes itself."""
    rows, channels = weight.view.shape[:2]
    output = group.values[anchor.output].shape
    pixels = prod(output[2:])
    k = round_up(channels, weight.chunk)
    gather = Gather(
        channels=channels,
        pixels=pixels,
        image=channels * pixels,
        plane=pixels,
        row=channels,
        source=_triple(output[2:], 1),
        result=_triple(output[2:], 1),
    )
    packing = _weight_packing(weight.view.shape, 1, replace(gather, row=k), k, False)
    return Problem(
        m=rows,
        n=output[0] * pixels,
        k=k,
        count=1,
        dtype=weight.dtype,
        form=Form.BLOCKS,
        a_row=k,
        b_row=0,
        left=weight.read,
        right=image.read,
        gather=gather,
        a_offset="0",
        b_offset="0",
        result_index=_result_index(output[0], pixels, "m"),
        packings=((weight.read, packing),),
        block=_result_block(group, rows),
    )


def _result_block(group: Group, rows: int) -> int:
    """The channel block of the first result, if each problem has whole blocks; else 0."""
    block = group.writes[0].block
    return block if block and rows % block == 0 else 0


def _image_form(image: Operand, channels: int) -> Form | None:
    """An image's form; None for one that cannot be read."""
    if not image.block:
        return Form.LINES if image.view.flags.c_contiguous else None
    return Form.BLOCKS if image.block == image.chunk and channels % image.chunk == 0 else None


def _phased_problem(
    group: Group, groups: int, weight: Operand, image: Operand, form: Form, phases: Phases
) -> Problem:
    """A transposed convolution by its phases: a GEMM with rows of phases and channels."""
    gather = phases.gather
    rows = weight.view.shape[1]
    height, k = rows * phases.count, gather.row * gather.taps
    return Problem(
        m=height,
        n=image.view.shape[0] * gather.pixels,
        k=k,
        count=groups,
        dtype=image.dtype,
        form=form,
        a_row=k,
        b_row=0,
        left=weight.read,
        right=image.read,
        gather=gather,
        a_offset=f"(int64_t)z * {height * k}",
        b_offset=f"(int64_t)z * {gather.channels * gather.plane}",
        result_index=(
            f"n / {gather.pixels}",
            f"z * {rows} + m % {rows}",
            phases.pixel(f"(m / {rows})"),
        ),
        packings=((weight.read, _phase_packing(weight, groups, form, phases)),),
        block=_result_block(group, rows),
    )


def _phase_packing(weight: Operand, groups: int, form: Form, phases: Phases) -> str:
    """The packing of weights by phase and channel, each with the k of its dense convolution."""
    gather = phases.gather
    rows = weight.view.shape[1]
    channels = gather.channels
    step = STEP_BYTES // ELEMENT_BYTES[weight.dtype]
    steps = [f"reshape:{groups},{channels},{rows},{prod(weight.view.shape[2:])}", "pad:0,0,0,1"]
    steps += [f"take:3,{','.join(map(str, phases.taps))}"]
    if form is Form.BLOCKS and gather.taps > 1 and channels % step == 0:
        split = (groups, channels // step, step, rows, phases.count, gather.taps)
        steps += [f"reshape:{','.join(map(str, split))}", "transpose:0,4,3,1,5,2"]
    else:
        extra = gather.row - channels
        steps += [f"reshape:{groups},{channels},{rows},{phases.count},{gather.taps}"]
        steps += ["transpose:0,3,2,4,1", *([f"pad:0,0,0,0,{extra}"] if extra else [])]
    rest = f"reshape:{groups * phases.count * rows},{gather.row * gather.taps}"
    return "|".join([*steps, rest])


def _read_gather(
    group: Group, anchor: Node[int], channels: int, weight: Operand, source: Operand, form: Form
) -> Gather:
    """The im2col mapping of a convolution."""
    image, kernel = (group.values[i or 0].shape for i in anchor.inputs[:2])
    output = group.values[anchor.output].shape
    rank = len(image) - 2
    transposed = anchor.type == "ConvTranspose"
    strides, dilations = (list(anchor.attributes[name]) for name in ("strides", "dilations"))
    pads = anchor.attributes["pads"][:rank]
    pads = pads if transposed else operator_window(anchor, image, output, kernel[2:]).before
    taps = prod(kernel[2:])
    batch_stride, plane = _steps(source, form)
    many = channels >= TAP_CHANNELS or form is Form.BLOCKS
    return Gather(
        channels=channels,
        pixels=prod(output[2:]),
        image=batch_stride,
        plane=plane,
        taps=taps,
        row=channels if form is Form.BLOCKS else _tap_row(channels, weight),
        tap_major=taps == 1 or (weight.constant and many) or transposed,
        source=_triple(image[2:], 1),
        result=_triple(output[2:], 1),
        window=_triple(kernel[2:], 1),
        strides=_triple(strides, 1),
        pads=_triple(pads, 0),
        dilations=_triple(dilations, 1),
        transposed=transposed,
    )


def _steps(image: Operand, form: Form) -> tuple[int, int]:
    """The batch stride in elements, and the stride of channels, or of their blocks, in pixels."""
    shape = image.view.shape
    if form is Form.BLOCKS:
        outer, plane = block_steps(shape, image.block)
        return outer * image.block, plane
    plane = prod(shape[2:])
    return shape[1] * plane, plane


def _tap_row(channels: int, weight: Operand) -> int:
    """The k of one tap of an NCHW image: whole k-steps where that wastes little."""
    if not weight.constant:
        return channels
    steps = round_up(channels, STEP_BYTES // ELEMENT_BYTES[weight.dtype])
    return steps if steps <= channels * WASTE else round_up(channels, weight.chunk)


def _weight_packing(
    weight: Sequence[int], groups: int, gather: Gather, a_row: int, transposed: bool
) -> str:
    """The packing of weights with k contiguous: taps then channels, or channels then taps."""
    taps, channels = gather.taps, gather.channels
    rows = weight[1] * groups if transposed else weight[0]
    extra = gather.row - channels
    if transposed:
        steps = [f"reshape:{groups},{channels},{weight[1]},{taps}", "transpose:0,2,3,1"]
        steps += [f"pad:0,0,0,{extra}"] if extra else []
    elif gather.tap_major:
        steps = [f"reshape:{rows},{channels},{taps}", "transpose:0,2,1"] if taps > 1 else []
        steps = steps or [f"reshape:{rows},1,{channels}"]
        steps += [f"pad:0,0,{extra}"] if extra else []
    else:
        steps = [f"reshape:{rows},{channels * taps}"]
        steps += [f"pad:0,{a_row - channels * taps}"] if a_row > channels * taps else []
    return "|".join([*steps, f"reshape:{rows},{a_row}"])
