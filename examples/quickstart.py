"""Compile a real exported network, run it, and compare its output with onnxruntime.

python examples/quickstart.py [MODEL]        # a name of the zoo; default resnet50
"""

import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

import flowloom
from compiler.tools.comparison import compare
from compiler.tools.reference import run_onnxruntime
from examples import zoo


def main(name: str) -> int:
    """Compile, run twice, check; the exit status is 0 when the outputs agree."""
    model = zoo.load(name)
    inputs = zoo.random_inputs(model, seed=0)
    start = perf_counter()
    module = flowloom.compile(model, target="cpu")
    print(f"compiled {name} in {perf_counter() - start:.1f} s: {module.summary()}")
    module.run(inputs)
    start = perf_counter()
    outputs = module.run(inputs)
    print(f"ran in {1e3 * (perf_counter() - start):.2f} ms on {module.threads} threads")
    report = compare(outputs, run_onnxruntime(model, inputs))
    print(f"against onnxruntime:\n{report}")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "resnet50"))
