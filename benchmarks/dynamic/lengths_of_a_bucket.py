"""New lengths of BERT-base on a GPU, in buckets that have a graph and in new ones.

    python benchmarks/dynamic/lengths_of_a_bucket.py [--target cuda:sm_90:fp16] [--fixed 64 100 128]

Milliseconds by the host's clock, inputs and outputs on the host: the first run of a length and the
least of 30 later ones, of which the difference is what a new length costs; the difference of the
first two runs of 60 lengths of one bucket; and lengths that a module for that length alone has,
`--fixed`, each by itself and one after the other, symbolic and fixed in turns.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import compiler
from benchmarks.dynamic.new_sizes import MODEL, inputs_of, load_file
from compiler.program.model import DynamicModule

LENGTHS = (128, 100, 90, 120, 97, 37, 40, 256, 200, 250, 193, 111, 66, 70, 80, 126)
BUCKET = range(130, 190)
"""Lengths between two powers of two and their middle: one bucket, which has a graph by then."""

Feeds = Mapping[str, np.ndarray[Any, np.dtype[Any]]]


def milliseconds(module: Any, feeds: Feeds) -> float:
    """The time of one run."""
    start = perf_counter()
    module.run(feeds)
    return 1e3 * (perf_counter() - start)


def least(module: Any, feeds: Feeds, count: int = 30) -> float:
    """The shortest of some runs."""
    return min(milliseconds(module, feeds) for _ in range(count))


def main() -> None:
    """Print a line for each length, and the sums of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda:sm_90:fp16")
    parser.add_argument("--fixed", type=int, nargs="*", default=[64, 100, 128], metavar="LENGTH")
    arguments = parser.parse_args()
    model = load_file(MODEL)
    module = compiler.compile(model, target=arguments.target)
    assert isinstance(module, DynamicModule)

    def feeds_of(length: int) -> Feeds:
        return inputs_of(module, {"batch": 1, "length": length})

    print(f"compiled and run at 64: {milliseconds(module, feeds_of(64)) / 1e3:.1f} s", flush=True)
    print(f"{'length':>6} {'first':>8} {'later':>8} {'new':>8}")
    for length in LENGTHS:
        feeds = feeds_of(length)
        first, later = milliseconds(module, feeds), least(module, feeds)
        print(f"{length:6} {first:8.3f} {later:8.3f} {first - later:8.3f}", flush=True)
    module.run(feeds_of(192))
    every = [feeds_of(length) for length in BUCKET]
    new = [milliseconds(module, feeds) - milliseconds(module, feeds) for feeds in every]
    print(
        f"{len(new)} lengths of a bucket: median {median(new):.3f}, most {max(new):.3f}", flush=True
    )
    pairs: list[tuple[Any, Feeds]] = []
    for length in arguments.fixed:
        feeds = feeds_of(length)
        shapes = {name: array.shape for name, array in feeds.items()}
        alone = compiler.compile(model, input_shapes=shapes, target=arguments.target)
        pairs.append((alone, feeds))
        for _ in range(5):
            module.run(feeds)
            alone.run(feeds)
        own = min(least(module, feeds, 15) for _ in range(3))
        other = min(least(alone, feeds, 15) for _ in range(3))
        print(f"at {length}: {own:.3f}, fixed {other:.3f}, {own / other:.3f}", flush=True)
    own = min(sum(milliseconds(module, feeds) for _, feeds in pairs) for _ in range(30))
    other = min(sum(milliseconds(alone, feeds) for alone, feeds in pairs) for _ in range(30))
    print(f"one after the other: {own:.3f}, fixed {other:.3f}, {own / other:.3f}")


if __name__ == "__main__":
    main()
