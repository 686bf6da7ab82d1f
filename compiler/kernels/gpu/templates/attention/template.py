"""Fused attention as one CUDA kernel: the text of its problem around attention.cuh."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, product
from math import e, log2, prod
from typing import Any

from tvm.ir import PrimType, Var
from tvm.tirx import Div, FloatImm, Mul

from compiler.errors import KernelError
from compiler.graph.attention import Attention, find_attentions
from compiler.graph.strides import Window
from compiler.graph.windows import MATRIX, Operand
from compiler.kernels.gpu.epilogue import StoreFunction, c_type, value_function, value_struct
from compiler.kernels.gpu.recorded import recorded
from compiler.kernels.gpu.scheduled import CudaKernel
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.gemm.tiles import REGISTERS, RESERVED, ceil_div
from compiler.kernels.group import Group
from compiler.kernels.ops.lowering import unflatten_index
from compiler.kernels.tir.loops import variable
from compiler.kernels.tir.surroundings import Surroundings
from compiler.schedule import Launch
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.target.target import GpuTarget

PIECE = 16
"""Rows, and keys, of the smallest piece that tensor cores multiply."""

WARPS = 8
"""Most warps of a block of one tile of rows; blocks of two tiles have half as many."""

FEWEST = 4
"""Fewest warps, even for fewer pieces of keys: all of them bring the shares together."""

MOST = 16
"""Most warps of any block of bands: more leave each thread too few registers."""

BANDS = (2, 4, 8)
"""Bands of a block where there are many rows."""

ROOM = 64
"""Columns of the largest head of which registers hold two tiles."""

FOUR, EIGHT = 4, 8
"""Elements of two bytes, or of four, that are read or copied at once."""

STAGED = (
    (2, 1, 4, 32), (1, 1, 4, 64), (1, 1, 8, 64), (1, 1, 4, 32), (1, 2, 4, 64), (1, 4, 2, 64),
    (1, 2, 4, 32), (1, 4, 4, 32), (1, 4, 2, 32), (2, 2, 4, 32),
)  # fmt: skip
"""Tiles, warps, most bands and keys of a piece of staged blocks, the likeliest first."""

STAGED_ROWS, STAGED_KEYS = 3, 192
"""Tiles of rows for each processor from which on staged blocks were the faster.

One for each is enough where there are more than so many keys.
"""

OTHERS, MASKS = 40, 16
"""Registers of a thread of a staged block beside what it multiplies, and for masks of scores."""

MOST_REGISTERS, SPARE = 255, 23
"""Registers that a thread can have, and how many of them the compiler may need unforeseen."""

AHEAD = 2
"""Rounds of keys that are copied before they are used, where shared memory has no room for all."""

STAGED_BYTES = 72 << 10
"""Shared memory of a block that keeps all keys, so that a processor has three."""


@dataclass(frozen=True)
class Block:
    """Tiles of 16 rows of a band, the warps that share their keys, and the bands of a block.

    All bands of a staged block see what lies in shared memory, each warp pieces of so many keys.
    """

    tiles: int
    warps: int
    bands: int = 1
    staged: int = 0

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return PIECE * self.tiles * self.bands

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps * self.bands

    @property
    def round(self) -> int:
        """Keys that a staged block copies at once."""
        return self.warps * self.staged


def attention_kernel(
    group: Group, target: GpuTarget, block: Block | None = None
) -> CudaKernel | None:
    """The kernel of a group that is one attention and nothing else; None for one without any.

    A block goes through its columns in order: the same bits every time. Raises KernelError for an
    attention of other operands, for which no other kernel is fit.
    """
    attention = attention_of(group)
    if attention is None:
        if find_attentions(group):
            raise KernelError(
                f"{group.describe()} holds an attention that does not read its operands as they"
                " lie: leave fuse-attention out of the pipeline"
            )
        return None
    stages = can_stage(group, attention, target)
    block = block or tuned_block(attention, target, stages)
    if block.staged and not _in_pairs(group, attention, target):
        raise KernelError(f"{group.describe()} has operands that {block} cannot keep in pieces")
    return _Emitter(group, attention, target, block).kernel()


def attention_of(group: Group) -> Attention | None:
    """The attention that a group consists of, if its operands are reads as they lie."""
    found = find_attentions(group)
    if len(found) != 1 or len(found[0].operators) != len(group.operators):
        return None
    attention = found[0]
    sources = (attention.query, attention.key, attention.value)
    places = [*(operand.source for operand in sources), attention.result.source]
    inside = group.outputs != (places[-1],) or max(places[:-1]) >= group.inputs
    if inside or any(group.values[place].block for place in places):
        return None
    return attention


def can_stage(group: Group, attention: Attention, target: GpuTarget) -> bool:
    """Whether blocks copy Q, K and V to shared memory as they lie, 16 bytes at a time."""
    windows = [operand.window for operand in (attention.query, attention.key, attention.value)]
    whole = all(in_chunks(x, i, EIGHT) for x, i in zip(windows, (-1, -2, -1), strict=True))
    copied = target.has_async_copy
    return whole and copied and _in_pairs(group, attention, target)


def _in_pairs(group: Group, attention: Attention, target: GpuTarget) -> bool:
    """Whether Q, K and V lie in memory as tensor cores read them, two elements a register."""
    multiplied = {"fp16": "float16", "bf16": "bfloat16"}.get(target.precision)
    operands = (attention.query, attention.key, attention.value)
    return {group.values[operand.source].dtype for operand in operands} == {multiplied}


def choose_block(attention: Attention, target: GpuTarget, stages: bool = False) -> Block:
    """One tile of rows a block, two where that still gives every processor two blocks.

    Where there are many rows, each warp has rows of its own. Warps share keys in shared memory
    where they can, if there are many rows, or fewer of more keys.
    """
    rows = attention.query.window.shape[-2]
    columns = attention.value.window.shape[-2]
    tiles_of_rows = prod(attention.batch) * ceil_div(rows, PIECE)
    many = tiles_of_rows > 2 * target.device.sms
    staged = _staged(attention, target) if stages else iter(())
    if tiles_of_rows >= BANDS[-1] * target.device.sms:
        return next(staged, Block(1, 1, BANDS[-1]))
    enough = STAGED_ROWS if columns <= STAGED_KEYS else 1
    if tiles_of_rows > enough * target.device.sms:
        staged = (block for block in staged if block.tiles == 1)
        if block := next(staged, None):
            return block
    tiles = 2 if _fits_two(attention, target) and many else 1
    return Block(tiles, max(FEWEST, min(ceil_div(columns, PIECE), WARPS // tiles)))


def _fits_two(attention: Attention, target: GpuTarget) -> bool:
    """Whether registers hold two tiles of rows."""
    depth, width = attention.query.window.shape[-1], attention.value.window.shape[-1]
    return target.precision != "fp32" and max(depth, width) <= ROOM


def candidates(attention: Attention, target: GpuTarget, stages: bool = False) -> Iterator[Block]:
    """The blocks that fit shared memory, and have no warp without keys; the chosen one first.

    With `stages`, which `can_stage` tells, staged ones are among them, in place of those whose
    warps have two tiles of their own: registers hold no keys beside these.
    """
    found = [choose_block(attention, target, stages)]
    if stages:
        found += _staged(attention, target)
    most = max(FEWEST, ceil_div(attention.value.window.shape[-2], PIECE))
    for tiles in (1, 2) if _fits_two(attention, target) else (1,):
        for warps in (FEWEST, 6, WARPS, 12):
            block = Block(tiles, warps)
            small = warps <= min(most, MOST // tiles)
            if small and shared_bytes(attention, block) <= target.shared_bytes:
                found.append(block)
    bands = _bands(attention, target)
    yield from dict.fromkeys([*found, *(x for x in bands if not stages or x.tiles <= x.warps)])


def _bands(attention: Attention, target: GpuTarget) -> Iterator[Block]:
    """The blocks of several bands that have rows for each of them."""
    for tiles, warps, bands in product((1, 2), (1, 2), BANDS):
        block = Block(tiles, warps, bands)
        needed = attention.query.window.shape[-2] > block.rows - PIECE * tiles
        shared = shared_bytes(attention, block)
        small = tiles * warps * bands <= MOST and shared <= DEFAULT_SHARED_BYTES
        if needed and small and (tiles == 1 or _fits_two(attention, target)):
            yield block


def _staged(attention: Attention, target: GpuTarget) -> Iterator[Block]:
    """The staged blocks that fit, whose bands have tiles of rows as even as they can."""
    rows, columns = attention.query.window.shape[-2], attention.value.window.shape[-2]
    for tiles, warps, bands, keys in STAGED:
        pieces = ceil_div(rows, PIECE * tiles)
        block = Block(tiles, warps, ceil_div(pieces, ceil_div(pieces, bands)), keys)
        fits = shared_bytes(attention, block) <= target.shared_bytes
        busy = block.bands > 1 and columns > (warps - 1) * keys
        most = min(MOST_REGISTERS, REGISTERS // block.threads) - SPARE
        if busy and fits and _registers(attention, block) <= most:
            yield block


def tuned_block(attention: Attention, target: GpuTarget, stages: bool = False) -> Block:
    """The block that was measured to be fastest, or else should be."""
    entry = recorded(attention_key(attention, target), target)
    fits = {*candidates(attention, target, stages)} if entry else set[Block]()
    blocks = (Block(*each.tile) for each in entry.ranked) if entry else ()
    found = next((block for block in blocks if block in fits), None)
    return found or choose_block(attention, target, stages)


def attention_key(attention: Attention, target: GpuTarget) -> str:
    """What decides the speed of a problem's blocks; how scores are masked is left out."""
    windows = [x.window for x in (attention.query, attention.key, attention.value)]
    shapes = [(*window.shape[-2:], *map(window.stride, MATRIX)) for window in windows]
    sizes = (target.precision, prod(attention.batch), *shapes)
    return json.dumps(("attention", *sizes), separators=(",", ":"))


def shared_bytes(attention: Attention, block: Block) -> int:
    """Shared memory of a block: its pieces of K and V, or what each warp saw of its rows."""
    if block.staged:
        return max(_line_bytes(attention) * _kept(attention, block), _seen_bytes(attention, block))
    rows = block.warps * block.rows
    line = ceil_div(attention.value.window.shape[-1], 32) * 32 + 4
    return 4 * rows * (line + 2)


def _line_bytes(attention: Attention) -> int:
    """Shared memory of a key and its value, each in chunks of 16 bytes and one more."""
    return sum(16 * (2 * ceil_div(size, PIECE) + 1) for size in _heads(attention))


def _seen_bytes(attention: Attention, block: Block) -> int:
    """What the warps of a staged block that share rows show to the first of them."""
    floats = 8 * ceil_div(_heads(attention)[1], PIECE) + 4
    return 4 * 32 * block.bands * (block.warps - 1) * block.tiles * floats


def _heads(attention: Attention) -> tuple[int, int]:
    """The columns of Q and K, and of V."""
    return attention.query.window.shape[-1], attention.value.window.shape[-1]


def _ahead(attention: Attention, block: Block) -> int:
    """How many rounds of keys are copied before one is used: all, where they have room."""
    columns = attention.value.window.shape[-2]
    kept = ceil_div(columns, PIECE) * PIECE
    room = _line_bytes(attention) * kept <= STAGED_BYTES
    return ceil_div(columns, block.round) if room else AHEAD


def _kept(attention: Attention, block: Block) -> int:
    """The keys that have room in shared memory."""
    columns, ahead = attention.value.window.shape[-2], _ahead(attention, block)
    most = ceil_div(columns, PIECE) * PIECE
    return most if ceil_div(columns, block.round) <= ahead else (ahead + 1) * block.round


def _registers(attention: Attention, block: Block) -> int:
    """About how many registers a thread of a staged block needs.

    What masks the scores of a second tile takes as many again.
    """
    depth, width = (ceil_div(n, PIECE) for n in _heads(attention))
    scores = block.staged // 2 * (block.tiles if attention.scores else 1)
    others = OTHERS + MASKS if attention.scores else OTHERS
    return others + block.tiles * (4 * depth + 8 * width + scores)


def _together(attention: Attention, block: Block, target: GpuTarget) -> int:
    """How many staged blocks a processor has registers and shared memory for.

    Each of its four parts takes whole warps.
    """
    warps = REGISTERS // (32 * ceil_div(_registers(attention, block), 8) * 8) // 4 * 4
    shared = (target.shared_bytes + RESERVED) // (shared_bytes(attention, block) + RESERVED)
    return max(1, min(warps // (block.bands * block.warps), shared))


@dataclass(frozen=True)
class _Emitter:
    """Writes the CUDA text of one attention."""

    group: Group
    attention: Attention
    target: GpuTarget
    block: Block

    def kernel(self) -> CudaKernel:
        """The whole kernel."""
        (score, scale), name = self._score(), f"{self.group.name}_0"
        sources = tuple(operand.source for operand in self._operands()[:3])
        text = "\n".join(
            [
                header("instructions"),
                header("attention"),
                *([header("staged")] if self.block.staged else []),
                score.text,
                self._constants(scale),
                value_struct("Score", score, "int outer, int row, int column, float product"),
                self._function(name, score),
            ]
        )
        arguments = (*sources, len(self.group.reads), *score.arguments)
        rows = self.attention.query.window.shape[-2]
        grid = (ceil_div(rows, self.block.rows), prod(self.attention.batch), 1)
        shared = shared_bytes(self.attention, self.block)
        launch = Launch(name, arguments, grid, (self.block.threads, 1, 1), shared)
        return CudaKernel(text, (launch,), flops=2 * self.attention.multiplications)

    def _score(self) -> tuple[StoreFunction, float]:
        """What the softmax sees of one product; by how much it is larger, if nothing else, or 0."""
        attention, operators = self.attention, self.group.operators
        first = operators[attention.first]
        seen = operators[attention.softmax].inputs[0]
        assert seen is not None
        left_out = {attention.softmax, attention.second, *attention.result.operators}
        kept = tuple(op for i, op in enumerate(operators) if i not in left_out)
        around = Surroundings(replace(self.group, operators=kept, outputs=(seen,)), first)
        z, row, column = place = [variable(name) for name in ("outer", "row", "column")]
        value = Var("value", PrimType("float32"))
        at = [*unflatten_index(z, self.attention.batch), row, column]
        score = around.result(value, at)
        name = f"{self.group.name}_score"
        function = value_function(name, around, score, [*place, value], self.target)
        return function, _scale(score, value)

    def _function(self, name: str, score: StoreFunction) -> str:
        types = [c_type(self.group.values[o.source].dtype) for o in self._operands()]
        names = [f"buffer{i}" for i in range(len(score.types))]
        given = [f"const {kind}* {letter}" for letter, kind in zip("qkv", types, strict=False)]
        given += [f"{types[3]}* o"]
        given += [f"{kind}* {own}" for kind, own in zip(score.types, names, strict=True)]
        form, bounds = "attend", f"{self.block.threads}"
        if self.block.staged:
            form, bounds = (
                "attend_staged",
                f"{bounds}, {_together(self.attention, self.block, self.target)}",
            )
        return (
            f'extern "C" __global__ void __launch_bounds__({bounds})'
            f" {name}({', '.join(given)}) {{\n"
            f"  {form}<Problem>(q, k, v, o, Score{{{', '.join(names)}}});\n}}\n"
        )

    def _operands(self) -> tuple[Operand, Operand, Operand, Operand]:
        attention = self.attention
        return attention.query, attention.key, attention.value, attention.result

    def _constants(self, scale: float) -> str:
        attention = self.attention
        rows, depth = attention.query.window.shape[-2:]
        columns, width = attention.value.window.shape[-2:]
        precisions = {"fp32": "FP32", "tf32": "TF32", "fp16": "FP16", "bf16": "BF16"}
        scalars: dict[str, Any] = {
            "ROWS": rows,
            "COLUMNS": columns,
            "DEPTH": depth,
            "WIDTH": width,
            "PRECISION": precisions[self.target.precision],
            "TILES": self.block.tiles,
            "WARPS": self.block.warps,
            "BANDS": self.block.bands,
            "PAIRS": int(_in_pairs(self.group, attention, self.target)),
        }
        wide: dict[str, bool] = {}
        strides: dict[str, int] = {}
        for letter, operand in zip("QKVO", self._operands(), strict=True):
            row, column = map(operand.window.stride, MATRIX)
            strides |= {f"{letter}_ROW": row, f"{letter}_COLUMN": column}
            inner = -2 if letter == "K" else -1
            wide[letter] = in_chunks(operand.window, inner, FOUR)
            if self.block.staged:
                scalars[f"{letter}_EIGHTS"] = int(in_chunks(operand.window, inner, EIGHT))
        scalars |= {f"{letter}_WIDE": int(value) for letter, value in wide.items()}
        factor = attention.query.factor * attention.key.factor
        slope = factor * scale
        if self.block.staged:
            ahead = _ahead(attention, self.block)
            scalars |= {"KEYS": self.block.staged, "AHEAD": ahead, "PLAIN": int(slope > 0)}
        lines = [f"  static constexpr int {name} = {value};" for name, value in scalars.items()]
        lines += [f"  static constexpr int64_t {name} = {n};" for name, n in strides.items()]
        lines.append(f"  static constexpr float FACTOR = {float(factor).hex()}f;")
        if self.block.staged:
            slope = log2(e) * (slope if slope > 0 else 1)
            lines.append(f"  static constexpr float SLOPE = {slope.hex()}f;")
        lines += [
            f"  __device__ static __forceinline__ int64_t {letter}_offset(int z)"
            f" {{ return {batch_offset(operand.window)}; }}"
            for letter, operand in zip("qkvo", self._operands(), strict=True)
        ]
        return "\n".join(["struct Problem {", *lines, "};", ""])


def _scale(score: Any, value: Var) -> float:
    """By how much a score is larger than its product, if nothing else decides it; else 0."""
    if score.same_as(value):
        return 1.0
    if isinstance(score, Mul | Div) and score.a.same_as(value) and isinstance(score.b, FloatImm):
        other = float(score.b.value)
        return other if isinstance(score, Mul) else 1 / other if other else 0.0
    return 0.0


def in_chunks(window: Window, inner: int, size: int) -> bool:
    """Whether an axis can be read by `size` elements wherever the buffer is aligned so."""
    others = [axis for axis in range(-len(window.axes), 0) if axis != inner]
    steps = [stride for axis in others for _, stride in window.axes[axis]]
    whole = all(step % size == 0 for step in (*steps, window.offset, window.shape[inner]))
    return window.stride(inner) == 1 and whole


def batch_offset(window: Window) -> str:
    """Where problem z of a window begins, as a C expression."""
    terms, inner = [str(window.offset)] if window.offset else [], prod(window.shape[:-2])
    for extent, stride in chain.from_iterable(window.axes[:-2]):
        inner //= extent
        if stride:
            terms.append(f"(int64_t)(z / {inner} % {extent}) * {stride}")
    return " + ".join(terms) or "0"
