"""Inputs and outputs of a session that are bound to memory before it runs."""

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from compiler.backends.gpu.arrays import DeviceArray
from compiler.errors import InvalidArgument
from compiler.interfaces.onnxruntime.device_memory import driver_of, fill
from compiler.interfaces.onnxruntime.node_arg import NodeArg, element_dtype
from compiler.interfaces.onnxruntime.ort_value import DEVICE_WORD, OrtValue, wrapped
from compiler.schedule.tasks import Allocation
from compiler.support.arguments import (
    ADDRESS,
    MAPPING,
    SEQUENCE,
    SHAPE,
    SIZE,
    TEXT,
    ArgumentKind,
    check_arguments,
    instance,
    own_errors,
)

_KINDS: Mapping[str, ArgumentKind] = {
    "inputs": SEQUENCE,
    "outputs": SEQUENCE,
    "name": TEXT,
    "device_type": DEVICE_WORD,
    "device_id": SIZE,
    "results": MAPPING,
    "device": TEXT,
    "ortvalue": instance(OrtValue, "an OrtValue"),
}
"""The arguments of a binding's methods."""

MEMORY: Mapping[str, ArgumentKind] = {"shape": SHAPE, "buffer_ptr": ADDRESS}
"""The arguments that describe memory of the caller's."""


def memory_at(
    device: str, ordinal: int, element_type: Any, shape: Sequence[int], pointer: int
) -> OrtValue:
    """The caller's memory on a device, which must live as long as the binding."""
    dtype = element_dtype(element_type)
    if device == "cpu":
        # The caller's memory at an address, as an array that shares it.
        nbytes = prod(shape) * dtype.itemsize
        memory = (ctypes.c_uint8 * nbytes).from_address(pointer)
        return OrtValue(np.ctypeslib.as_array(memory).view(dtype).reshape(shape))
    return OrtValue(
        DeviceArray(
            driver_of(device, ordinal),
            Allocation("output", "", dtype.name, tuple(shape)),
            pointer,
            None,
        ),
        device,
    )


@own_errors(_KINDS)
class IOBinding:
    """The memory of a session's inputs and outputs; made by `InferenceSession.io_binding`."""

    def __init__(self, inputs: Sequence[NodeArg], outputs: Sequence[NodeArg]) -> None:
        self._inputs = {arg.name for arg in inputs}
        self._outputs = {arg.name for arg in outputs}
        self.inputs: dict[str, OrtValue] = {}
        self.targets: dict[str, OrtValue | str] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Give an input an array of the host."""
        self.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(array))

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Give an input the caller's memory, which each run reads again."""
        check_arguments({"shape": shape, "buffer_ptr": buffer_ptr}, MEMORY)
        value = memory_at(device_type, device_id, element_type, shape, buffer_ptr)
        self.bind_ortvalue_input(name, value)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Give an input a value; raises InvalidArgument for an unknown name."""
        _check_name("input", name, self._inputs)
        self.inputs[name] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output on a device, in the caller's memory if an address is given."""
        memory = {"shape": shape, "buffer_ptr": buffer_ptr}
        check_arguments({n: v for n, v in memory.items() if v is not None}, MEMORY)
        if buffer_ptr is None:
            _check_name("output", name, self._outputs)
            self.targets[name] = device_type
            return
        if element_type is None or shape is None:
            raise InvalidArgument(
                f"the output {name!r} needs element_type and shape with buffer_ptr"
            )
        value = memory_at(device_type, device_id, element_type, shape, buffer_ptr)
        self.bind_ortvalue_output(name, value)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Write an output to a value; raises InvalidArgument for an unknown name."""
        _check_name("output", name, self._outputs)
        self.targets[name] = ortvalue

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: a run follows what is queued on the default stream."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for: a run returns when its outputs are complete."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays of the host."""
        return [v.numpy() if v.is_tensor() else v.value for v in self._results]

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs, and the results of the last run."""
        self.targets.clear()
        self._results = []

    def take(self, results: Mapping[str, Any], device: str) -> None:
        """Keep the outputs of a run, copied to the memory that they are bound to."""
        self._results = [self._placed(name, results[name], device) for name in self.targets]

    def _placed(self, name: str, result: Any, device: str) -> OrtValue:
        target = self.targets[name]
        if isinstance(target, str):
            value = wrapped(result, device)
            moved = value.is_tensor() and (value.device_name() == "cpu") != (target == "cpu")
            return OrtValue.ortvalue_from_numpy(value.numpy(), target) if moved else value
        if result is not target.value:
            _copy(name, wrapped(result, device), target)
        return target


def _copy(name: str, result: OrtValue, target: OrtValue) -> None:
    if result.dtype != target.dtype or result.shape() != target.shape():
        raise InvalidArgument(
            f"the output {name!r} is {result.dtype}{result.shape()}, and is bound to memory of"
            f" {target.dtype}{target.shape()}"
        )
    if isinstance(target.value, DeviceArray):
        fill(target.value, np.ascontiguousarray(result.numpy()))
    else:
        target.value[...] = result.numpy()


def _check_name(kind: str, name: str, names: set[str]) -> None:
    if name not in names:
        raise InvalidArgument(
            f"the model has no {kind} {name!r}; its {kind}s are {', '.join(sorted(names))}"
        )
