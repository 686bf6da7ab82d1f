"""Seconds and code bytes of a compilation from scratch, for chains of one operator.

    python benchmarks/compile_cost.py [--targets cpu cuda:sm_90] [--kinds Relu Gelu]
        [--lengths 10 100 1000]

A chain is x = kind(x + input), so that every step uses the input again. Seconds are of CPU
time, of child processes too; nothing is run, so that no device is needed. Bytes are the kernels'.
"""

import argparse
import os
import resource
import sys
import tempfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent.parent))

from onnx import ModelProto, TensorProto, helper

import compiler


def recurrence(kind: str, steps: int) -> ModelProto:
    """A chain of two operators a step, on 64 floats."""
    nodes = []
    for i in range(steps):
        before, after = "x" if i == 0 else f"v{i}", "y" if i == steps - 1 else f"v{i + 1}"
        nodes.append(helper.make_node("Add", [before, "x"], [f"sum{i}"]))
        nodes.append(helper.make_node(kind, [f"sum{i}"], [after]))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [64]) for n in "xy")
    return helper.make_model(
        helper.make_graph(nodes, "chain", [x], [y]),
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 20)],
    )


def measure(model: ModelProto, target: str) -> tuple[float, int]:
    """Seconds of CPU time and bytes in the cache of a compilation that finds none."""
    with tempfile.TemporaryDirectory() as cache:
        with mock.patch.dict(os.environ, FLOWLOOM_CACHE=cache):
            before = processor_time()
            compiler.compile(model, target=target)
            seconds = processor_time() - before
        return seconds, sum(p.stat().st_size for p in Path(cache).rglob("*") if p.is_file())


def processor_time() -> float:
    """Seconds that this process and its finished children have computed."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main() -> None:
    """Print a row for each kind, target and length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", default=["cpu", "cuda:sm_90"])
    parser.add_argument("--kinds", nargs="+", default=["Relu", "Gelu"])
    parser.add_argument("--lengths", nargs="+", type=int, default=[10, 100, 1000])
    options = parser.parse_args()
    print("| chain | operators | target | seconds | code bytes |\n|---|---|---|---|---|")
    for target in options.targets:
        measure(recurrence("Relu", 1), target)  # imports and headers are loaded once
        for kind in options.kinds:
            for length in options.lengths:
                seconds, size = measure(recurrence(kind, length // 2), target)
                print(f"| Add, {kind} | {length} | {target} | {seconds:.1f} | {size} |", flush=True)


if __name__ == "__main__":
    main()
