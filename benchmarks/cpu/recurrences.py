"""A step of recurrences on the CPU: ours against onnxruntime's.

    python benchmarks/cpu/recurrences.py [--cells LSTM GRU RNN] [--hidden 128 256 512 800 1024]
        [--batches 1 4 16] [--directions 1 2] [--threads 1 2] [--steps 32] [--rounds 8]

Each case is a model of one recurrence whose inputs are as wide as its state; outputs are compared
first. Figures are the least microseconds of a run divided by its steps, the two taking turns: of
CPU time on one thread, of wall time on several.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2]))

import compiler
from benchmarks.cpu import runtimes
from compiler.net.operators.recurrence import GATES
from compiler.tools.comparison import compare

REST = 0.05
"""Seconds between the two, as onnxruntime's threads go on spinning for a while."""

RUNS = 10
"""Runs of a turn, the first of which is not timed."""


@dataclass(frozen=True)
class Case:
    """A recurrence and the threads that run it."""

    cell: str
    hidden: int
    batch: int
    directions: int
    threads: int
    steps: int

    def model(self) -> onnx.ModelProto:
        """Its model, with random weights."""
        random, rows = np.random.default_rng(0), GATES[self.cell] * self.hidden
        shapes = {"W": (rows, self.hidden), "R": (rows, self.hidden), "B": (2 * rows,)}
        weights = [
            numpy_helper.from_array(self._weight(random, shape), name)
            for name, shape in shapes.items()
        ]
        attributes: dict[str, Any] = {
            "hidden_size": self.hidden,
            "direction": "bidirectional" if self.directions == 2 else "forward",
        }
        if self.cell == "GRU":
            attributes["linear_before_reset"] = 1
        node = helper.make_node(self.cell, ["X", *shapes], ["Y"], **attributes)
        given = [("X", (self.steps, self.batch, self.hidden))]
        made = [("Y", (self.steps, self.directions, self.batch, self.hidden))]
        graph = helper.make_graph([node], "recurrence", _values(given), _values(made), weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def _weight(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        scale = np.float32(self.hidden**-0.5)
        return scale * random.standard_normal((self.directions, *shape)).astype(np.float32)

    @property
    def name(self) -> str:
        """The sizes as words of a row."""
        values = [getattr(self, field.name) for field in fields(self)][:5]
        return "  ".join(f"{value:>5}" for value in values)


def _values(shapes: Sequence[tuple[str, tuple[int, ...]]]) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes]


def measure(case: Case, rounds: int) -> tuple[float, float]:
    """Microseconds of a step: ours and onnxruntime's."""
    model, random = case.model(), np.random.default_rng(1)
    shape = (case.steps, case.batch, case.hidden)
    inputs = {"X": random.standard_normal(shape).astype(np.float32)}
    peer = runtimes.prepare_peer("onnxruntime", model, inputs, case.threads)
    module = compiler.compile(model, threads=case.threads)
    ours = partial(module.run, inputs)
    if not compare(ours(), peer()).passed:
        raise SystemExit(f"{case.name}: outputs differ from onnxruntime's")
    clock = process_time if case.threads == 1 else perf_counter
    least = [float("inf")] * 2
    for _ in range(rounds):
        for number, run in enumerate((ours, peer)):
            run()
            for _ in range(1, RUNS):
                start = clock()
                run()
                least[number] = min(least[number], clock() - start)
            sleep(REST)
    return 1e6 * least[0] / case.steps, 1e6 * least[1] / case.steps


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """The cases of the command line."""
    axes = options.cells, options.hidden, options.batches, options.directions, options.threads
    for axis in product(*axes):
        yield Case(*axis, options.steps)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", nargs="+", choices=GATES, default=["LSTM", "GRU"])
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 256, 512, 800, 1024])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--directions", type=int, nargs="+", choices=(1, 2), default=[1, 2])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=8)
    return parser.parse_args()


def main() -> None:
    """Print a row a case, and the geometric mean of the ratios."""
    options, ratios = parse(), list[float]()
    print(", ".join(" ".join(pair) for pair in runtimes.host(["onnxruntime"]).items()))
    print(" cell hidden  batch  directions threads   ours  onnxruntime  ratio")
    for case in cases(options):
        ours, peer = measure(case, options.rounds)
        ratios.append(ours / peer)
        print(f"{case.name}  {ours:9.2f} {peer:9.2f}  {ratios[-1]:.2f}", flush=True)
    print(f"geometric mean of {len(ratios)}: {geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
