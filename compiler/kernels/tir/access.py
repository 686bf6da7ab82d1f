"""The reads and writes of a scheduled function's blocks, as the generic schedule needs them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import tvm_ffi
from tvm import s_tir
from tvm.ir import Var
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.sym import detect_linear_equation
from tvm.tirx import IntImm, SeqStmt

from compiler.kernels.ops.reducers import ALONG_MEMORY
from compiler.kernels.sizes import at_hint, extent_from, is_long, tensor_extents
from compiler.tensors.extents import Extent

SECTOR = 8
"""Elements of 32 bits that a GPU's memory moves at once."""


@dataclass(frozen=True)
class BlockFacts:
    """A block's axes, spatial ones first, and how its reads depend on them.

    `used` and `direct` say for each buffer read which axes appear in its index at all, and which
    are an index by themselves. `accesses` lists each index as its axes (None when it is not a
    plain axis) with the buffer's extents.
    """

    name: str
    buffer: str
    extents: tuple[Extent, ...]
    spatial: int
    reduces: bool
    output: bool
    reduce_inner: bool = False
    used: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    direct: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    accesses: tuple[tuple[tuple[int | None, ...], tuple[Extent, ...], frozenset[int]], ...] = ()

    def count(self, axes: Iterable[int]) -> int:
        """The iterations over some axes, for the example sizes: for costs."""
        return prod(at_hint(self.extents[axis]) for axis in axes)

    @property
    def reduced(self) -> range:
        """The axes that are reduced."""
        return range(self.spatial, len(self.extents))


def loop_extent(schedule: s_tir.Schedule, loop: LoopRV) -> Any:
    """The extent of a loop."""
    return extent_from(schedule.get(loop).extent)


def axis_values(schedule: s_tir.Schedule, innermost: LoopRV) -> list[Any]:
    """The values of the axes of the block in a loop, or of the first of several."""
    body: Any = schedule.get(innermost).body
    first: Any = body.seq[0] if isinstance(body, SeqStmt) else body
    return list(first.iter_values)


def variables_in(expression: Any) -> list[Any]:
    """The variables of an index."""
    variables: list[Any] = []
    tvm_ffi.structural_walk(expression, (Var, variables.append), order="pre")
    return variables


def facts(schedule: s_tir.Schedule, block: SBlockRV) -> BlockFacts:
    """Read what a block does."""
    node = schedule.get(block)
    axes = {v.var: i for i, v in enumerate(node.iter_vars)}
    kinds = [int(v.iter_type) for v in node.iter_vars]
    params = list(schedule.mod["main"].params)
    spatial = kinds.count(0)
    used: dict[str, frozenset[int]] = {}
    direct: dict[str, frozenset[int]] = {}
    accesses: list[Any] = []
    last: set[int] = set()
    for region in node.reads:
        name = region.source.name
        index = [r.min for r in region.region]
        plain = tuple(axes.get(i) if isinstance(i, Var) else None for i in index)
        seen = [frozenset(axes[v] for v in variables_in(i) if v in axes) for i in index]
        every = frozenset[int]().union(*seen)
        used[name] = used.get(name, frozenset()) | every
        bare = frozenset(axis for axis in plain if axis is not None)
        direct[name] = direct.get(name, bare) & bare
        accesses.append((plain, tensor_extents(region.source), every))
        last |= _last_long(seen, region.source.shape)
    written = node.writes[0].source
    extents = tuple(extent_from(v.dom.extent) for v in node.iter_vars)
    long = [axis for axis in range(spatial) if is_long(extents[axis])]
    return BlockFacts(
        name=node.name_hint,
        buffer=written.name,
        extents=extents,
        spatial=spatial,
        reduces=2 in kinds,
        output=any(r.source.same_as(p) for r in node.writes for p in params),
        reduce_inner=ALONG_MEMORY in node.annotations or not long or long[-1] not in last,
        used=used,
        direct=direct,
        accesses=tuple(accesses),
    )


def _last_long(seen: Sequence[frozenset[int]], shape: Sequence[Any]) -> frozenset[int]:
    """The axes in the innermost index of a buffer that is longer than one."""
    long = [axes for axes, extent in zip(seen, shape, strict=True) if is_long(extent_from(extent))]
    return long[-1] if long else frozenset()


def terms_are_adjacent(schedule: s_tir.Schedule, block: SBlockRV) -> bool:
    """Whether terms of adjacent reductions are in one sector of memory, of any tensor."""
    node = schedule.get(block)
    spatial = [v.var for v in node.iter_vars if int(v.iter_type) == 0]
    long = [
        v for v in node.iter_vars if int(v.iter_type) == 0 and is_long(extent_from(v.dom.extent))
    ]
    for region in node.reads:
        index = [
            part.min
            for part, extent in zip(region.region, region.source.shape, strict=True)
            if is_long(extent_from(extent))
        ]
        reads = [v for part in index for v in variables_in(part)]
        terms = any(not any(v.same_as(own) for own in spatial) for v in reads)
        if long and terms and 0 < _stride(index[-1], long[-1].var) <= SECTOR:
            return True
    return False


def _stride(index: Any, axis: Any) -> int:
    """By how much an axis moves an index; 0 where that is not a number."""
    linear = detect_linear_equation(index, [axis])
    return abs(int(linear[0])) if linear and isinstance(linear[0], IntImm) else 0


def can_fuse(known: BlockFacts, first: int, second: int) -> bool:
    """Whether two adjacent axes walk every buffer as one: adjacent and whole, or not at all."""
    for plain, shape, used in known.accesses:
        if first not in used and second not in used:
            continue
        places = [i for i, axis in enumerate(plain) if axis == second]
        if len(places) != 1 or places[0] == 0 or plain[places[0] - 1] != first:
            return False
        if shape[places[0]] != known.extents[second]:
            return False
    return True


def divisor_below(number: int, limit: int) -> int:
    """The largest divisor of a number that is at most `limit` (at least 1)."""
    return next(d for d in range(max(1, min(number, limit)), 0, -1) if number % d == 0)
