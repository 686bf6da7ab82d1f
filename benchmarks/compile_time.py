"""Seconds to compile, with an empty kernel cache and with a full one, each in a new process.

python benchmarks/compile_time.py [--models resnet50 nasnetalarge] [--target cuda:sm_90:tf32]
                                  [--json FILE]

`cpu` are the seconds of processor time of all threads and processes. Nothing is measured on a GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from compiler.scheduling import event_loop

ROOT = Path(__file__).parent.parent
PROGRAM = """
import json, os, sys
from time import perf_counter
from examples import zoo
model = zoo.load(sys.argv[1])
target = sys.argv[2]
start, before = perf_counter(), sum(os.times()[:4])
import compiler
options = {} if target.startswith("cpu") else {"budget": 0}
module = compiler.compile(model, target=target, **options)
seconds, processor = perf_counter() - start, sum(os.times()[:4]) - before
print(json.dumps({"total": seconds, "cpu": processor, **module.build_seconds}))
"""


def compile_once(name: str, target: str, cache: str) -> dict[str, float]:
    """Seconds of each step of one compilation in a process of its own, imports included."""
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(event_loop.CACHE),  # what no model decides stays
        "FLOWLOOM_CACHE": cache,
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, target],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print cold and warm seconds a model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=["resnet50", "nasnetalarge"])
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.models:
        with tempfile.TemporaryDirectory() as cache:
            for state in ("cold", "warm"):
                seconds = compile_once(name, options.target, cache)
                rows.append({"model": name, "target": options.target, "cache": state, **seconds})
                steps = "  ".join(f"{k} {v:.2f}" for k, v in seconds.items())
                print(f"{name:14} {state}  {steps}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
