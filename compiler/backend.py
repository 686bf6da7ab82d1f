"""ONNX's backend interface: `prepare`, `run_model`, `run_node` and `supports_device`.

`onnx.backend.test.BackendTest(compiler.backend, __name__)` runs ONNX's conformance suite.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, shape_inference
from onnx.backend.base import Backend, BackendRep

import compiler
from compiler.errors import DeviceError
from compiler.interfaces.onnxruntime.providers import absence
from compiler.support.arguments import (
    COMPILE,
    SEQUENCE,
    TEXT,
    ArgumentKind,
    check_arguments,
    instance,
    optional,
    own_errors,
)

if TYPE_CHECKING:
    from compiler.program.model import DynamicModule

TARGET_OF: Mapping[str, str] = {
    "CPU": "cpu",
    "CUDA": "cuda",
    "GPU": "cuda",
    "ROCM": "hip",
    "EMU": "emu",
}
"""The target of each kind of device that `prepare` takes; `:0` may follow."""


def _runs(value: object) -> bool:
    return hasattr(value, "run")


_KINDS: Mapping[str, ArgumentKind] = {
    "model": COMPILE["model"],
    "device": TEXT,
    "target": optional(TEXT),
    "node": instance(onnx.NodeProto, "an onnx.NodeProto"),
}
"""The arguments of the backend's functions."""


@own_errors({"module": ArgumentKind("a compiled module", _runs)})
class FlowloomRep(BackendRep):
    """A compiled model with the interface of ONNX's backends."""

    def __init__(self, module: "compiler.Module | DynamicModule"):
        self.module = module

    @property
    def runs_on_host(self) -> bool:
        """Whether some node ran on the host instead of as a kernel."""
        return bool(getattr(self.module, "on_host", {}))

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs in the model's order, for inputs in the model's order, by name or alone."""
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if hasattr(inputs, "keys"):
            return tuple(self.module.run(inputs).values())
        names = [spec.name for spec in self.module.inputs]
        values = dict(zip(names, map(_plain, inputs), strict=False))
        return tuple(self.module.run(values).values())


def _plain(value: Any) -> Any:
    """A tensor as an array; sequences and empty optionals as they are."""
    return np.asarray(value) if hasattr(value, "shape") or np.isscalar(value) else value


def _target_of(device: str) -> str:
    kind = device.split(":")[0].upper()
    if kind not in TARGET_OF:
        raise DeviceError(f"unknown device {device!r}; the devices are {', '.join(TARGET_OF)}")
    return TARGET_OF[kind]


def _model_of(
    node: onnx.NodeProto, inputs: Sequence[np.ndarray], opset: int | None
) -> onnx.ModelProto:
    """A model of one node, with the types of its inputs."""
    names = [name for name in node.input if name]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], node.op_type, infos, outputs)
    version = onnx.defs.onnx_opset_version() if opset is None else opset
    imports = [helper.make_opsetid(node.domain, version)]
    return shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports))


@own_errors(_KINDS)
class FlowloomBackend(Backend):
    """The same as a class, as ONNX's interface has it."""

    @classmethod
    def prepare(
        cls,
        model: onnx.ModelProto | str | os.PathLike[str] | bytes,
        device: str = "CPU",
        target: str | None = None,
        **options: Any,
    ) -> FlowloomRep:
        """Compile a model for a device, or a target, with the options of `compiler.compile`.

        Results are those of the ONNX text unless `semantics` says otherwise. Raises a
        FlowloomError.
        """
        chosen = _target_of(device) if target is None else target
        options.setdefault("semantics", "onnx")
        return FlowloomRep(compiler.compile(model, target=chosen, **options))

    @classmethod
    def run_model(
        cls,
        model: onnx.ModelProto | str | os.PathLike[str] | bytes,
        inputs: Any,
        device: str = "CPU",
        **options: Any,
    ) -> tuple[Any, ...]:
        """Compile and run once; `options` are those of `prepare`."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Any = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays, in the newest opset unless `opset` gives one."""
        opset: int | None = options.pop("opset", None)
        check_arguments({"inputs": inputs}, {"inputs": SEQUENCE})
        arrays = [np.asarray(value) for value in inputs]
        return cls.run_model(_model_of(node, arrays, opset), arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models can be prepared for a device and run on it here."""
        target = TARGET_OF.get(device.split(":")[0].upper())
        return target is not None and absence(target) is None


prepare = FlowloomBackend.prepare
run_model = FlowloomBackend.run_model
run_node = FlowloomBackend.run_node
supports_device = FlowloomBackend.supports_device
