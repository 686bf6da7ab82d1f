"""The zoo on one GPU against PyTorch, torch.compile and Opara's streams, in one table.

    python benchmarks/gpu_peers.py --json peers.json [--models resnet50 unet | --field]
        [--batch 1 16] [--precision tf32 fp16]
        [--contenders eager graph opara compile max-autotune ours-1 ours untuned default]
        [--prepare 6 | --together 12] [--limit-seconds 540]

`default` is what `compile` gives without options: it measures kernels that no database has and
schedules, so give it a new FLOWLOOM_CACHE and FLOWLOOM_TUNING to see what a stranger gets.
`untuned` is `compile(budget=0)`, which measures nothing. `ours` is the fastest of the streams and
modes asked for.

Needs torch, timm, torchvision, transformers and a CUDA device. `--field` measures the networks of
`examples/field` instead of the zoo; `field:NAME` is one of them. Contenders of one row live in one
process and take turns; every figure is a median of at least `--samples` runs. `device` is the time
between two events on one stream around a run, `wall` the host's from queuing a run until the
stream is idle. Both are taken in the same way for all.

Each model runs in a new process, and each row is written to the JSON file when it is
finished; rows that are in the file are skipped, so an interrupted benchmark goes on where it was.
A row that crashes its process, or hangs beyond what its contenders may take, is given up and the
next one is begun; `--retry` measures such rows again. `--prepare N` lets torch.compile compile N
models at a time first; max-autotune measures as it compiles, so it is never prepared, and takes
minutes a model: raise `--contender-seconds`. `--together N` prepares all contenders of N rows at
a time and then times one row after another; kernels are not looked at one by one then. `default`,
which measures as it compiles, is compiled when it is its row's turn, with the device to itself.
Other batch sizes than 1 need `--exported FOLDER`, made by
`python -m examples.zoo.export --batch 16 --output FOLDER/16` (`examples.field.export`).
`--weights zoo` gives PyTorch's module the weights of the zoo's ONNX file as far as they can be
matched; `--weights torch` exports the module anew. Ours is checked against onnxruntime, each peer
against PyTorch in float32; how far the two references differ says whether the weights agree.
In fp16, PyTorch runs the whole model in half precision; ours keeps tensors between kernels in it
and computes normalisations, softmax and sums in float32.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.peers import results, together
from benchmarks.peers.together import OUT_OF_TIME
from compiler.errors import DeviceError
from compiler.schedule.choices import MODES
from examples import named

PACKAGES = ("torch", "triton", "timm", "torchvision", "transformers", "onnxruntime")
UNUSUAL = ("max-autotune", "untuned", "default")
"""Contenders that must be asked for."""

ROW_SECONDS = 240.0
"""Seconds of a row besides its contenders: loading the model, references, measuring."""


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--field", action="store_true", help="the networks of examples/field")
    usual = [name for name in results.COLUMNS if name not in UNUSUAL]
    parser.add_argument("--contenders", nargs="+", choices=tuple(results.COLUMNS), default=usual)
    parser.add_argument("--precision", nargs="+", choices=("tf32", "fp16"), default=["tf32"])
    parser.add_argument("--batch", nargs="+", type=int, default=[1])
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument(
        "--streams", nargs="+", type=int, default=[1, 2, 4, 8], help="0 is the searched schedule"
    )
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    parser.add_argument("--weights", choices=("zoo", "torch"), default="zoo")
    parser.add_argument("--exported", type=Path, help="folder of BATCH/NAME.light.onnx")
    parser.add_argument("--json", type=Path, default=Path("gpu_peers.json"))
    parser.add_argument(
        "--prepare", type=int, default=0, help="torch.compile N models at a time first"
    )
    parser.add_argument("--together", type=int, default=0, help="prepare N rows at a time")
    parser.add_argument("--prepare-seconds", type=float, default=300.0)
    parser.add_argument("--limit-seconds", type=float, default=float("inf"))
    parser.add_argument("--contender-seconds", type=float, default=240.0)
    parser.add_argument("--retry", action="store_true", help="measure given up rows again")
    parser.add_argument("--table", action="store_true", help="print the file's table and exit")
    parser.add_argument("--only", choices=("compile", "measure"), help=argparse.SUPPRESS)
    parser.add_argument("--turn", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.models = options.models or named.usual(options.field)
    if options.samples < 50:
        parser.error("--samples is at least 50")
    if options.together and "max-autotune" in options.contenders:
        parser.error("max-autotune measures as it compiles: not with --together")
    return options


def keys_of(model: str, options: argparse.Namespace) -> list[results.Key]:
    """The rows of a model that are asked for."""
    return [(model, b, p, options.weights) for b in options.batch for p in options.precision]


def pending(model: str, options: argparse.Namespace) -> list[results.Key]:
    """The rows of a model that are not in the file yet."""
    rows = results.read(options.json)["rows"]
    keys = keys_of(model, options)
    return [key for key in keys if not results.finished(rows, key, options.contenders)]


def machine() -> dict[str, Any]:
    """The GPU, the driver and the versions of what was compared."""
    import torch

    from compiler.backends.cuda.device import device

    found: dict[str, Any] = {"python": platform.python_version(), "cuda": torch.version.cuda}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    info = device().device
    return found | {"gpu": info.name, "driver": info.driver_version}


def child(model: str, options: argparse.Namespace, task: str, seconds: float) -> str:
    """Run one model's part in a new process; says what ended it early, or nothing."""
    command = [sys.executable, __file__, *sys.argv[1:], "--only", task, "--models", model]
    threads = {"TORCHINDUCTOR_COMPILE_THREADS": "3"} if task == "compile" else {}
    process = subprocess.Popen(command, env={**os.environ, **threads}, start_new_session=True)
    return together.wait_for(process, seconds)


def prepare(options: argparse.Namespace, seconds: float) -> None:
    """Fill torch.compile's cache for several models at once."""
    end = monotonic() + seconds
    models = [model for model in options.models if pending(model, options)]

    def one(model: str) -> None:
        left = end - monotonic()
        ended = child(model, options, "compile", left) if left > 0 else OUT_OF_TIME
        print(f"prepared {model} {ended}", flush=True)

    with ThreadPoolExecutor(options.prepare) as pool:
        list(pool.map(one, models))


def run_all(options: argparse.Namespace, end: float) -> None:
    """Measure model after model until all are done or the time is over.

    A process that dies or hangs was at work on its first pending row: that one is given up.
    """
    for model in options.models:
        while keys := pending(model, options):
            left, most = end - monotonic(), longest(len(keys), options)
            ended = child(model, options, "measure", min(left, most)) if left > 10 else OUT_OF_TIME
            if ended == OUT_OF_TIME and left <= most:
                print(f"out of time at {model}: run the same command again to go on", flush=True)
                return
            still = pending(model, options)
            if still:
                give_up(still[0], options, ended or "the process ended without it")


def run_together(options: argparse.Namespace, end: float) -> None:
    """Prepare some rows side by side, time them one after another, and go on with the next."""
    keys = [key for model in options.models for key in pending(model, options)]
    lock = options.json.with_suffix(".lock")
    threads = max(1, (os.cpu_count() or 1) // options.together)
    for first in range(0, len(keys), options.together):
        some = keys[first : first + options.together]
        left = end - monotonic()
        if left < 10:
            print("out of time: run the same command again to go on", flush=True)
            return
        processes = [together.start(command_of(key), lock, threads) for key in some]
        ended = together.wait_for_all(processes, min(left, longest(len(some), options)))
        for key, reason in zip(some, ended, strict=True):
            if key in pending(key[0], options):
                give_up(key, options, reason or "the process ended without it")


def command_of(key: results.Key) -> list[str]:
    """The command that measures one row."""
    row = ["--models", key[0], "--batch", str(key[1]), "--precision", key[2]]
    return [sys.executable, __file__, *sys.argv[1:], "--only", "measure", *row]


def longest(rows: int, options: argparse.Namespace) -> float:
    """Seconds after which a process with so many rows must hang."""
    return rows * (ROW_SECONDS + options.contender_seconds * len(options.contenders))


def check_machine() -> None:
    """Exit with the missing packages, so that no row is given up for them."""
    from compiler.backends.cuda.device import device

    missing = [name for name in PACKAGES if find_spec(name) is None and name != "triton"]
    if missing:
        sys.exit(f"this benchmark needs {', '.join(missing)}: install them with pip")
    try:
        print(device().device, flush=True)
    except DeviceError as error:
        sys.exit(f"this benchmark needs a CUDA device: {error}")


def check_files(options: argparse.Namespace) -> None:
    """Say where ours has no ONNX file of a model at a batch size; exit where it has none at all."""
    if options.weights == "torch" or not any(c in results.OURS for c in options.contenders):
        return
    for batch in (size for size in options.batch if size != 1):
        missing = [m for m in options.models if not exported_file(m, batch, options.exported)]
        if missing == options.models:
            sys.exit(
                f"{options.exported or '--exported'} has no file {batch}/NAME.light.onnx: make them"
                f" with python -m examples.zoo.export --batch {batch} --output FOLDER/{batch}, and"
                " name that FOLDER by --exported"
            )
        if missing:
            print(f"no file at batch {batch}, so no figure of ours: {', '.join(missing)}")


def exported_file(model: str, batch: int, folder: Path | None) -> Path | None:
    """The file of a model at a batch size, if it is there; the field's are next to the zoo's."""
    path = folder / str(batch) / f"{named.bare(model)}.light.onnx" if folder else None
    return path if path and path.exists() else None


def give_up(key: results.Key, options: argparse.Namespace, reason: str) -> None:
    """Write a row in which every contender failed."""
    failed = {name: {"error": reason} for name in options.contenders}
    row = {**results.fields(key), "contenders": failed, "error": reason}
    results.write(options.json, row, {})


def show(options: argparse.Namespace) -> None:
    """Print the tables of both methods, and what failed."""
    content = results.read(options.json)
    order = {name: index for index, name in enumerate(named.every())}
    rows = sorted(content["rows"], key=lambda r: (r["precision"], r["batch"], order[r["model"]]))
    print(json.dumps(content["machine"]))
    for method in ("device", "wall"):
        print(f"\nmicroseconds, {method}\n{results.table(rows, method)}")
    print(f"\n{results.notes(rows)}")


def main() -> int:
    """Run what is asked for and print the tables; exit status 1 if a row of ours has no figure or
    any output is wrong."""
    options = parse()
    scratch = Path(tempfile.gettempdir()) / "flowloom-inductor"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(scratch))
    if options.only:
        from benchmarks.peers import rows

        getattr(rows, f"{options.only}_model")(options.models[0], options)
        return 0
    if not options.table:
        check_files(options)
        check_machine()
        if options.retry:
            results.forget_failed(options.json)
        end = monotonic() + options.limit_seconds
        if options.prepare and "compile" in options.contenders:
            prepare(options, min(options.prepare_seconds, options.limit_seconds))
        (run_together if options.together else run_all)(options, end)
    show(options)
    rows = results.read(options.json)["rows"]
    return 1 if any(results.wrong(row) or results.lacks_ours(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
