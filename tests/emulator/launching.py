"""Launching single kernels of a test's own text on arrays."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.backends.emu.device import device
from compiler.backends.emu.driver import EmulatedDriver
from compiler.emulator.compile import compile_kernels

Array = NDArray[Any]

HEADERS = "".join(f'#include "{n}.cuh"\n' for n in ("prelude", "instructions", "half", "bytes"))


@cache
def functions(text: str, symbols: tuple[str, ...]) -> Mapping[str, int]:
    """The kernels of a text on the emulated device."""
    image = compile_kernels(HEADERS + text, symbols)
    module = device(image).load_module(image)
    return {symbol: device().function(module, symbol) for symbol in symbols}


def launch(
    function: int,
    arrays: Sequence[Array],
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    shared: int = 0,
    *,
    seed: int = 0,
    warp: int = 32,
    extents: bool = True,
) -> None:
    """Run a kernel on arrays, which it reads and writes in place; DeviceError if it fails."""
    driver: EmulatedDriver = device()
    driver.configure(seed, warp)
    sizes = [array.nbytes for array in arrays]
    addresses = [array.ctypes.data for array in arrays]
    call = driver.call(function, grid, block, shared, addresses, sizes if extents else None)
    driver.launch(call, 0)
    driver.synchronize_stream(0)


def zeros(count: int, dtype: str = "float32") -> Array:
    """Zeros of a type."""
    return np.zeros(count, dtype)
