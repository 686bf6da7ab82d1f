"""Attention: the tiles and the bands of its kernels."""

from collections.abc import Sequence
from dataclasses import replace
from math import lcm, prod

from compiler.graph.attention import Attention
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.core import Core, core_of
from compiler.kernels.cpu.machine import second_cache_bytes
from compiler.kernels.cpu.templates.anchors import AnchorTemplate, Loops, Ways
from compiler.kernels.cpu.templates.attention_nest import AttentionNest
from compiler.kernels.cpu.templates.sized_attention import SizedAttentionNest
from compiler.kernels.cpu.tiling import PricedTile, matmul_tiles, near, sampled
from compiler.kernels.group import Group, Node
from compiler.kernels.sizes import at_hint, is_number
from compiler.kernels.tir.attention import attention_of, score_context
from compiler.kernels.tir.loops import buffer
from compiler.target.target import CpuTarget
from compiler.tensors.strides import StridedWindow

SCORES_SHARE = 4
"""The part of the second-level cache that a band's scores fill: K and V stream through it."""

BAND_ROWS = 64
"""The most rows of a band, where more gain nothing."""

SOFTMAX_ROW_SLOTS = 30
"""Slots of beginning and ending the loops over a row's scores."""

SCORE_SLOTS = 24
"""Slots of a vector of scores from Q K^T to the weights."""

MOST_TILE_STEPS = 100
"""The most multiply-adds in the code of all tiles of rows over symbols, of each rest one."""

TILE_SAMPLES = 6
"""The lengths for which a tile of scores over symbols is judged."""


class FusedAttention(AnchorTemplate[None]):
    """A group that is exactly one attention."""

    name = "attention"
    types = ("Softmax",)
    takes_symbols = True

    def read(self, group: Group, anchor: Node[int], target: CpuTarget) -> Ways[None] | None:
        """The likeliest tiles."""
        attention = attention_of(group)
        if attention is None or not attention.is_plain(group):
            return None
        nest = attention_nest(group, attention, core_of(target), second_cache_bytes(target))
        return Ways(
            around=nest.around,
            flops=2 * at_hint(attention.sizes.multiplications),
            slots={None: at_hint(prod(attention.batch)) * nest.slots},
            loops=lambda _: Loops(nest.launches),
        )


def attention_nest(
    group: Group, attention: Attention, core: Core, cache_bytes: int
) -> "AttentionNest":
    """The nest of an attention with the tiles and the band that are likely fast."""
    windows = attention.query.window, attention.value.window
    sized = len(group.symbols) > 0
    (rows, _), (keys, width) = (map(at_hint, window.shape[-2:]) for window in windows)
    beside_scores = replace(core, near_bytes=core.near_bytes // 2)
    first, slots = shortest(score_tiles(windows, beside_scores), sized)
    most = min(BAND_ROWS, cache_bytes // SCORES_SHARE // (keys * 4))
    most = max(most, first.rows)
    fitting = [
        (tile, cost)
        for tile, cost in matmul_tiles(rows, width, keys, core, True)
        if (rows <= most and not sized) or lcm(first.rows, tile.rows) <= most
    ]
    second, more = shortest(fitting, sized)
    step = lcm(first.rows, second.rows)
    around = score_context(group, attention)
    around.writes = [buffer("result", group.writes[0].elements, group.writes[0].dtype)]
    softmax = rows * (SOFTMAX_ROW_SLOTS + SCORE_SLOTS * ceil_div(keys, core.lanes))
    return (SizedAttentionNest if sized else AttentionNest)(
        group=group,
        attention=attention,
        around=around,
        tiles=(first, second),
        lanes=core.lanes,
        near_bytes=core.near_bytes,
        band=rows if rows <= most and not sized else most // step * step,
        slots=slots + more + softmax,
    )


def score_tiles(windows: tuple[StridedWindow, StridedWindow], core: Core) -> list[PricedTile]:
    """The tiles of Q K^T, the fastest first: over symbols, for several lengths about the hint's."""
    (rows, depth), (keys, _) = (map(at_hint, window.shape[-2:]) for window in windows)
    tiles = matmul_tiles(rows, keys, depth, core, True)
    if is_number(windows[0].shape[-2]) and is_number(windows[1].shape[-2]):
        return tiles
    samples = (
        matmul_tiles(near(rows, i), near(keys, i), depth, core, True) for i in range(TILE_SAMPLES)
    )
    return sampled(tiles, samples)


def shortest(tiles: Sequence[PricedTile], sized: bool) -> PricedTile:
    """The fastest tile; of rows over symbols among those whose code is short, if there are any."""
    steps = (own[0].rows * (own[0].rows + 1) // 2 * own[0].vectors for own in tiles)
    short = [own for own, count in zip(tiles, steps, strict=True) if count <= MOST_TILE_STEPS]
    return short[0] if sized and short else tiles[0]
