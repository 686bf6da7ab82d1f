"""Random inputs of an executor, for runs whose time counts and whose results do not."""

import numpy as np

from compiler.backends.gpu.executor import GpuExecutor
from compiler.backends.gpu.memory import as_bytes, upload
from compiler.backends.memory import numpy_dtype


def fill_inputs(executor: GpuExecutor) -> None:
    """Put random numbers into an executor's own inputs (integers are 0 or 1: valid indices)."""
    chance = np.random.default_rng(0)
    for array in executor.in_place("input").values():
        floats = chance.standard_normal(array.shape, np.float32)
        data = floats if "float" in array.dtype else chance.integers(0, 2, array.shape)
        values = np.ascontiguousarray(data.astype(numpy_dtype(array.dtype)))
        upload(executor.driver, [(array.address, as_bytes(values))])
