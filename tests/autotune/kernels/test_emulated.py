"""Real candidates of every template are compiled and measured on the emulator, and agree."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.autotune.kernels import measure as measuring
from compiler.autotune.kernels.bundle import Bundle, TunableKernel
from compiler.autotune.kernels.prepare import prepare_bundle
from compiler.backends.emu.device import device
from compiler.emulator.compile import compile_kernels
from compiler.kernels.database.fields import problem_fields
from tests.autotune.kernels.make import run
from tests.autotune.kernels.test_tune import network
from tests.kernels.attention_models import Attention
from tests.kernels.gpu.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def depthwise() -> onnx.ModelProto:
    """One convolution of a channel a group."""
    values = np.random.default_rng(0).standard_normal((16, 1, 3, 3)).astype(np.float32)
    weight = onnx.numpy_helper.from_array(values, "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=16, pads=[1, 1, 1, 1])
    shape = [1, 16, 14, 14]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy"]
    graph = helper.make_graph([node], "depthwise", infos[:1], infos[1:], [weight])
    opset = helper.make_opsetid("", 18)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def two_of(kernel: TunableKernel) -> TunableKernel:
    """A kernel with its first candidate and its last one that the emulator knows."""
    known = [c for c in kernel.candidates if "wgmma_gemm" not in c.text]
    return replace(kernel, candidates=(known[0], known[-1]))


def bundle() -> Bundle:
    """Two candidates of each template."""
    attention = Attention("plain", "none", 1, 2, 40, 100, 16, 16).model()
    models = [("gemms", network()), ("attention", attention), ("depthwise", depthwise())]
    found = prepare_bundle(models, ["tf32"], "sm_90", 40)
    return replace(found, arch="emu", kernels=tuple(map(two_of, found.kernels)))


def test_candidates_of_every_template_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measuring, "LINKS", (1, 1))
    monkeypatch.setattr(measuring, "COLD_WITHIN", 0.0)
    monkeypatch.setattr(measuring, "MOST_SECONDS", 60.0)
    found = bundle()
    symbols = {
        c.text: [s for launch in c.launches for s in launch.symbols]
        for kernel in found.kernels
        for c in kernel.candidates
    }

    def compiled(texts: Sequence[str], **_: Any) -> Iterator[tuple[int, bytes | str]]:
        for number, text in enumerate(texts):
            yield number, compile_kernels(text, symbols[text])

    results = run(tmp_path / "r", found, driver=device(), compiler=compiled)
    assert {problem_fields(result.key)["template"] for result in results} == {
        *("gemm", "attention", "row_norm", "grouped_conv")
    }
    assert len(results) == 8
    assert [result.problem for result in results] == [""] * 8
