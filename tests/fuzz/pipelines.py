"""Random pipelines: the default one with passes left out and other options."""

from tests.fuzz.draw import Draw
from tests.strategies import ORDERS, PARTITIONS, STREAMS

_BEFORE = (
    "conv-to-gemm canonicalize fuse-group-norm order-scatters batch-gemv fuse-siblings"
    " fuse-attention fuse-squeeze-excite fuse-ranges fuse-gathers"
).split()


def pipeline(draw: Draw) -> str | None:
    """A legal pipeline that ends in a schedule; None for the target's own."""
    if draw.chance(0.25):
        return None
    passes = ["lower-quantised", *(name for name in _BEFORE if draw.chance(0.7))]
    passes.append(_fuse(draw))
    for name in ("fuse-channels-last", "fuse-depthwise-pointwise", "reduce-precision"):
        passes += draw.some([name])
    if draw.chance(0.6):
        passes.append(f"assign-layouts{{policy={draw.choice(['target', 'always', 'never'])}}}")
        passes += draw.some(["emplace-concats"])
    passes += draw.some(["fold-ranges", "share-kernels"])
    if draw.chance(0.5):
        most = draw.randint(1, 8)
        passes.append(f"partition-graph{{policy={draw.choice(PARTITIONS)} max-nodes={most}}}")
    policy, streams = draw.choice(STREAMS), draw.randint(1, 5)
    passes.append(f"assign-streams{{policy={policy} streams={streams}}}")
    if draw.chance(0.6):
        passes.append(f"order-launches{{policy={draw.choice(ORDERS)}}}")
    passes += ["lower-to-taskflow", "insert-sync", *draw.some(["elide-sync"])]
    passes.append(f"plan-memory{{reuse={draw.choice(['none', 'concurrent'])}}}")
    return ",".join(passes)


def _fuse(draw: Draw) -> str:
    options = [f"max-ops={draw.choice([0, 0, 1, 1, 2, 4])}"]
    names = ("contraction-prologue", "injective-epilogue", "allow-longer-path")
    options += [f"{name}=true" for name in names if draw.chance(0.2)]
    return f"fuse-operators{{{' '.join(options)}}}"
