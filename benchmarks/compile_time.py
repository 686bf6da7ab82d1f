"""Seconds to compile, with an empty cache and with full ones, each in a new process.

python benchmarks/compile_time.py [--models resnet50 nasnetalarge] [--target cuda:sm_90:tf32]
                                  [--against CHECKOUT] [--repeat 3] [--json FILE]

`cpu` are the seconds of CPU time of all threads and processes. Nothing is measured on a GPU. After
`cold` come `kernels`, where the cache has the kernels alone, and `kept`, where it has the module of
a CPU. The model is a file, whose weights were made before. Python's bytecode is there, as pip makes
it: without, each process that compiles takes half a second more. FLOWLOOM_LIBRARY names the
libraries of kernels.
With --against, only empty caches are timed: the compiler in another checkout and this one in turn,
and the medians of their CPU times are compared.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from compileall import compile_dir
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import onnx

sys.path.insert(0, str(Path(__file__).parent.parent))

from examples import zoo

ROOT = Path(__file__).parent.parent
PROGRAM = """
import ctypes, json, os, sys
from contextlib import suppress
from time import perf_counter
model, target = sys.argv[1:]
PR_SET_CHILD_SUBREAPER = 36  # processes whose parent ends are counted as this one's
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
start, before = perf_counter(), sum(os.times()[:4])
import compiler
options = {} if target.startswith("cpu") else {"budget": 0}
module = compiler.compile(model, target=target, **options)
seconds = perf_counter() - start
with suppress(ChildProcessError):
    while True:
        os.wait()
cpu = sum(os.times()[:4]) - before
print(json.dumps({"total": seconds, "cpu": cpu, **module.build_seconds}))
"""

Row = dict[str, Any]


def compile_once(
    path: Path, target: str, cache: str, checkout: Path = ROOT, keep: str = "on"
) -> dict[str, float]:
    """Seconds of each step of one compilation in a new process, imports included."""
    compile_dir(checkout / "compiler", quiet=2)
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "",
        "FLOWLOOM_CACHE": cache,
        "FLOWLOOM_KEEP": keep,
        "PYTHONPATH": str(checkout),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), target],
        env=environment,
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def model_file(name: str) -> Generator[Path]:
    """A file of a model of the zoo, with its weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.onnx")
        onnx.save(zoo.load(name), path)
        yield path


def cold_and_warm(name: str, target: str) -> list[Row]:
    """Rows of compilations with an empty cache, with its kernels, and with the whole module."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as cache, model_file(name) as path:
        for state in ("cold", "kernels", "kept"):
            keep = "off" if state == "kernels" else "on"
            seconds = compile_once(path, target, cache, keep=keep)
            rows.append({"model": name, "target": target, "cache": state, **seconds})
            steps = "  ".join(f"{k} {v:.2f}" for k, v in seconds.items())
            print(f"{name:14} {state}  {steps}", flush=True)
    return rows


def compare(name: str, target: str, other: Path, repeat: int) -> list[Row]:
    """Rows of cold compilations by two checkouts in turn."""
    rows: list[Row] = []
    with model_file(name) as path:
        for checkout in (other, ROOT) * repeat:
            with tempfile.TemporaryDirectory() as cache:
                seconds = compile_once(path, target, cache, checkout)
            rows.append({"model": name, "target": target, "checkout": str(checkout), **seconds})
    old, new = (
        [row["cpu"] for row in rows if row["checkout"] == str(checkout)]
        for checkout in (other, ROOT)
    )
    spread = "  ".join(f"{min(times):.2f}..{max(times):.2f}" for times in (old, new))
    change = 100 * (median(new) / median(old) - 1)
    print(
        f"{name:14} {target}  old {median(old):.2f}  new {median(new):.2f}  {change:+.1f} %"
        f"  ({spread})",
        flush=True,
    )
    return rows


def main() -> None:
    """Print cold and warm seconds a model, or a comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=["resnet50", "nasnetalarge"])
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--against", type=Path, help="another checkout, the old one")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    for name in options.models:
        if options.against:
            against = options.against.resolve()
            rows += compare(name, options.target, against, options.repeat)
        else:
            rows += cold_and_warm(name, options.target)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
