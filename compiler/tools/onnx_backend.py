"""The ONNX project's backend interface, so that its conformance suite can run Flowloom."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

import compiler


class FlowloomRep(BackendRep):
    """A compiled model with the interface of ONNX's backends."""

    def __init__(self, module: compiler.Module):
        self._module = module

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs in the model's order, for inputs in the model's order."""
        arrays = [np.asarray(value) for value in inputs]
        names = [spec.name for spec in self._module.inputs]
        return tuple(self._module.run(dict(zip(names, arrays, strict=True))).values())


class FlowloomBackend(Backend):
    """`onnx.backend.test.BackendTest(FlowloomBackend, __name__)` runs ONNX's suite."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> FlowloomRep:
        """Compile the model for the CPU."""
        return FlowloomRep(compiler.compile(model))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Sequence[Any], device: str = "CPU", **_: Any
    ) -> tuple[Any, ...]:
        """Compile and run once."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU."""
        return device.split(":")[0] == "CPU"
