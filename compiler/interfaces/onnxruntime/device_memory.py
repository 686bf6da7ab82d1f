"""Tensors of sessions on a GPU: new ones, copies from the host, and those of other owners."""

from collections.abc import Sequence

from compiler.backends.cuda import device as cuda
from compiler.backends.emu import device as emu
from compiler.backends.gpu.arrays import DeviceArray
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.memory import as_bytes, upload
from compiler.backends.gpu.sharing import DeviceMemory
from compiler.backends.memory import Array
from compiler.errors import DeviceError
from compiler.schedule.tasks import Allocation
from compiler.tensors.dtypes import numpy_name

DEVICE_WORDS = ("cpu", "cuda", "gpu", "emu")
"""onnxruntime's words for devices, and the emulator's."""


def driver_of(device: str, ordinal: int) -> Driver:
    """The driver of a device by onnxruntime's word; raises DeviceError."""
    if device in ("cuda", "gpu"):
        return cuda.device(ordinal)
    if device == "emu":
        return emu.device()
    raise DeviceError(f"tensors cannot be on {device!r}: use cpu or cuda")


def empty_on(driver: Driver, dtype: str, shape: Sequence[int]) -> DeviceArray:
    """A new tensor, not initialised."""
    allocation = Allocation("output", "", dtype, tuple(shape))
    driver.make_current()
    memory = DeviceMemory(driver, max(1, allocation.nbytes), "a tensor of a session")
    return DeviceArray(driver, allocation, memory.address, memory)


def copied_to(driver: Driver, array: Array) -> DeviceArray:
    """A copy of an array of the host."""
    copy = empty_on(driver, numpy_name(array.dtype), array.shape)
    fill(copy, array)
    return copy


def fill(tensor: DeviceArray, array: Array) -> None:
    """Overwrite a tensor with an array of its dtype and shape."""
    tensor.driver.make_current()
    upload(tensor.driver, [(tensor.address, as_bytes(array))])
