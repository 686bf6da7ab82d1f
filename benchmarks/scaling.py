"""Seconds that scheduling takes on graphs of up to 100,000 nodes, on one core.

    python benchmarks/scaling.py [--sizes 10000 100000] [--widths 1 10 100 1000] [--streams 8]
                                 [--shapes layered random] [--only decisions|passes] [--json FILE]

First the decisions alone, on plain data: partition, assign, order, and the tokens that are inserted
and elided. Then the whole passes, which read and change xDSL's objects, as the runner runs them
without verification; `groups` is how long xDSL takes to make the module that they begin with.
`growth` is the time over that of a graph of a tenth of the nodes. CPU time of this process.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator
from itertools import chain, product
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

from compiler.ir import dataflow
from compiler.ir.types import tensor_type
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.scheduling.policies.ordering import ORDERINGS, Demand
from compiler.scheduling.policies.partitioning import PARTITIONINGS
from compiler.scheduling.policies.streams import STREAM_ASSIGNMENTS
from compiler.scheduling.subflows import remaining_waits
from compiler.support.collector import collector_paused
from compiler.support.dag import DAG
from compiler.verify.conflicts import needed_waits

LINEAR = ("sequential", "ppd", "opara", "critical-path", "wavefront")
"""The stream policies without a limit on the number of nodes."""


def layered(count: int, width: int, chances: random.Random) -> DAG:
    """Layers of `width` nodes; each node waits for one to three of the layer before."""
    edges = [
        (v - v % width - width + chances.randrange(width), v)
        for v in range(width, count)
        for _ in range(chances.randint(1, 3))
    ]
    return DAG.from_edges([chances.randint(1_000, 20_000) for _ in range(count)], edges)


def scattered(count: int, width: int, chances: random.Random) -> DAG:
    """Each node waits for one to three of the `2 * width` nodes before it."""
    edges = [
        (v - chances.randint(1, min(v, 2 * width)), v)
        for v in range(1, count)
        for _ in range(chances.randint(1, 3))
    ]
    return DAG.from_edges([chances.randint(1_000, 20_000) for _ in range(count)], edges)


SHAPES = {"layered": layered, "random": scattered}


def schedule_of(dag: DAG, streams: list[int], order: list[int]) -> Schedule:
    """A schedule without tokens whose tasks write 64 bytes each and read what they wait for."""
    arena = Allocation("arena", "arena", "uint8", (64 * len(dag),))
    views = [View(0, 64 * v, "uint8", (64,)) for v in range(len(dag))]
    tasks = tuple(
        Task("k", streams[v], (), tuple(views[u] for u in dag.predecessors[v]), (views[v],))
        for v in order
    )
    return Schedule("scaling", (arena,), tasks)


def decisions(dag: DAG, streams: int) -> Iterator[tuple[str, float]]:
    """Each decision and the seconds it takes."""
    chances = random.Random(1)
    demands = [Demand(chances.random() < 0.5, chances.random()) for _ in range(len(dag))]

    def timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        start = process_time()
        result = call(*arguments)
        return process_time() - start, result

    for name in PARTITIONINGS:
        yield f"partition {name}", timed(PARTITIONINGS[name], dag, 8)[0]
    for name in LINEAR:
        yield f"assign {name}", timed(STREAM_ASSIGNMENTS[name], dag, streams)[0]
    for name in ORDERINGS:
        yield f"order {name}", timed(ORDERINGS[name], dag, demands)[0]
    found = STREAM_ASSIGNMENTS["opara"](dag, streams)
    schedule = schedule_of(dag, list(found.streams), ORDERINGS["critical-path"](dag, ()))
    yield "insert", timed(needed_waits, schedule)[0]
    yield "elide", timed(remaining_waits, schedule)[0]


def module_of(dag: DAG) -> ModuleOp:
    """A module with a group of one operator a node: the largest of what the node waits for."""
    type = tensor_type("float32", (16,))
    block = Block(arg_types=[type])
    values: list[SSAValue] = []
    for v, before in enumerate(dag.predecessors):
        inputs = [values[u] for u in before] or [block.args[0]]
        inner = Block(arg_types=[type] * len(inputs))
        inner.add_op(op := dataflow.OperatorOp("Max", list(inner.args), [type], node=f"n{v}"))
        inner.add_op(dataflow.YieldOp(op.outputs[0]))
        group = dataflow.GroupOp(inputs, [type], Region(inner), f"Max_{len(inputs)}")
        block.add_op(group)
        values.append(group.outputs[0])
    results = [values[v] for v, after in enumerate(dag.successors) if not after]
    block.add_op(dataflow.YieldOp(*results))
    names = [f"y{i}" for i in range(len(results))]
    return ModuleOp([dataflow.GraphOp("main", 22, ["x"], names, Region(block))])


def passes(dag: DAG, streams: int) -> Iterator[tuple[str, float]]:
    """The schedule passes on a module of such a graph, and the seconds each takes."""
    start, runner = process_time(), Runner(verified=False)
    with collector_paused():
        module = module_of(dag)
    yield "groups", process_time() - start
    for step in parse(
        f"partition-graph{{policy=ppd}},partition-graph{{policy=none}},assign-streams{{streams={streams}}},"
        "order-launches,lower-to-taskflow,insert-sync,elide-sync,plan-memory"
    ):
        start = process_time()
        runner.run(module, [step])
        yield f"pass {step.spec()}", process_time() - start


MEASURED = {"decisions": decisions, "passes": passes}


def measure(shape: str, width: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row a size and decision or pass of one kind of graph, printed too."""
    wanted = [MEASURED[kind] for kind in MEASURED if options.only in (None, kind)]
    times: dict[tuple[int, str], float] = {}
    for size in options.sizes:
        dag = SHAPES[shape](size, width, random.Random(0))
        for name, seconds in chain(*(policy(dag, options.streams) for policy in wanted)):
            times[size, name] = seconds
            growth = seconds / times.get((size // 10, name), float("nan"))
            print(
                f"{shape:8} {width:5} {size:7} {seconds:7.3f} s {growth:6.1f}x  {name}", flush=True
            )
            row = {"shape": shape, "width": width, "nodes": size, "decision": name}
            yield row | {"seconds": seconds, "growth": growth}


def main() -> None:
    """Print a line a graph and decision; the last line names the slowest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--shapes", nargs="+", choices=tuple(SHAPES), default=list(SHAPES))
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--only", choices=tuple(MEASURED))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = list[dict[str, Any]]()
    for shape, width in product(options.shapes, options.widths):
        rows += measure(shape, width, options)
    worst = max(rows, key=lambda row: row["seconds"])
    print(f"slowest: {worst}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
