"""What onnxruntime makes of the same model: the reference of `--check` and of the benchmarks."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from compiler.errors import ModelError

Array = NDArray[Any]


@dataclass(frozen=True)
class Difference:
    """How far one output is from the reference, and what it may be."""

    name: str
    largest: float
    scale: float
    passed: bool


@dataclass(frozen=True)
class Comparison:
    """All outputs against the reference."""

    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """Whether every output is within the tolerance."""
        return all(each.passed for each in self.differences)

    def __str__(self) -> str:
        lines = [
            f"{'ok  ' if d.passed else 'FAIL'} {d.name}: largest difference {d.largest:.3g}, "
            f"largest value {d.scale:.3g}"
            for d in self.differences
        ]
        return "\n".join(lines)


def compare(
    outputs: Mapping[str, Array],
    expected: Mapping[str, Array],
    rtol: float = 1e-3,
    atol: float = 1e-4,
) -> Comparison:
    """Compare by `|a - b| <= rtol * |b| + atol * max|b|`, elementwise; integers exactly."""
    return Comparison(
        tuple(
            _difference(name, outputs[name], array, rtol, atol) for name, array in expected.items()
        )
    )


def _difference(name: str, actual: Array, expected: Array, rtol: float, atol: float) -> Difference:
    if expected.dtype.kind in "iub":
        passed = bool(np.array_equal(actual, expected))
        return Difference(name, float(np.count_nonzero(actual != expected)), 0.0, passed)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    passed = a.shape == b.shape and np.allclose(
        a, b, rtol=rtol, atol=atol * scale + 1e-30, equal_nan=True
    )
    largest = float(np.max(np.abs(a - b), initial=0.0)) if a.shape == b.shape else float("inf")
    return Difference(name, largest, scale, bool(passed))


def session(model: Any, threads: int | None = None) -> Any:
    """An onnxruntime CPU session of a path, bytes or ModelProto."""
    import onnxruntime as untyped

    onnxruntime: Any = untyped
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # failures are raised
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    source = str(model) if isinstance(model, Path | str) else model
    try:
        with tempfile.TemporaryDirectory() as folder:
            if not isinstance(source, str | bytes):
                source = _serialized(source, Path(folder))
            return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"onnxruntime cannot load the model to compare with: {error}") from error


def _serialized(model: Any, folder: Path) -> str | bytes:
    """A model's bytes, or the path of a copy with external data beyond protobuf's 2 GB."""
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) < 1 << 30:
        return model.SerializeToString()
    import onnx

    copied, path = type(model)(), folder / "model.onnx"
    copied.CopyFrom(model)
    cast(Any, onnx).save(copied, path, save_as_external_data=True)
    return str(path)


def run_onnxruntime(model: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """onnxruntime's outputs by name."""
    reference = session(model)
    names = [output.name for output in reference.get_outputs()]
    return dict(zip(names, reference.run(None, dict(inputs)), strict=True))
