"""Export strangers, compile them for the CPU and compare with onnxruntime.

    python -m benchmarks.strangers --output exported roberta coatnet k_means

Each is a process, so that none ends the others. Without names it takes all. It needs the
benchmarks' extras, torch, torchvision, timm, transformers, onnxscript, scikit-learn, skl2onnx,
onnxmltools, lightgbm and xgboost.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.strangers.case import Feed
from benchmarks.strangers.export import EXPORTERS, export
from benchmarks.strangers.judge import Verdict, judge
from benchmarks.strangers.language import LANGUAGE, language
from benchmarks.strangers.senses import SENSES, senses
from benchmarks.strangers.tables import FEEDS, TABLES, write_table
from benchmarks.strangers.timm_models import TIMM, timm_model

BUILDERS = {
    **dict.fromkeys(LANGUAGE, language),
    **dict.fromkeys(SENSES, senses),
    **dict.fromkeys(TIMM, timm_model),
}
"""The builder of the PyTorch module of each name."""


def one(name: str, exporter: str, folder: Path) -> Verdict:
    """Export a network if it is not there yet, and judge it."""
    path = folder / f"{name}.{exporter}.onnx"
    try:
        feeds = _written(name, exporter, path)
    except Exception as error:
        return Verdict("not exported", f"{type(error).__name__}: {error}"[:300])
    generator = np.random.default_rng(1)
    arrays = [{n: f.array(generator, which) for n, f in feeds.items()} for which in (0, 1)]
    return judge(path, arrays)


def _written(name: str, exporter: str, path: Path) -> dict[str, Feed]:
    if name in TABLES:
        if not path.exists():
            write_table(name, path)
        return FEEDS
    import torch

    torch.manual_seed(0)
    case = BUILDERS[name](name)
    if not path.exists():
        export(case, exporter, path)
    return dict(case.feeds)


def _in_a_process(name: str, exporter: str, folder: Path, limit: float) -> Verdict:
    command = [sys.executable, "-m", str(__package__), name, "--output", str(folder)]
    command += ["--exporter", exporter, "--here"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return Verdict("crashed", f"not done after {limit:.0f} s")
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return Verdict("crashed", f"exit code {ended.returncode}: {ended.stderr[-300:]}")
    return Verdict(**json.loads(lines[-1]))


def _line(name: str, exporter: str, verdict: Verdict) -> str:
    seconds = "+".join(f"{s:.1f}" for s in verdict.compile_s)
    times = " ".join(f"{a:.2f}/{b:.2f}={a / b:.2f}" for a, b in verdict.times_ms)
    return f"{name} {exporter} {verdict.result} {seconds} s {times} {verdict.detail}"


def main() -> None:
    """Judge the networks that are named, one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BUILDERS, *TABLES], metavar="NAME")
    parser.add_argument("--output", type=Path, required=True, help="folder of the exported models")
    parser.add_argument("--exporter", choices=EXPORTERS)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one model")
    parser.add_argument("--here", action="store_true", help="print one verdict as JSON")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    if arguments.here:
        print(json.dumps(asdict(one(arguments.names[0], arguments.exporter, arguments.output))))
        return
    for name in arguments.names or (*BUILDERS, *TABLES):
        given = arguments.exporter
        for exporter in [given] if given else EXPORTERS[: 1 if name in TABLES else None]:
            verdict = _in_a_process(name, exporter, arguments.output, arguments.limit)
            print(_line(name, exporter, verdict), flush=True)


if __name__ == "__main__":
    main()
