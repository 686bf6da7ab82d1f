"""The worth of PyGraph's three parts: each left out alone, and all of them, on the same kernels.

    python benchmarks/pygraph.py [--models resnet50 speech ...] [--target cuda] [--precision fp16]
        [--samples 100] [--json FILE]
    python benchmarks/pygraph.py --table FILE

A model of the zoo is one graph whose inputs and outputs are each in one of two buffers on the
device, by turns: pointer indirection serves both. A model of `examples/exports` has shapes or
branches that only a run knows, so that the host runs its segments; its inputs and outputs are on
the host. The variants of a model are loaded at once, their results compared, and then they take
turns. A figure is the wall time of a run, and of waiting for its end, in microseconds.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import onnx

import compiler
from benchmarks.peers.timing import Spread, take_turns
from compiler.artifact.module import Module
from compiler.program.model import DynamicModule
from compiler.target.target import parse_target
from examples import zoo

EXPORTS = Path(__file__).parents[1] / "examples" / "exports"

VARIANTS = {
    "all": "all",
    "no residency": "indirection,selective",
    "no indirection": "resident,selective",
    "no selection": "resident,indirection",
    "none": "none",
}
"""The `graphs` option of each column."""

DYNAMIC = ("bert_dynamic", "detector", "detector_large", "lstm_if", "speech")
STATIC = ("bert128", "deepfm", "googlenet", "resnet50", "rnntc_sru", "t5small")
TOLERANCE = {"fp32": 1e-3, "tf32": 3e-2, "fp16": 3e-2, "bf16": 1e-1}

Arrays = dict[str, np.ndarray]
Run = Callable[[], Any]


def export_inputs(name: str, seed: int) -> Arrays:
    """Inputs of an export."""
    generator = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype("f4")

    ids = generator.integers(0, 100, (2, 64))
    every: dict[str, Arrays] = {
        "bert_dynamic": {"input_ids": ids, "attention_mask": np.ones_like(ids)},
        "detector": {"image": draw(1, 3, 64, 64)},
        "detector_large": {"image": draw(4, 3, 480, 640)},
        "lstm_if": {"x": draw(7, 32), "state": draw(2, 1, 16), "rate": np.array(16)},
        "speech": {"features": draw(1, 20, 40)},
    }
    return every[name]


def model_and_inputs(name: str) -> tuple[onnx.ModelProto, list[Arrays]]:
    """A model and two sets of inputs."""
    if name in DYNAMIC:
        file = EXPORTS / f"{name.removesuffix('_large')}.onnx"
        model = onnx.load_model_from_string(file.read_bytes())
        return model, [export_inputs(name, seed) for seed in (0, 1)]
    model = zoo.load(name)
    return model, [zoo.random_inputs(model, seed) for seed in (0, 1)]


def runs_of(module: Module | DynamicModule, inputs: Sequence[Arrays], target: str) -> Run:
    """Run a module once, on the next of its sets of inputs; the outputs."""
    given = cycle(inputs)
    if isinstance(module, DynamicModule):
        return lambda: module.run(next(given))
    executor: Any = module.executor()
    if parse_target(target).backend == "emu":
        return lambda: executor.run(next(given))
    return device_run(module, executor, inputs)


def device_run(module: Module, executor: Any, inputs: Sequence[Arrays]) -> Run:
    """Run a static module on buffers of PyTorch's, two of each by turns."""
    import torch

    stream = torch.cuda.Stream()
    outputs = [{a.name: np.zeros(a.shape, a.dtype) for a in module.outputs} for _ in inputs]
    sets = cycle([
        tuple({n: torch.from_numpy(x).cuda() for n, x in part.items()} for part in pair)
        for pair in zip(inputs, outputs, strict=True)
    ])  # fmt: skip

    def run() -> Mapping[str, Any]:
        x, y = next(sets)
        executor.submit(x, outputs=y, stream=stream)
        stream.synchronize()
        return y

    return run


def on_host(value: Any) -> np.ndarray:
    """An output as numpy's."""
    return value.cpu().numpy() if hasattr(value, "cpu") else np.asarray(value)


def checked(found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float) -> None:
    """Raise AssertionError where a variant's outputs differ by more than rounding."""
    for name, value in wanted.items():
        right, own = on_host(value), on_host(found[name])
        scale = float(np.abs(right).max(initial=1.0)) if right.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(own, right, atol=tolerance * scale, rtol=tolerance, err_msg=name)


def clock(run: Run) -> Callable[[], float]:
    """The microseconds of a run."""

    def timed() -> float:
        start = perf_counter()
        run()
        return 1e6 * (perf_counter() - start)

    return timed


def measured(name: str, target: str, precision: str, samples: int) -> dict[str, Any]:
    """The row of a model: the spread of each variant, or why it has none."""
    model, inputs = model_and_inputs(name)
    row: dict[str, Any] = {"model": name, "target": target, "precision": precision}
    modules: dict[str, Module | DynamicModule] = {}
    runs: dict[str, Run] = {}
    for variant, graphs in VARIANTS.items():
        modules[variant] = compiler.compile(
            model, target=target, precision=precision, graphs=graphs, budget=1
        )
        runs[variant] = runs_of(modules[variant], inputs, target)
    outputs = {variant: run() for variant, run in runs.items()}
    for found in outputs.values():
        checked(found, outputs["none"], TOLERANCE[precision])
    clocks = {variant: {"us": clock(run)} for variant, run in runs.items()}
    errors: dict[str, str] = {}
    taken = take_turns(clocks, samples, lambda v, e: errors.update({v: str(e)}))
    for module in modules.values():
        module.close()
    row["variants"] = {variant: spread["us"].as_json() for variant, spread in taken.items()}
    return row | ({"errors": errors} if errors else {})


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows in Markdown: microseconds, and how many times as long each part left out takes."""
    lines = [
        "| model | " + " | ".join(VARIANTS) + " |",
        "|---|" + "---|" * len(VARIANTS),
    ]
    ratios: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for row in rows:
        spreads = {v: Spread(**s) for v, s in row.get("variants", {}).items()}
        cells = [_cell(spreads, variant, ratios) for variant in VARIANTS]
        if "error" in row:
            cells[0] = row["error"][:80]
        lines.append(f"| {row['model']} | " + " | ".join(cells) + " |")
    means = [f"{geometric_mean(found):.2f}" if found else "" for found in ratios.values()]
    return "\n".join([*lines, "| geometric mean | " + " | ".join(means) + " |", ""])


def _cell(spreads: Mapping[str, Spread], variant: str, ratios: dict[str, list[float]]) -> str:
    if variant not in spreads or "all" not in spreads:
        return ""
    own, ratio = spreads[variant], spreads[variant].median / spreads["all"].median
    ratios[variant].append(ratio)
    figures = f"{own.median:,.0f} ({own.low:,.0f} to {own.high:,.0f})"
    return figures if variant == "all" else f"{figures}, **{ratio:.2f}**"


def main() -> None:
    """Measure, or print the table of what was."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", default=[*STATIC, *DYNAMIC])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--precision", default="tf32", choices=[*TOLERANCE])
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--json", type=Path, help="a line a model, written as it is measured")
    parser.add_argument("--table", type=Path, help="print the table of such a file")
    options = parser.parse_args()
    if options.table is not None:
        print(table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    rows: list[dict[str, Any]] = []
    for name in options.models:
        try:
            row = measured(name, options.target, options.precision, options.samples)
        except Exception as error:
            row = {"model": name, "error": f"{type(error).__name__}: {error}"}
        rows.append(row)
        print(json.dumps(row), flush=True)
        if options.json is not None:
            with options.json.open("a") as file:
                print(json.dumps(row), file=file)
    print(table(rows))


if __name__ == "__main__":
    main()
