"""Runs a kernel on a CUDA device."""

import numpy
import pytest

from compiler.backends.cuda.driver import CudaDriver
from compiler.errors import DeviceError
from compiler.graph.packing import apply_packing
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.gpu.emulator import Array
from tests.kernels.harness import laid_out, logical


def present() -> CudaDriver:
    """The driver of the first device; skips the test without one."""
    try:
        found = CudaDriver()
        found.make_current()
    except DeviceError as error:
        pytest.skip(str(error))
    return found


def run(driver: CudaDriver, kernel: KernelSource, group: Group, inputs: list[Array]) -> Array:
    """The first result of a kernel with one launch."""
    (launch,) = kernel.launches
    target = parse_gpu(f"cuda:{driver.device.architecture}:fp16")
    image = compile_cubin(complete_text(kernel.text), target)
    module = driver.load_module(image)
    function = driver.function(module, launch.symbol)
    driver.allow_shared(function, launch.shared_bytes)
    packings = kernel.packings or [""] * group.inputs
    triples = zip(inputs, group.reads, packings, strict=True)
    arrays = [
        numpy.ascontiguousarray(apply_packing(laid_out(a, info), p)) for a, info, p in triples
    ]
    result = numpy.full(group.writes[0].nbytes, 0xFF, numpy.uint8)
    arrays.append(result)
    places = [driver.allocate(array.nbytes) for array in arrays]
    stream = driver.create_stream()
    for place, array in zip(places, arrays, strict=True):
        driver.copy(place, array.ctypes.data, array.nbytes, stream)
    given = [places[i] for i in launch.args]
    call = driver.call(function, launch.grid, launch.block, launch.shared_bytes, given)
    driver.launch(call, stream)
    driver.copy(result.ctypes.data, places[-1], result.nbytes, stream)
    driver.synchronize_stream(stream)
    for place in places:
        driver.free(place)
    driver.destroy_stream(stream)
    driver.unload_module(module)
    written = group.writes[0]
    return logical(result.view(numpy_dtype(written.dtype)), written)
