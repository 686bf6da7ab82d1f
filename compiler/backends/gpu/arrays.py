"""Arrays in and out of a run: numpy, and device memory of any library without a copy.

Device arrays are recognised by `__cuda_array_interface__` (which AMD builds use too) or DLPack.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from compiler.backends.gpu import dlpack
from compiler.backends.gpu.driver import Driver, Handle
from compiler.backends.gpu.memory import Pinned
from compiler.backends.memory import Array
from compiler.errors import DeviceError, ShapeError
from compiler.schedule.tasks import Allocation
from compiler.tensors.dtypes import ELEMENT_BYTES, numpy_dtype

HOST_DEVICES = (1, 3, 11)
"""DLPack's device types of memory that the host can read: plain and page-locked."""

LEGACY_STREAM = 1
"""DLPack's and the array interface's number for the legacy default stream."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """Contiguous device memory of another owner, written on `stream`, if one is given."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    stream: int | None
    owner: object

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * ELEMENT_BYTES[self.dtype]


def fingerprint(array: Any) -> object:
    """A cheap key that is equal for the same device memory; unique if it cannot be known.

    PyTorch's tensors have attributes for it; their array interface costs microseconds.
    """
    if isinstance(array, DeviceArray):
        return array.fingerprint
    if getattr(array, "is_cuda", False) and hasattr(array, "data_ptr"):
        return array.data_ptr(), array.dtype, array.shape, array.stride()
    interface = _interface(array)
    return object() if interface is None else interface


def _interface(array: Any) -> dict[str, Any] | None:
    """An array's interface; None if it has none (PyTorch raises for types it cannot express)."""
    try:
        return array.__cuda_array_interface__
    except (AttributeError, KeyError, RuntimeError, TypeError):
        return None


def device_view(array: Any, driver: Driver, stream: Handle) -> DeviceView | None:
    """The device memory of an array, or None if the array is in host memory.

    A DLPack producer orders its work before `stream`; ShapeError if the memory is not contiguous.
    """
    if isinstance(array, np.ndarray):
        return None
    if isinstance(array, DeviceArray):
        return DeviceView(array.address, array.dtype, array.shape, None, array)
    interface = _interface(array)
    if interface is not None:
        dtype = np.dtype(interface["typestr"])
        # numpy has no bfloat16, so libraries announce it as two raw bytes
        name = "bfloat16" if dtype.kind == "V" and dtype.itemsize == 2 else dtype.name
        shape = tuple(interface["shape"])
        strides = interface.get("strides")
        if strides is not None:
            _check_contiguous(shape, tuple(step // dtype.itemsize for step in strides))
        return DeviceView(interface["data"][0], name, shape, interface.get("stream"), array)
    if not hasattr(array, "__dlpack_device__"):
        return None
    kind, ordinal = array.__dlpack_device__()
    if int(kind) in HOST_DEVICES:
        return None
    device = int(kind), int(ordinal)
    if device != driver.dlpack_device:
        raise ShapeError(
            f"an array is on DLPack device {device}, the executable on "
            f"{driver.dlpack_device}: move the array or load the module on its device"
        )
    on_cuda = device[0] == dlpack.CUDA
    # on CUDA the protocol forbids 0, which might mean either of the default streams
    capsule = array.__dlpack__(
        stream=driver.handle_address(stream) or (LEGACY_STREAM if on_cuda else 0)
    )
    if (lender := dlpack.place_of(capsule)) != device:
        raise ShapeError(
            f"an array says that it is on DLPack device {device}, and lends memory of {lender}:"
            " correct its __dlpack_device__, or pass a numpy array"
        )
    address, dtype, shape, strides = dlpack.read(capsule)
    _check_contiguous(shape, strides)
    return DeviceView(address, dtype, shape, None, capsule)


def _check_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides or ()), strict=False):
        if extent != 1 and stride != expected:
            raise ShapeError(
                f"a device array of shape {list(shape)} has strides {strides}: make it contiguous"
            )
        expected *= extent


def check_fits(allocation: Allocation, dtype: str, shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless an array has the dtype and shape of an input or output."""
    if dtype != allocation.dtype or shape != allocation.shape:
        raise ShapeError(
            f"{allocation.kind} {allocation.name!r} must be {allocation.dtype}"
            f"{list(allocation.shape)}, not {dtype}{list(shape)}"
        )


class DeviceArray:
    """An output left on the device: an executor's buffer, overwritten by its next run.

    Other libraries read it without a copy through `__cuda_array_interface__` or DLPack.
    """

    def __init__(self, driver: Driver, allocation: Allocation, address: int, owner: object) -> None:
        self._driver = driver
        self._owner = owner
        self.address = address
        self.allocation = allocation
        self.dtype = allocation.dtype
        self.shape = allocation.shape
        self.nbytes = allocation.nbytes
        self.fingerprint = address, self.dtype, self.shape

    @property
    def driver(self) -> Driver:
        """The device that holds it."""
        return self._driver

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        typestr = "<V2" if self.dtype == "bfloat16" else numpy_dtype(self.dtype).str
        data = (self.address, False)
        return {"shape": self.shape, "typestr": typestr, "data": data, "version": 3}

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._driver.dlpack_device

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule of the memory; a host's library gets a copy if it asks for its own device.

        Raises DeviceError for one that asks for none, as numpy does: it could not read the memory,
        and would fail without a reason.
        """
        target = options.get("dl_device")
        if target is not None and target[0] in HOST_DEVICES and options.get("copy") is not False:
            return self.numpy().__dlpack__(max_version=options.get("max_version"))
        if "max_version" in options and "stream" not in options:
            raise DeviceError(
                f"an array on {self._driver.device.name} is not in the host's memory: copy it by"
                " its numpy()"
            )
        return dlpack.make(self.address, self.dtype, self.shape, self._driver.dlpack_device, self)

    def numpy(self) -> Array:
        """A copy in host memory, made after what is queued on the device's default stream."""
        self._driver.make_current()
        pinned = Pinned(self._driver, max(1, self.nbytes))
        stream = self._driver.create_stream(ordered_with_default=True)
        self._driver.copy(pinned.address, self.address, self.nbytes, stream)
        self._driver.synchronize_stream(stream)
        self._driver.destroy_stream(stream)
        array = pinned.bytes[: self.nbytes].view(numpy_dtype(self.dtype)).reshape(self.shape).copy()
        pinned.close()
        return array
