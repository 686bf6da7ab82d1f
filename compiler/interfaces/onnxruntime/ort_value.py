"""Values of a session, on the host or on a device."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, cast

import numpy as np

from compiler.backends.emu.driver import EXTENSION
from compiler.backends.gpu.arrays import HOST_DEVICES, DeviceArray
from compiler.backends.gpu.dlpack import CUDA
from compiler.backends.host_arrays import native
from compiler.backends.memory import Array, address, aligned_array
from compiler.errors import InvalidArgument
from compiler.interfaces.onnxruntime.device_memory import (
    DEVICE_WORDS,
    copied_to,
    driver_of,
    empty_on,
    fill,
)
from compiler.interfaces.onnxruntime.node_arg import element_dtype, element_of, tensor_text
from compiler.support.arguments import (
    ARRAY,
    SHAPE,
    SIZE,
    ArgumentKind,
    choice_of,
    own_errors,
    whole,
)
from compiler.tensors.dtypes import numpy_dtype

DEVICE_WORD = choice_of(DEVICE_WORDS)
"""A device by its word."""


def _lends(value: object) -> bool:
    return all(hasattr(value, name) for name in ("__dlpack__", "__dlpack_device__"))


_KINDS: Mapping[str, ArgumentKind] = {
    "device": DEVICE_WORD,
    "array": ARRAY,
    "lender": ArgumentKind("an array with __dlpack__ and __dlpack_device__", _lends),
    "data": ARRAY,
    "device_type": DEVICE_WORD,
    "device_id": SIZE,
    "vendor_id": whole(-1),
    "onnx_element_type": SIZE,
    "shape": SHAPE,
}
"""The arguments of a value's methods; an OrtValue is an array, too."""


@own_errors(_KINDS)
class OrtValue:
    """A tensor, a sequence or an empty optional; `numpy.asarray` and DLPack read tensors.

    On the host a tensor is the array that it was made from, not a copy.
    """

    def __init__(self, value: Any, device: str = "cpu") -> None:
        """Take an array of the host, a tensor on a device, a list, or None."""
        if is_host_array(value) and device != "cpu":
            raise InvalidArgument(
                f"an array of the host is not on {device!r}: copy it by ortvalue_from_numpy"
            )
        self.value = value
        self._device = device

    @classmethod
    def ortvalue_from_numpy(
        cls, array: Array, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> "OrtValue":
        """The value of an array: the array itself on the host, a copy on a device."""
        if device_type == "cpu":
            return cls(native(np.asarray(array)))
        driver = driver_of(device_type, device_id)
        return cls(copied_to(driver, native(np.asarray(array))), device_type)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, array: Array, onnx_element_type: int) -> "OrtValue":
        """The value of an array whose bytes are read as an ONNX type of the same size."""
        return cls(np.asarray(array).view(element_dtype(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> "OrtValue":
        """A new tensor, not initialised; `element_type` is numpy's or ONNX's number."""
        dtype = element_dtype(element_type)
        if device_type == "cpu":
            return cls(aligned_array(shape, dtype))
        return cls(empty_on(driver_of(device_type, device_id), dtype.name, shape), device_type)

    @classmethod
    def from_dlpack(cls, lender: Any) -> "OrtValue":
        """The value of an array of any library, which shares its memory."""
        kind = int(lender.__dlpack_device__()[0])
        if kind in HOST_DEVICES:
            return cls(np.from_dlpack(lender))
        device = {CUDA: "cuda", EXTENSION: "emu"}.get(kind)
        if device is None:
            raise InvalidArgument(f"DLPack device {kind} is none of cpu and cuda: move the array")
        return cls(lender, device)

    def numpy(self) -> Array:
        """The tensor as an array of the host: a copy if it is on a device."""
        if not self.is_tensor():
            raise InvalidArgument(f"the value is {self.data_type()}: only tensors are arrays")
        return self.value if is_host_array(self.value) else host_array(self.value)

    def update_inplace(self, data: "Array | OrtValue") -> None:
        """Overwrite the tensor with one of its shape and type."""
        array = data.numpy() if isinstance(data, OrtValue) else native(np.asarray(data))
        if list(array.shape) != self.shape() or array.dtype != self.dtype:
            raise InvalidArgument(
                f"a {self.dtype}{self.shape()} cannot take {array.dtype}{list(array.shape)}"
            )
        if is_host_array(self.value):
            self.value[...] = array
        elif isinstance(self.value, DeviceArray):
            fill(self.value, np.ascontiguousarray(array))
        else:
            raise InvalidArgument("the tensor belongs to another library: update it there")

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The numpy dtype of a tensor."""
        dtype = self._tensor().dtype
        return numpy_dtype(dtype) if isinstance(dtype, str) else np.dtype(dtype)

    def shape(self) -> list[int]:
        """The sizes of a tensor."""
        return [int(size) for size in self._tensor().shape]

    def data_type(self) -> str:
        """The type as text: `tensor(float)`."""
        if self.value is None:
            return "optional"
        if not self.is_tensor():
            items = cast(list[Any], self.value)
            first = next((tensor_text(np.asarray(item).dtype) for item in items), "")
            return f"seq({first})"
        return tensor_text(self.dtype)

    def element_type(self) -> int:
        """ONNX's number of a tensor's type."""
        return element_of(self.dtype)

    def device_name(self) -> str:
        """Where it is: `cpu`, `cuda` or `emu`."""
        return self._device

    def data_ptr(self) -> int:
        """The address of a tensor's first element."""
        tensor: Any = self._tensor()
        if isinstance(tensor, np.ndarray):
            return address(cast(Array, tensor))
        return int(tensor.__cuda_array_interface__["data"][0])

    def tensor_size_in_bytes(self) -> int:
        """The bytes of a tensor."""
        return int(np.prod(self.shape(), dtype=np.int64)) * self.dtype.itemsize

    def has_value(self) -> bool:
        """False for an empty optional."""
        return self.value is not None

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return self.value is not None and not isinstance(self.value, list)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence."""
        return isinstance(self.value, list)

    def is_sparse_tensor(self) -> bool:
        """Never: sparse tensors are made dense."""
        return False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor().__dlpack_device__()

    def _tensor(self) -> Any:
        """The tensor; raises InvalidArgument for other values."""
        if not self.is_tensor():
            raise InvalidArgument(f"the value is {self.data_type()}, which is not a tensor")
        return self.value

    def __repr__(self) -> str:
        shape = f", {self.shape()}" if self.is_tensor() else ""
        return f"<OrtValue {self.data_type()}{shape} on {self._device}>"


def is_host_array(value: Any) -> TypeGuard[Array]:
    """Whether a value is an array in host memory."""
    return isinstance(value, np.ndarray)


def host_array(value: Any) -> Array:
    """A copy of a device's tensor in host memory."""
    return (value.cpu() if hasattr(value, "cpu") else value).numpy()


def wrapped(value: Any, device: str) -> OrtValue:
    """A result of a run: what is not in host memory is on `device`."""
    if isinstance(value, np.generic):
        return OrtValue(np.asarray(cast(Any, value)))
    hosted = value is None or isinstance(value, np.ndarray | list)
    return OrtValue(cast(Any, value)) if hosted else OrtValue(value, device)
