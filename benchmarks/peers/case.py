"""One model at one batch size: PyTorch's module, the ONNX file, inputs and references."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from benchmarks.gpu_peers import exported_file
from benchmarks.peers.contenders import Tensors, reference
from benchmarks.peers.floor import Demand, demand_of
from benchmarks.peers.weights import adopt
from compiler.frontend.importing import import_model
from compiler.tools.reference import run_onnxruntime
from examples import light, named
from examples.zoo.export import to_onnx

WEIGHT_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


@dataclass
class Case:
    """The input of all contenders; `model` is None where no ONNX file of this batch is given."""

    name: str
    module: torch.nn.Module
    inputs: Tensors
    expected: list[np.ndarray]
    model: onnx.ModelProto | None
    expected_by_onnxruntime: list[np.ndarray]
    demand: Demand | None

    def in_precision(self, precision: str) -> tuple[torch.nn.Module, Tensors]:
        """The module and its inputs as PyTorch runs them: all in half precision for fp16."""
        if precision != "fp16":
            return self.module, self.inputs
        halves = tuple(i.half() if i.is_floating_point() else i for i in self.inputs)
        return copy.deepcopy(self.module).half(), halves

    @property
    def named_inputs(self) -> dict[str, np.ndarray]:
        """The inputs by the ONNX file's names."""
        assert self.model is not None
        return _named(self.model, self.inputs)

    @property
    def difference(self) -> float | None:
        """How far PyTorch's float32 outputs are from onnxruntime's."""
        if self.model is None:
            return None
        return relative_error(self.expected, self.expected_by_onnxruntime)

    def floor_us(self, precision: str) -> float | None:
        """The least microseconds that the model can take."""
        if self.demand is None:
            return None
        return round(self.demand.floor_us(WEIGHT_BYTES[precision]), 2)


def relative_error(outputs: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest of the outputs' errors, relative in the Euclidean norm; NaN if any is."""
    errors = [
        np.linalg.norm(got.astype(np.float64) - array) / (np.linalg.norm(array) or 1)
        for got, array in zip(outputs, expected, strict=True)
    ]
    return float(np.max(errors))


def build(name: str, batch: int, weights: str, exported: Path | None) -> Case:
    """Build a model; `weights` are the ONNX file's (`zoo`) or the module's own.

    For `torch`, its own are exported; for `own` there is no ONNX file at all.
    The file of a batch other than 1 is `exported/BATCH/NAME.light.onnx`.
    """
    torch.manual_seed(0)
    module, inputs = named.builder(name)(batch)
    module = module.eval()
    model = None
    if weights == "torch":
        model = to_onnx(named.bare(name), module, inputs)
    elif weights == "zoo":
        model = zoo_model(name, batch, exported)
    if weights == "zoo" and model is not None:
        adopt(module, inputs, model)
    module, on_device = module.cuda(), tuple(tensor.cuda() for tensor in inputs)
    by_onnxruntime: list[Any] = []
    if model is not None:
        model.graph.name = named.bare(name)
        by_onnxruntime = list(run_onnxruntime(model, _named(model, inputs)).values())
    with torch.no_grad():
        expected = reference(module, on_device)
    least = None if model is None else demand_of(import_model(model))
    return Case(name, module, on_device, expected, model, by_onnxruntime, least)


def zoo_model(name: str, batch: int, exported: Path | None) -> onnx.ModelProto | None:
    """The network's file, or the one exported for a batch size; None if there is none."""
    path = named.path(name) if batch == 1 else exported_file(name, batch, exported)
    return None if path is None else light.load_file(path)


def _named(model: onnx.ModelProto, inputs: Tensors) -> dict[str, np.ndarray]:
    given = {tensor.name for tensor in model.graph.initializer}
    names = [info.name for info in model.graph.input if info.name not in given]
    arrays = [tensor.cpu().numpy() for tensor in inputs]
    return dict(zip(names, arrays, strict=True))
