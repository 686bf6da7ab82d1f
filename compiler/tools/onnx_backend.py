"""The ONNX project's backend interface, so that its conformance suite can run Flowloom."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

import compiler

if TYPE_CHECKING:
    from compiler.program.model import DynamicModule


class FlowloomRep(BackendRep):
    """A compiled model with the interface of ONNX's backends."""

    def __init__(self, module: "compiler.Module | DynamicModule"):
        self._module = module

    @property
    def runs_on_host(self) -> bool:
        """Whether some node ran on the host instead of as a kernel."""
        return bool(getattr(self._module, "on_host", {}))

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs in the model's order, for inputs in the model's order."""
        names = [spec.name for spec in self._module.inputs]
        values = dict(zip(names, map(_plain, inputs), strict=False))
        return tuple(self._module.run(values).values())


def _plain(value: Any) -> Any:
    """A tensor as an array; sequences and empty optionals as they are."""
    return np.asarray(value) if hasattr(value, "shape") or np.isscalar(value) else value


class FlowloomBackend(Backend):
    """`onnx.backend.test.BackendTest(FlowloomBackend, __name__)` runs ONNX's suite."""

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", target: str = "cpu", **options: Any
    ) -> FlowloomRep:
        """Compile the model, for the CPU by default, with the options of `compile`."""
        return FlowloomRep(compiler.compile(model, target=target, **options))

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
