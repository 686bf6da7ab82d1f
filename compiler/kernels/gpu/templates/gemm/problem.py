"""Convolutions and matrix products as one problem: C[m][n] = sum of A[m][k] B[k][n] over k."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import prod

import numpy

from compiler.graph.channel_groups import filling_merges
from compiler.ir.layouts import block_steps
from compiler.kernels.gpu.operands import ELEMENT_BYTES, Operand, find_operand, reshaped
from compiler.kernels.group import Group, Operator
from compiler.kernels.ops.lowering import Context
from compiler.kernels.ops.windows import transposed_pads, window_of
from compiler.kernels.tir.matmul import Matmul, read_matmul

Triple = tuple[int, int, int]

TAP_CHANNELS = 16
"""From this many channels on, a plain image's taps come outermost in k, so that a step has one."""

STEP_BYTES = 128
"""Bytes along k that one step of a tile copies of each row of A."""

WASTE = 1.125
"""How much k may grow by padding a plain image's channels to whole steps."""

FEW_ROWS = 4
"""Up to this many rows a product is bound by reading its matrix, which then stays as it is."""


class Form(IntEnum):
    """How B lies in memory: contiguous in n, contiguous in k, or an image in channel blocks."""

    LINES = 0
    ROWS = 1
    BLOCKS = 2


@dataclass(frozen=True)
class Gather:
    """How B is read: a matrix is an image of one tap whose pixels are its columns.

    `row` is the number of k that one tap takes, when taps come outermost.
    """

    channels: int
    pixels: int
    image: int
    plane: int
    taps: int = 1
    row: int = 0
    tap_major: bool = True
    source: Triple = (1, 1, 1)
    result: Triple = (1, 1, 1)
    window: Triple = (1, 1, 1)
    strides: Triple = (1, 1, 1)
    pads: Triple = (0, 0, 0)
    dilations: Triple = (1, 1, 1)
    transposed: bool = False

    def contiguous(self, chunk: int) -> bool:
        """Whether columns at a multiple of a chunk lie beside each other in aligned memory."""
        plain = self.taps == 1 and not self.transposed and self.strides == (1, 1, 1)
        whole = self.pixels % chunk == 0 and self.plane % chunk == 0 and self.image % chunk == 0
        return plain and self.pads == (0, 0, 0) and whole


@dataclass(frozen=True)
class Problem:
    """`count` problems of one shape; `left` and `right` are the reads that hold A and B.

    A's rows begin `a_row` elements apart, B's `b_row` where it has the form ROWS. The offsets are C
    expressions of the problem's number z, the place (outer, row, column) of an element C
    expressions of z, m and n. `block` is how many rows lie together in the result, `vector` how
    many columns a thread stores together of a row-major one. `fetches` counts what the results
    depend on and is copied beforehand: blocks of their place, and of their row or column; `late`,
    where the stages lay, when these are done. `merged` is how many groups of a convolution are one,
    whose A has zeros beside their weights.
    """

    m: int
    n: int
    k: int
    count: int
    dtype: str
    form: Form
    a_row: int
    b_row: int
    left: int
    right: int
    gather: Gather
    a_offset: str
    b_offset: str
    place: tuple[str, str, str]
    packings: tuple[tuple[int, str], ...] = ()
    block: int = 0
    fetches: tuple[int, int] = (0, 0)
    vector: int = 0
    late: bool = False
    merged: int = 1

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of A and B."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def chunk(self) -> int:
        """Elements in 16 bytes."""
        return 16 // self.element_bytes

    @property
    def step(self) -> int:
        """Products of each element in one step of a tile."""
        return STEP_BYTES // self.element_bytes

    @property
    def together(self) -> int:
        """How many results a thread stores at once; 0 where they are single."""
        return self.block or self.vector

    @property
    def contiguous(self) -> bool:
        """Whether a line of B is copied 16 bytes at a time."""
        return self.gather.contiguous(self.chunk)

    @property
    def multiplications(self) -> int:
        """Multiply-adds of the operator, padding left out of account."""
        return self.count * self.m * self.n * self.k // self.merged


def round_up(number: int, multiple: int) -> int:
    """The smallest multiple that is not below a number."""
    return -(-number // multiple) * multiple


def read_problem(group: Group, anchor: Operator, merged: int = 1) -> Problem | None:
    """The problem of a contraction that multiplies reads of one type; None for any other.

    Of a convolution, as many groups as are `merged` become one.
    """
    used = [group.values[i] for i in (*anchor.inputs, *anchor.outputs) if i is not None]
    if {v.dtype for v in used} != {"float32"} or any(v.elements == 0 for v in used):
        return None
    first, second = (find_operand(group, i) for i in anchor.inputs[:2])
    if first is None or second is None or first.dtype != second.dtype:
        return None
    problem = None
    if anchor.type in ("MatMul", "Gemm"):
        problem = product_problem(group, anchor, first, second)
    if anchor.type in ("Conv", "ConvTranspose") and 3 <= len(used[0].shape) <= 5:
        problem = image_problem(group, anchor, second, first, merged)
    return problem and replace(problem, vector=_result_vector(group, problem))


def _result_vector(group: Group, problem: Problem) -> int:
    """How many columns fill 16 bytes of the first result, or half of them, where they can."""
    result, pixels = group.writes[0], problem.gather.pixels
    in_order = problem.place[2] in ("n", f"n % {pixels}")
    widths = (8, 4) if ELEMENT_BYTES.get(result.dtype) == 2 else (4,)
    fits = [width for width in widths if pixels % width == 0]
    return fits[0] if fits and in_order and not result.block else 0


def merges(group: Group, anchor: Operator) -> list[int]:
    """How many groups of a convolution to merge, so that they fill tensor cores.

    The fewest that fill the rows of a tile, and the fewest whose steps of k have one tap each,
    which are copied faster. Nothing for groups of one channel, or of weights that are computed.
    """
    image, weight = (find_operand(group, value) for value in anchor.inputs[:2])
    groups = anchor.attributes.get("group", 1)
    if anchor.type != "Conv" or image is None or weight is None or not weight.constant:
        return []
    rows, channels = weight.view.shape[0] // groups, weight.view.shape[1]
    step = STEP_BYTES // ELEMENT_BYTES[weight.dtype]
    fill = filling_merges(groups, rows, channels, weight.chunk)
    whole = [n for n in fill if n * channels % step == 0]
    found = {n for n in (*fill[:1], *whole[:1]) if n > 1}
    return sorted(found) if channels > 1 and image.block else []


def _triple(values: Sequence[int], missing: int) -> Triple:
    padded = [missing] * (3 - len(values)) + list(values)
    return padded[0], padded[1], padded[2]


def product_problem(
    group: Group, anchor: Operator, left: Operand, right: Operand
) -> Problem | None:
    """The problem of a matrix product; None when A is not contiguous in k."""
    product = read_matmul(group, anchor)
    if product is None or left.block or right.block:
        return None
    a, b = _matrices(product, left.view, right.view)
    if a is None or (a.strides[-1] != 1 and product.depth > 1):
        return None
    few = product.rows <= FEW_ROWS
    packing, form, stride = _right_matrix(b, right, few)
    if form is None:
        return None
    n, k = product.columns, product.depth
    return Problem(
        product.rows,
        n,
        k,
        prod(product.batch),
        left.dtype,
        form,
        a.strides[-2],
        stride,
        left.read,
        right.read,
        Gather(k, n, 0, stride, row=k, source=(1, 1, n), result=(1, 1, n)),
        _batch_offset(a, product.batch),
        _batch_offset(b, product.batch),
        ("z", "m", "n"),
        ((right.read, packing),) if right.constant and product.shared else (),
    )


def _matrices(
    product: Matmul, left: numpy.ndarray, right: numpy.ndarray
) -> tuple[numpy.ndarray | None, numpy.ndarray]:
    """Both operands as [..., M, K] and [..., K, N]; the left is None where no strides give it."""
    a = left.reshape(1, -1) if left.ndim == 1 else left
    b = right.reshape(-1, 1) if right.ndim == 1 else right
    a = a.swapaxes(-1, -2) if product.transposed[0] else a
    b = b.swapaxes(-1, -2) if product.transposed[1] else b
    return (reshaped(a, (product.rows, product.depth)) if product.shared else a), b


def _right_matrix(matrix: numpy.ndarray, right: Operand, few: bool) -> tuple[str, Form | None, int]:
    """How the right matrix is packed if it is constant, its form, and from line to line."""
    down, along = matrix.strides[-2:]
    depth, columns = matrix.shape[-2:]
    flipped = down == 1 and along != 1
    if right.constant and matrix.ndim == 2 and right.view.ndim <= 2:
        if few:
            flip = f"reshape:{columns},{depth}|transpose:1,0"
            return (flip if flipped else ""), Form.LINES, columns
        shape = [f"reshape:{columns},{depth}"] if flipped else [f"reshape:{depth},{columns}"]
        steps = shape if flipped else [*shape, "transpose:1,0"]
        extra = -depth % right.chunk
        steps += [f"pad:0,{extra}"] if extra else []
        return "|".join(steps), Form.ROWS, depth + extra
    if along == 1 or (columns == 1 and not flipped):
        return "", Form.LINES, down
    return ("", Form.ROWS, along) if down == 1 else ("", None, 0)


def _batch_offset(matrix: numpy.ndarray, batch: Sequence[int]) -> str:
    """Where an operand's matrix of problem z begins; its axes of one element broadcast."""
    terms: list[str] = []
    lead = matrix.ndim - 2 if batch else 0
    for axis in range(lead):
        if matrix.shape[axis] > 1:
            place = len(batch) - lead + axis
            index = f"z / {prod(batch[place + 1 :])} % {batch[place]}"
            terms.append(f"(int64_t)({index}) * {matrix.strides[axis]}")
    return " + ".join(terms) or "0"


def image_problem(
    group: Group, anchor: Operator, weight: Operand, image: Operand, merged: int = 1
) -> Problem | None:
    """The problem of a convolution, or of a transposed one whose weights are constant.

    Where groups are merged, infinities of one make all results of the others NaN.
    """
    shape, groups = image.view.shape, anchor.attributes.get("group", 1) // merged
    transposed = anchor.type == "ConvTranspose"
    output = group.values[anchor.outputs[0]]
    channels, rows = shape[1] // groups, output.shape[1] // groups
    form = _image_form(image, channels)
    narrow = groups > 1 and rows < (4 if form is Form.BLOCKS else 8)
    if narrow or form is None or weight.block or not weight.view.flags.c_contiguous:
        return None
    gather = _read_gather(group, anchor, channels, weight, image, form)
    if not weight.constant and (transposed or (form is Form.BLOCKS and gather.taps > 1)):
        return None
    if transposed and _separate_taps(gather):
        return _spread_problem(group, anchor, weight, image, gather)
    k = gather.row * gather.taps if gather.tap_major else channels * gather.taps
    a_row = round_up(k, weight.chunk) if weight.constant else k
    step = STEP_BYTES // ELEMENT_BYTES[weight.dtype]
    first, second, *window = weight.view.shape
    kernel = (first, second * merged, *window)
    if form is Form.BLOCKS and gather.taps > 1 and channels % step == 0:
        packing = _inner_taps(kernel, groups, gather, step, transposed)
    else:
        packing = _weight_packing(kernel, groups, gather, a_row, transposed)
    if merged > 1:
        packing = f"diagonal:{groups * merged},{merged}|{packing}"
    single = output.shape[0] == 1
    return Problem(
        rows,
        output.shape[0] * gather.pixels,
        a_row,
        groups,
        image.dtype,
        form,
        a_row,
        0,
        weight.read,
        image.read,
        gather,
        f"(int64_t)z * {rows * a_row}",
        f"(int64_t)z * {channels * gather.plane}",
        (
            "0" if single else f"n / {gather.pixels}",
            f"z * {rows} + m",
            "n" if single else f"n % {gather.pixels}",
        ),
        ((weight.read, packing),) if weight.constant else (),
        _result_block(group, rows),
        merged=merged,
    )


def pointwise_problem(group: Group, anchor: Operator, weight: Operand, image: Operand) -> Problem:
    """The problem of a pointwise convolution whose image a block computes from another one."""
    rows, channels = weight.view.shape[:2]
    output = group.values[anchor.outputs[0]].shape
    pixels, k = prod(output[2:]), round_up(channels, weight.chunk)
    gather = Gather(channels, pixels, channels * pixels, pixels, row=channels,
                    source=_triple(output[2:], 1), result=_triple(output[2:], 1))  # fmt: skip
    packing = _weight_packing(weight.view.shape, 1, replace(gather, row=k), k, False)
    place = (f"n / {pixels}", "m", f"n % {pixels}") if output[0] > 1 else ("0", "m", "n")
    sizes = (rows, output[0] * pixels, k, 1, weight.dtype, Form.BLOCKS, k, 0)
    return Problem(*sizes, weight.read, image.read, gather, "0", "0", place,
                   ((weight.read, packing),), _result_block(group, rows))  # fmt: skip


def _result_block(group: Group, rows: int) -> int:
    """How many rows lie together in the first result, where tiles do not cut them apart."""
    block = group.writes[0].block
    return block if block and rows % block == 0 else 0


def _image_form(image: Operand, channels: int) -> Form | None:
    """An image's form; None for one that cannot be read."""
    if not image.block:
        return Form.LINES if image.view.flags.c_contiguous else None
    return Form.BLOCKS if image.block == image.chunk and channels % image.chunk == 0 else None


def _separate_taps(gather: Gather) -> bool:
    """Whether each output of a transposed convolution has exactly one tap."""
    reached = tuple(s * t for s, t in zip(gather.source, gather.strides, strict=True))
    whole = gather.window == gather.strides and reached == gather.result
    return whole and gather.pads == (0, 0, 0) and gather.dilations == (1, 1, 1)


def _spread_problem(
    group: Group, anchor: Operator, weight: Operand, image: Operand, gather: Gather
) -> Problem:
    """A transposed convolution of separate taps: a product whose rows are taps, then channels."""
    groups, taps = anchor.attributes.get("group", 1), gather.taps
    rows, channels, pixels = weight.view.shape[1], gather.channels, prod(gather.source)
    form = Form.BLOCKS if image.block else Form.LINES
    k = round_up(channels, weight.chunk)
    packing = f"reshape:{groups},{channels},{rows},{taps}|transpose:0,3,2,1"
    packing += f"|pad:0,0,0,{k - channels}" if k > channels else ""
    return Problem(
        rows * taps,
        image.view.shape[0] * pixels,
        k,
        groups,
        image.dtype,
        form,
        k,
        0,
        weight.read,
        image.read,
        _pointwise(gather, k),
        f"(int64_t)z * {rows * taps * k}",
        f"(int64_t)z * {channels * gather.plane}",
        (f"n / {pixels}", f"z * {rows} + m % {rows}", _spread_pixel(gather, f"(m / {rows})")),
        ((weight.read, f"{packing}|reshape:{groups * rows * taps},{k}"),),
        _result_block(group, rows),
    )


def _pointwise(gather: Gather, row: int) -> Gather:
    source, pixels = gather.source, prod(gather.source)
    return Gather(
        gather.channels, pixels, gather.image, gather.plane, row=row, source=source, result=source
    )


def _spread_pixel(gather: Gather, tap: str) -> str:
    """The output pixel of a tap of input pixel n, as a C expression."""
    (_, high, wide), (_, b, c) = gather.source, gather.window
    pixel = f"(n % {prod(gather.source)})"
    depth = f"({pixel} / {high * wide} * {gather.window[0]} + {tap} / {b * c})"
    row = f"({pixel} / {wide} % {high} * {b} + {tap} / {c} % {b})"
    column = f"({pixel} % {wide} * {c} + {tap} % {c})"
    return f"({depth} * {high * b} + {row}) * {wide * c} + {column}"


def _read_gather(
    group: Group, anchor: Operator, channels: int, weight: Operand, source: Operand, form: Form
) -> Gather:
    image, kernel = (group.values[i or 0].shape for i in anchor.inputs[:2])
    output = group.values[anchor.outputs[0]].shape
    infos = tuple(None if i is None else group.values[i] for i in anchor.inputs)
    context = Context(anchor, (None,) * len(infos), infos, (group.values[anchor.outputs[0]],))
    rank, transposed = len(image) - 2, anchor.type == "ConvTranspose"
    strides, dilations = (
        list(anchor.attributes.get(name) or [1] * rank) for name in ("strides", "dilations")
    )
    pads = (
        transposed_pads(context, strides, dilations)
        if transposed
        else window_of(context, kernel[2:]).before
    )
    taps = prod(kernel[2:])
    apart, plane = _steps(source, form)
    many = channels >= TAP_CHANNELS or form is Form.BLOCKS
    major = taps == 1 or (weight.constant and many) or transposed
    return Gather(
        channels,
        prod(output[2:]),
        apart,
        plane,
        taps,
        channels if form is Form.BLOCKS else _tap_row(channels, weight),
        major,
        _triple(image[2:], 1),
        _triple(output[2:], 1),
        _triple(kernel[2:], 1),
        _triple(strides, 1),
        _triple(pads, 0),
        _triple(dilations, 1),
        transposed,
    )


def _steps(image: Operand, form: Form) -> tuple[int, int]:
    """Elements from one image to the next, and pixels from one channel, or block of them."""
    shape = image.view.shape
    if form is Form.BLOCKS:
        outer, plane = block_steps(shape, image.block)
        return outer * image.block, plane
    plane = prod(shape[2:])
    return shape[1] * plane, plane


def _tap_row(channels: int, weight: Operand) -> int:
    """How many k one tap of a plain image takes: whole steps where that wastes little."""
    if not weight.constant:
        return channels
    steps = round_up(channels, STEP_BYTES // ELEMENT_BYTES[weight.dtype])
    return steps if steps <= channels * WASTE else round_up(channels, weight.chunk)


def _weight_packing(
    weight: Sequence[int], groups: int, gather: Gather, a_row: int, transposed: bool
) -> str:
    """Lay weights out with k contiguous: taps then channels, or channels then taps."""
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


def _inner_taps(
    weight: Sequence[int], groups: int, gather: Gather, step: int, transposed: bool
) -> str:
    """Lay weights out with k contiguous: steps of channels, then taps, then a step's channels."""
    taps, steps = gather.taps, gather.channels // step
    if transposed:
        rows = weight[1] * groups
        moved = f"reshape:{groups},{steps},{step},{weight[1]},{taps}|transpose:0,3,1,4,2"
    else:
        rows, moved = weight[0], f"reshape:{weight[0]},{steps},{step},{taps}|transpose:0,1,3,2"
    return f"{moved}|reshape:{rows},{taps * gather.channels}"
