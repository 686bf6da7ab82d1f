"""`flowloom run MODEL|DIR`: one run, its outputs described, saved or checked."""

import sys
from argparse import Namespace
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any, cast

import numpy as np

from compiler.backends.memory import Array
from compiler.errors import ModelError
from compiler.progress import step_progress
from compiler.tools.cli.opening import load_or_compile, run_inputs, stored_inputs
from compiler.tools.comparison import check_with_onnxruntime
from compiler.tools.models import named_model
from compiler.tools.outputs import check_file, write_npz
from compiler.tools.progress.options import conclude
from compiler.tools.reference import Refusal

NOT_CHECKED = 2
"""Exit status of `run --check` if onnxruntime refuses the model."""


def run(options: Namespace) -> int:
    """Run once; exit status 1 if the outputs are not onnxruntime's, 2 if that refuses the model."""
    check_file(options.outputs)
    stored = stored_inputs(options)
    module = load_or_compile(options)
    inputs = run_inputs(stored, options, module)
    random = options.inputs is None and inputs
    lines = [f"inputs: random, seed {options.seed}"] if random else []
    with step_progress("run"):
        outputs = module.run(inputs)
    if options.outputs is not None:
        write_npz(options.outputs, outputs)
    lines += [f"{name}: {_statistics(array)}" for name, array in outputs.items()]
    figures: dict[str, Any] = {
        "model": str(options.model),
        "target": module.target,
        "seed": options.seed if random else None,
        "outputs": {name: _figures(array) for name, array in outputs.items()},
    }
    status = 0
    if options.check is not None:
        model = named_model(_model_to_check_against(options))
        try:
            report = check_with_onnxruntime(model, module.target, inputs, outputs)
        except Refusal as error:
            print(f"flowloom: not checked: {error}", file=sys.stderr)
            figures["check"] = None
            status = NOT_CHECKED
        else:
            lines.append(str(report))
            figures["check"] = [asdict(d) | {"passed": d.passed} for d in report.differences]
            status = 0 if report.passed else 1
    conclude(options, "\n".join(lines), figures)
    return status


def _model_to_check_against(options: Namespace) -> Path:
    if options.check is not True:
        return Path(options.check)
    if options.model.is_dir():
        raise ModelError(f"{options.model} is an artifact: name its ONNX file after --check")
    return options.model


def _figures(value: Any) -> dict[str, Any]:
    """The type of an output, and the mean and deviation of its numbers if they are finite."""
    if not isinstance(value, np.ndarray):
        return {"items": None if value is None else len(value)}
    array = cast(Array, value)
    figures: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size and array.dtype.kind in "fiu":
        numbers = array.astype(np.float64)
        mean, std = float(numbers.mean()), float(numbers.std())
        # JSON has no word for NaN and infinities
        figures |= {"mean": mean, "std": std} if isfinite(mean + std) else {"mean": None}
    return figures


def _statistics(value: Any) -> str:
    """The figures of an output in words."""
    if not isinstance(value, np.ndarray):
        return "nothing" if value is None else f"a sequence of {len(value)}"
    array = cast(Array, value)
    text = f"{array.dtype}{list(array.shape)} "
    if array.size == 0 or array.dtype.kind not in "fiu":
        return text
    numbers = array.astype(np.float64)
    return f"{text}mean {numbers.mean():.6g} std {numbers.std():.6g}"
