"""Bundles of kernels that a driver without a GPU can run, and ways to measure them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from compiler.autotune.kernels.bundle import Bundle, KernelCandidate, OperandBuffer, TunableKernel
from compiler.autotune.kernels.measure import header_of, measure
from compiler.autotune.kernels.results import Result, ResultFile, load_results
from compiler.kernels.database.fields import Config, problem_key
from compiler.schedule.kernels import Launch
from tests.backends.gpu.recording import RecordingDriver
from tests.frontend.checks import parse

ELF = b"\x7fELF"
SIZE = 64


def double(source: Any, result: Any, *scratch: Any) -> None:
    """A right kernel."""
    result.view(np.float32)[:SIZE] = 2 * source.view(np.float32)[:SIZE]


def forget(source: Any, result: Any) -> None:
    """A kernel that leaves its last element out."""
    result.view(np.float32)[: SIZE - 1] = 2 * source.view(np.float32)[: SIZE - 1]


def key_of(name: str) -> str:
    """A problem of a template of that name."""
    return problem_key(name, {})


KEY = key_of("k")


def config(number: int) -> Config:
    """A config of one field."""
    return (("number", number),)


def candidate(number: int, symbol: str, times: int = 1, scratch: int = 0) -> KernelCandidate:
    """A candidate whose launches take as many microseconds as there are."""
    args = (0, 1, 2) if scratch else (0, 1)
    launches = (Launch(symbol, args),) * times
    return KernelCandidate(
        config(number), symbol, launches, (scratch,) if scratch else (), float(times)
    )


def kernel(key: str, *candidates: KernelCandidate, weight: float = 1.0) -> TunableKernel:
    """A kernel of one operand and one result."""
    buffer = OperandBuffer("float32", (SIZE,))
    return TunableKernel(
        key_of(key), f"kernel_{key}", "v", weight, (buffer,), (buffer,), candidates
    )


def make_bundle(*candidates: KernelCandidate) -> Bundle:
    """A bundle of one kernel."""
    return Bundle("sm_90", "sm_90a", {"a.cuh": ""}, (kernel("k", *candidates),))


def compiled(texts: Sequence[str]) -> Iterator[tuple[int, bytes | str]]:
    """Cubins in an order that brings the reference last."""
    for number in reversed(range(len(texts))):
        yield number, ("no" if texts[number] == "broken" else ELF)


def driver() -> RecordingDriver:
    """A device that knows both kernels."""
    return RecordingDriver({"double": double, "forget": forget})


def run(path: Path, bundle: Bundle, **options: Any) -> list[Result]:
    """Measure on a fake device."""
    device = options.pop("driver", None) or driver()
    results = ResultFile(path, header_of(device, bundle))
    measure(device, bundle, results, options.pop("compiler", compiled), **options)
    results.close()
    return load_results(path)[1]


def bottleneck() -> onnx.ModelProto:
    """Pointwise convolutions: one may replace the first two, the third stays."""
    random = np.random.default_rng(0)
    weights = {
        name: 0.2 * random.standard_normal((*channels, 1, 1), np.float32)
        for name, channels in (("u", (32, 64)), ("v", (96, 32)), ("w", (96, 96)))
    }
    text = """g (float[1,64,7,7] x) => (float[1,96,7,7] y) {
        a = Conv(x, u) b = Conv(a, v) c = Relu(b) d = Conv(c, w) y = Relu(d) }"""
    return parse(text, 21, **weights)
