"""Seconds of each pass, without kernels, on synthetic graphs of growing size.

    python benchmarks/pass_scaling.py [--sizes 1000 3000 10000] [--width 8] [--json FILE]

The graph is `width` chains of convolutions, activations and additions that exchange results.
"""

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

from compiler.ir import dataflow
from compiler.ir.types import tensor_type
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse
from compiler.passes.runner import Runner


def synthetic(size: int, width: int, seed: int = 0) -> ModuleOp:
    """A dataflow module of `size` operators in `width` chains."""
    random_source = random.Random(seed)
    image, kernel = tensor_type("float32", (1, 8, 8, 8)), tensor_type("float32", (8, 8, 1, 1))
    block = Block(arg_types=[image])
    weight = dataflow.WeightOp("w", kernel)
    block.add_op(weight)
    chains: list[SSAValue] = [block.args[0]] * width
    for index in range(size):
        chain = index % width
        kind = random_source.choice(("Conv", "Relu", "Add", "Sigmoid"))
        operands = {
            "Conv": [chains[chain], weight.output],
            "Add": [chains[chain], chains[chain - 1]],
        }
        op = dataflow.OperatorOp(
            kind, operands.get(kind, [chains[chain]]), [image], node=f"n{index}"
        )
        block.add_op(op)
        chains[chain] = op.outputs[0]
    results = list(dict.fromkeys(chains))
    block.add_op(dataflow.YieldOp(*results))
    names = [f"y{index}" for index in range(len(results))]
    return ModuleOp([dataflow.GraphOp("main", 22, ["x"], names, Region(block))])


def main() -> None:
    """Print a line a pass for each size, and the total."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 3000, 10000])
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for size in options.sizes:
        runner, module = Runner(), synthetic(size, options.width)
        runner.run(module, parse(DEFAULT_PIPELINE))
        for timing in runner.timings:
            rows.append(
                {
                    "size": size,
                    "pass": timing.spec,
                    "seconds": timing.seconds,
                    "verify_seconds": timing.verify_seconds,
                }
            )
            print(f"{size:7} {timing.seconds:8.3f} s {timing.verify_seconds:8.3f} s  {timing.spec}")
        total = sum(t.seconds + t.verify_seconds for t in runner.timings)
        print(
            f"{size:7} {total:8.3f} s in all, {1e6 * total / size:.0f} us an operator", flush=True
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
