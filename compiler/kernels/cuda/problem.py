"""Convolutions and matrix products as one problem: C[m][n] = sum of A[m][k] B[k][n] over k."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compiler.kernels.contraction import transposed_pads
from compiler.kernels.group import Group, Operator
from compiler.kernels.lowering import Context
from compiler.kernels.pooling import window_of
from compiler.kernels.templates.matmul import read_product

Triple = tuple[int, int, int]

TAP_CHANNELS = 16
"""From this many channels on, a window's taps come outermost in k, so that a step has one tap."""

STEP = 32
"""Products of each element in one step of a tile."""

WASTE = 1.125
"""How much k may grow by padding the channels to whole steps."""


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

    @property
    def contiguous(self) -> bool:
        """Whether four columns at a multiple of four lie beside each other in memory."""
        plain = self.taps == 1 and not self.transposed and self.strides == (1, 1, 1)
        return plain and self.pads == (0, 0, 0) and self.pixels % 4 == 0


@dataclass(frozen=True)
class Problem:
    """`count` problems of one shape; `left` and `right` are the reads that hold A and B.

    A's rows have `a_row` elements. The offsets are C expressions of the problem's number z, the
    place (outer, row, column) of an element C expressions of z, m and n.
    """

    m: int
    n: int
    k: int
    count: int
    a_row: int
    left: int
    right: int
    gather: Gather
    a_offset: str
    b_offset: str
    place: tuple[str, str, str]
    packings: tuple[tuple[int, str], ...] = ()

    @property
    def multiplications(self) -> int:
        """Multiply-adds, padding left out of account."""
        return self.count * self.m * self.n * self.k


def round_up(number: int, multiple: int) -> int:
    """The smallest multiple that is not below a number."""
    return -(-number // multiple) * multiple


def read_problem(group: Group, anchor: Operator) -> Problem | None:
    """The problem of a contraction in float32 whose operands are reads; None for any other."""
    used = [group.values[i] for i in (*anchor.inputs, *anchor.outputs) if i is not None]
    if {v.dtype for v in used} != {"float32"} or any(v.elements == 0 for v in used):
        return None
    if any(i is None or i >= group.inputs for i in anchor.inputs[:2]):
        return None
    if any(group.values[i].block for i in anchor.inputs[:2] if i is not None):
        return None
    if anchor.type in ("MatMul", "Gemm"):
        return product_problem(group, anchor)
    if anchor.type in ("Conv", "ConvTranspose") and 3 <= len(used[0].shape) <= 5:
        return image_problem(group, anchor)
    return None


def _is_weight(group: Group, value: int) -> bool:
    return group.weights[value] and len(group.users(value)) == 1


def _triple(values: Sequence[int], missing: int) -> Triple:
    padded = [missing] * (3 - len(values)) + list(values)
    return padded[0], padded[1], padded[2]


def product_problem(group: Group, anchor: Operator) -> Problem | None:
    """The problem of a matrix product; None when an operand is transposed and no weight."""
    product = read_product(group, anchor)
    left, right = anchor.inputs[:2]
    if product is None or product.transposed[0]:
        return None
    flip = product.transposed[1]
    if flip and not _is_weight(group, right):
        return None
    n, k = product.columns, product.depth
    return Problem(
        product.rows,
        n,
        k,
        prod(product.batch),
        k,
        left,
        right,
        Gather(k, n, 0, n, row=round_up(k, STEP), source=(1, 1, n), result=(1, 1, n)),
        _batch_offset(product.left, product.batch, product.shared),
        _batch_offset(product.right, product.batch, product.shared),
        ("z", "m", "n"),
        ((right, "transpose:1,0"),) if flip else (),
    )


def _batch_offset(shape: Sequence[int], batch: Sequence[int], shared: bool) -> str:
    """Where an operand's matrix of problem z begins; its axes of one element broadcast."""
    lead = shape[:-2]
    if shared or not lead:
        return "0"
    terms: list[str] = []
    for axis, extent in enumerate(lead):
        if extent > 1:
            step = prod(shape[axis + 1 :])
            place = len(batch) - len(lead) + axis
            terms.append(f"(int64_t)(z / {prod(batch[place + 1 :])} % {batch[place]}) * {step}")
    return " + ".join(terms) or "0"


def image_problem(group: Group, anchor: Operator) -> Problem | None:
    """The problem of a convolution, or of a transposed one whose weights are constant."""
    image, weight = (group.values[i].shape for i in anchor.inputs[:2])
    output, groups = group.values[anchor.outputs[0]].shape, anchor.attributes.get("group", 1)
    transposed, constant = anchor.type == "ConvTranspose", _is_weight(group, anchor.inputs[1])
    channels, rows = image[1] // groups, output[1] // groups
    if (transposed and not constant) or (groups > 1 and rows < 8):
        return None
    gather = _read_gather(group, anchor, channels, constant)
    k = gather.row * gather.taps if gather.tap_major else channels * gather.taps
    a_row = round_up(k, 4) if constant else k
    packing = _weight_packing(weight, groups, gather, a_row, transposed) if constant else ""
    return Problem(
        rows,
        output[0] * gather.pixels,
        a_row,
        groups,
        a_row,
        anchor.inputs[1],
        anchor.inputs[0],
        gather,
        f"(int64_t)z * {rows * a_row}",
        f"(int64_t)z * {channels * gather.plane}",
        (f"n / {gather.pixels}", f"z * {rows} + m", f"n % {gather.pixels}"),
        ((anchor.inputs[1], packing),),
    )


def _read_gather(group: Group, anchor: Operator, channels: int, constant: bool) -> Gather:
    image, weight = (group.values[i].shape for i in anchor.inputs[:2])
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
        else window_of(context, weight[2:]).before
    )
    taps, plane = prod(weight[2:]), prod(image[2:])
    major = taps == 1 or (constant and channels >= TAP_CHANNELS) or transposed
    return Gather(
        channels,
        prod(output[2:]),
        image[1] * plane,
        plane,
        taps,
        _tap_row(channels, constant),
        major,
        _triple(image[2:], 1),
        _triple(output[2:], 1),
        _triple(weight[2:], 1),
        _triple(strides, 1),
        _triple(pads, 0),
        _triple(dilations, 1),
        transposed,
    )


def _tap_row(channels: int, constant: bool) -> int:
    """How many k one tap takes: whole steps where that wastes little."""
    if not constant:
        return channels
    steps = round_up(channels, STEP)
    return steps if steps <= channels * WASTE else round_up(channels, 4)


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
