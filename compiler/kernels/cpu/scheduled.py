"""The result of scheduling, from which code is generated."""

from dataclasses import dataclass

from tvm.tirx import PrimFunc


@dataclass(frozen=True)
class Scheduled:
    """A scheduled PrimFunc whose parameters are the group's reads, writes, then workspaces.

    The shape of a read that has a packing is the packed one. Buffers that are still allocated at
    the root after scheduling become further workspaces. The outermost loop of a root nest is its
    grid when it is marked parallel. `reassociate` lets LLVM reorder sums to vectorise them;
    `whole_loops` keeps it from unrolling loops that its vectoriser should see.
    """

    function: PrimFunc
    packings: tuple[str, ...] = ()
    workspaces: tuple[int, ...] = ()
    flops: int = 0
    reassociate: bool = False
    whole_loops: bool = False
