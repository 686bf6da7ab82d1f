"""CPU seconds of each step of compiling models of up to 20,000 nodes, caches empty.

    python benchmarks/model_scaling.py [--models chain ladder wide residual]
        [--sizes 5000 10000 20000] [--target cpu] [--passes] [--json FILE]

Each model is compiled in a new process, for budget 0. Each time is of the CPU, user
and system, child processes included, but for the total on the clock.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compiler.backends.base import backend
from compiler.backends.memory import place_weights
from compiler.driver.build import Build, Settings, build, full_target
from compiler.target.target import parse_target

SHAPE = (32, 32)
BRANCHES = 64
"""Branches between a fan-out and the fan-in after it."""
FAR = 40
"""Nodes that the longest skip jumps over."""


def chain(size: int) -> list[onnx.NodeProto]:
    """One operator after another."""
    kinds = ("Relu", "Sigmoid", "Tanh", "Neg")
    return [
        helper.make_node(kinds[i % 4], [_tensor(i)], [_tensor(i + 1)], f"n{i}") for i in range(size)
    ]


def ladder(size: int) -> list[onnx.NodeProto]:
    """Two rails of matmuls: each node reads both, so each is a kernel of two inputs."""
    rails = ["x", "w"]
    nodes: list[onnx.NodeProto] = []
    for i in range(size):
        nodes.append(helper.make_node("MatMul", rails[::-1] if i % 2 else rails, [_tensor(i + 1)]))
        if i % 2:
            rails = [_tensor(i), _tensor(i + 1)]
    return nodes


def wide(size: int) -> list[onnx.NodeProto]:
    """Matmuls of one tensor, each with an activation, that are added up, again and again."""
    nodes: list[onnx.NodeProto] = []
    source = "x"
    while len(nodes) < size - 1:
        nodes += _fan(source, len(nodes), min(BRANCHES, (size - len(nodes)) // 2), "Sum")
        source = nodes[-1].output[0]
    return nodes


def star(size: int) -> list[onnx.NodeProto]:
    """One fan-out to as many branches as there are, and their concat."""
    return _fan("x", 0, size // 2, "Concat")


def _fan(source: str, first: int, branches: int, end: str) -> list[onnx.NodeProto]:
    """A matmul and an activation in each branch; nodes are numbered from `first`."""
    nodes: list[onnx.NodeProto] = []
    for i in range(branches):
        at = first + i
        nodes.append(helper.make_node("MatMul", [source, f"w{i % BRANCHES}"], [f"p{at}"], f"p{at}"))
        nodes.append(helper.make_node("Tanh", [f"p{at}"], [f"q{at}"], f"q{at}"))
    ends = [f"q{first + i}" for i in range(branches)]
    joined = helper.make_node(end, ends, [f"s{first}"], f"s{first}")
    if end == "Concat":
        joined.attribute.append(helper.make_attribute("axis", 1))
    return [*nodes, joined]


def residual(size: int) -> list[onnx.NodeProto]:
    """x = relu(x w + skip), where skips come from near and far."""
    nodes: list[onnx.NodeProto] = []
    states = ["x"]
    while len(nodes) < size:
        i = len(states)
        skip = states[max(0, i - 1 - i * 7 % FAR)]
        nodes.append(helper.make_node("MatMul", [states[-1], "w"], [f"m{i}"], f"m{i}"))
        nodes.append(helper.make_node("Add", [f"m{i}", skip], [f"a{i}"], f"a{i}"))
        nodes.append(helper.make_node("Relu", [f"a{i}"], [f"r{i}"], f"r{i}"))
        states.append(f"r{i}")
    return nodes


MODELS: dict[str, Callable[[int], list[onnx.NodeProto]]] = {
    "chain": chain,
    "ladder": ladder,
    "wide": wide,
    "star": star,
    "residual": residual,
}


def _tensor(index: int) -> str:
    return f"t{index}" if index else "x"


def model_of(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    """The model whose output is the last node's, with the weights that its nodes read."""
    random_source = np.random.default_rng(0)
    made = {name for node in nodes for name in node.output}
    names = dict.fromkeys(name for node in nodes for name in node.input if name not in made)
    weights = [
        numpy_helper.from_array(
            random_source.uniform(-0.1, 0.1, (SHAPE[1], SHAPE[1])).astype(np.float32), name
        )
        for name in names
        if name != "x"
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", SHAPE), (nodes[-1].output[0], None))
    )
    graph = helper.make_graph(nodes, "scaling", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def measure(model: str, size: int, target: str) -> dict[str, Any]:
    """One compilation: seconds by step and by pass, the kernels, the tasks, the memory in MiB."""
    proto = model_of(MODELS[model](size))
    modules = ("driver.build", "passes.runner")
    clocks = [patch(f"compiler.{module}.perf_counter", seconds) for module in modules]
    begun = perf_counter()
    with clocks[0], clocks[1]:
        built = build(proto, None, Settings(full_target(target), jobs=1))
    steps = dict(built.seconds)
    start = seconds()
    _load(built)
    steps["load"] = seconds() - start
    passes = [(t.spec.partition("{")[0], t.seconds, t.verify_seconds) for t in built.passes]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {
        "model": model,
        "nodes": len(proto.graph.node),
        "target": target,
        "kernels": len(built.kernels),
        "tasks": len(built.schedule.tasks),
        "seconds": steps,
        "wall": perf_counter() - begun,
        "passes": passes,
        "peak": peak,
    }


def _load(built: Build) -> None:
    """Load a module for a CPU; other devices need not be there."""
    if not parse_target(built.target).is_gpu:
        weights = place_weights(built.schedule, built.weights)
        backend(built.target).load(built.schedule, built.kernels, weights)


def measure_apart(model: str, size: int, target: str) -> dict[str, Any]:
    """The figures of `measure`, from a new process without kernels in a cache."""
    command = [sys.executable, __file__, "--one", model, str(size), target]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(row: dict[str, Any], passes: bool) -> None:
    """Print one compilation."""
    total = sum(row["seconds"].values())
    steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in row["seconds"].items())
    print(
        f"{row['target']} {row['model']:8} {row['nodes']:6} nodes {row['tasks']:6} tasks"
        f" {row['kernels']:3} kernels {total:7.1f} s {1e3 * total / row['nodes']:6.2f} ms a node"
        f" {row['peak']:5} MiB, {row['wall']:.0f} s on the clock: {steps}",
        flush=True,
    )
    for spec, seconds, verifying in row["passes"] if passes else ():
        print(f"    {seconds:8.2f} s {verifying:8.2f} s  {spec}", flush=True)


def main() -> None:
    """Print a line for each model and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--sizes", type=int, nargs="*", default=[5000, 10000, 20000])
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--passes", action="store_true", help="print each pass and verification")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        model, size, target = options.one
        print(json.dumps(measure(model, int(size), target)))
        return
    rows: list[dict[str, Any]] = []
    for model in options.models:
        for size in options.sizes:
            rows.append(measure_apart(model, size, options.target))
            show(rows[-1], options.passes)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
