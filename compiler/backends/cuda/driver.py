"""The CUDA driver API, through `cuda-bindings`, as a `compiler.backends.gpu.driver.Driver`."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from importlib import import_module
from typing import Any, Literal, NoReturn, cast

from compiler.backends.cuda.clusters import allow_cluster
from compiler.backends.cuda.spin import SPIN
from compiler.backends.gpu import dlpack
from compiler.backends.gpu.driver import DeviceInfo, Direction, FunctionInfo, Handle, PreparedLaunch
from compiler.errors import DeviceError
from compiler.schedule.tasks import ControlKind

OLDEST_DRIVER = 13000
"""The oldest driver that the bindings and the compiler's cubins work with: CUDA 13.0."""


@cache
def bindings() -> Any:
    """The module `cuda.bindings.driver`, initialised; DeviceError says what is missing."""
    try:
        library: Any = import_module("cuda.bindings.driver")
    except ImportError as error:
        message = "the CUDA backend needs the package cuda-bindings: pip install 'flowloom[cuda]'"
        raise DeviceError(message) from error
    try:
        status = library.cuInit(0)[0]
    except RuntimeError as error:
        message = "no CUDA driver library (libcuda) was found: install the NVIDIA display driver"
        raise DeviceError(message) from error
    if status != library.CUresult.CUDA_SUCCESS:
        raise DeviceError(
            f"CUDA cannot be initialised ({status.name}): check with nvidia-smi that a GPU is "
            "present, visible (CUDA_VISIBLE_DEVICES) and that its driver is new enough"
        )
    version = library.cuDriverGetVersion()[1]
    if version < OLDEST_DRIVER:
        raise DeviceError(
            f"the NVIDIA driver is for CUDA {version_text(version)}, kernels need one for CUDA "
            f"{version_text(OLDEST_DRIVER)} or newer: update the driver"
        )
    return library


def version_text(version: int) -> str:
    """A version as NVIDIA writes it: 13.0 for 13000."""
    return f"{version // 1000}.{version % 1000 // 10}"


def check_status(result: tuple[Any, ...]) -> Any:
    """The value that a call of the bindings returned after its status; DeviceError if it failed."""
    if result[0]:
        fail(result[0])
    return result[1] if len(result) > 1 else None


def fail(status: Any) -> NoReturn:
    """Raise DeviceError with the driver's name and description of a status."""
    _, text = bindings().cuGetErrorString(status)
    described = text.decode() if text else "unknown error"
    raise DeviceError(f"the CUDA driver reports {status.name}: {described}")


def conditional_params(cu: Any, condition: int, kind: ControlKind, context: Handle) -> Any:
    """The parameters of a conditional node with one body, or with two for an `if`."""
    params = cu.CUgraphNodeParams()
    kinds = cu.CUgraphConditionalNodeType
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = cu.CUgraphConditionalHandle(condition)
    loops = kind == "loop"
    params.conditional.type = (
        kinds.CU_GRAPH_COND_TYPE_WHILE if loops else kinds.CU_GRAPH_COND_TYPE_IF
    )
    params.conditional.size = 1 if loops else 2
    params.conditional.ctx = context
    return params


class CudaCall:
    """One launch: the driver's parameter struct, and the addresses that it points to."""

    __slots__ = (
        "_pointers",
        "block",
        "function",
        "grid",
        "node",
        "params",
        "shared_bytes",
        "values",
    )

    def __init__(
        self,
        function: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
    ) -> None:
        self.function = function
        self.grid = grid
        self.block = block
        self.shared_bytes = shared_bytes
        self.values = (ctypes.c_uint64 * max(1, len(arguments)))(*arguments)
        start = ctypes.addressof(self.values)
        slots = range(start, start + 8 * len(self.values), 8)
        self._pointers = (ctypes.c_void_p * len(self.values))(*slots)
        self.params = ctypes.addressof(self._pointers)
        node = bindings().CUDA_KERNEL_NODE_PARAMS()
        node.func = self.function
        node.gridDimX, node.gridDimY, node.gridDimZ = self.grid
        node.blockDimX, node.blockDimY, node.blockDimZ = self.block
        node.sharedMemBytes = self.shared_bytes
        # the driver copies the values when it adds the node: the array may change later
        node.kernelParams = self.params
        self.node = node

    def set_argument(self, index: int, address: int) -> None:
        """Pass another device address at this position."""
        self.values[index] = address


class CudaDriver:
    """One CUDA device, used through its primary context (as PyTorch and CuPy do)."""

    language: Literal["cuda", "hip", "emu"] = "cuda"

    def __init__(self, ordinal: int = 0) -> None:
        cu = self._cu = bindings()
        count = check_status(cu.cuDeviceGetCount())
        if not 0 <= ordinal < count:
            raise DeviceError(f"there is no CUDA device {ordinal}: {count} are visible")
        self.ordinal = ordinal
        self.dlpack_device: tuple[int, int] = (dlpack.CUDA, ordinal)
        self._device = check_status(cu.cuDeviceGet(ordinal))
        self._context = check_status(cu.cuDevicePrimaryCtxRetain(self._device))
        self.make_current()

    @property
    def opener(self) -> "Callable[[], CudaDriver]":
        return partial(CudaDriver, self.ordinal)

    @property
    def device(self) -> DeviceInfo:
        return self._device_info

    @cached_property
    def _device_info(self) -> DeviceInfo:
        cu = self._cu
        version = check_status(cu.cuDriverGetVersion())
        major = self._attribute("COMPUTE_CAPABILITY_MAJOR")
        minor = self._attribute("COMPUTE_CAPABILITY_MINOR")
        name = cast(bytes, check_status(cu.cuDeviceGetName(256, self._device)))
        return DeviceInfo(
            name=name.split(b"\0")[0].decode().strip(),
            architecture=f"sm_{major}{minor}",
            ordinal=self.ordinal,
            driver_version=version_text(version),
            multiprocessors=self._attribute("MULTIPROCESSOR_COUNT"),
            memory_bytes=int(check_status(cu.cuDeviceTotalMem(self._device))),
            l2_bytes=self._attribute("L2_CACHE_SIZE"),
            shared_bytes_per_block=self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            clock_khz=self._attribute("CLOCK_RATE"),
            memory_clock_khz=self._attribute("MEMORY_CLOCK_RATE"),
            memory_bus_bits=self._attribute("GLOBAL_MEMORY_BUS_WIDTH"),
        )

    def _attribute(self, name: str) -> int:
        attribute = getattr(self._cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(check_status(self._cu.cuDeviceGetAttribute(attribute, self._device)))

    @property
    def priorities(self) -> tuple[int, int]:
        """The lowest and the highest priority of streams and of kernel nodes."""
        status, lowest, highest = self._cu.cuCtxGetStreamPriorityRange()
        check_status((status,))
        return int(lowest), int(highest)

    def make_current(self) -> None:
        check_status(self._cu.cuCtxSetCurrent(self._context))

    def load_module(self, image: bytes) -> Handle:
        """Load a cubin; DeviceError if it is for another architecture."""
        cu = self._cu
        result = cu.cuModuleLoadData(image)
        if result[0] in (
            cu.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,
            cu.CUresult.CUDA_ERROR_INVALID_IMAGE,
        ):
            architecture = self.device.architecture
            raise DeviceError(
                f"this image does not run on {self.device.name} ({result[0].name}): "
                f"compile it for {architecture} (--arch {architecture})"
            )
        return check_status(result)

    def unload_module(self, module: Handle) -> None:
        """Unload a cubin."""
        check_status(self._cu.cuModuleUnload(module))

    def function(self, module: Handle, symbol: str) -> Handle:
        status, function = self._cu.cuModuleGetFunction(module, symbol.encode())
        if status == self._cu.CUresult.CUDA_ERROR_NOT_FOUND:
            raise DeviceError(f"the image has no kernel {symbol!r}: compile the model again")
        return allow_cluster(self._cu, check_status, check_status((status, function)))

    def function_info(self, function: Handle) -> FunctionInfo:
        """The resources that a kernel uses, as its compiler wrote them down."""
        names = "NUM_REGS", "LOCAL_SIZE_BYTES", "SHARED_SIZE_BYTES", "MAX_THREADS_PER_BLOCK"
        attributes = (
            getattr(self._cu.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{n}") for n in names
        )
        return FunctionInfo(
            *(check_status(self._cu.cuFuncGetAttribute(a, function)) for a in attributes)
        )

    def allow_shared(self, function: Handle, nbytes: int) -> None:
        """Raise a kernel's limit of dynamic shared memory (48 KiB unless asked for)."""
        limit = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check_status(self._cu.cuFuncSetAttribute(function, limit, nbytes))

    def set_smem_carveout(self, function: Handle, percent: int) -> None:
        """Set the preferred shared-memory carveout; equal ones let kernels share an SM."""
        carveout = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        check_status(self._cu.cuFuncSetAttribute(function, carveout, percent))

    def blocks_per_multiprocessor(self, function: Handle, threads: int, shared_bytes: int) -> int:
        occupancy = self._cu.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return int(check_status(occupancy(function, threads, shared_bytes)))

    def call(
        self,
        function: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
        extents: Sequence[int] | None = None,
        indirect: bool = False,
    ) -> CudaCall:
        """Prepare a launch whose parameters are device addresses."""
        return CudaCall(function, grid, block, shared_bytes, arguments)

    def spin(self, nanoseconds: int) -> CudaCall:
        """A launch of one thread that spins on the device's clock."""
        return self.call(self._spin, (1, 1, 1), (1, 1, 1), 0, [nanoseconds])

    @cached_property
    def _spin(self) -> Handle:
        return self.function(self.load_module(SPIN), "flowloom_spin")

    def free_memory(self) -> int:
        status, free, _total = self._cu.cuMemGetInfo()
        return int(check_status((status, free)))

    def allocate(self, nbytes: int) -> int:
        """Device memory, aligned to 256 bytes at least."""
        return int(check_status(self._cu.cuMemAlloc(max(1, nbytes))))

    def free(self, address: int) -> None:
        """Give device memory back; waits until nothing queued uses it."""
        check_status(self._cu.cuMemFree(address))

    def allocate_pinned(self, nbytes: int) -> int:
        """Page-locked host memory."""
        # page-locked for the contexts of all devices, not only for the current one
        portable = self._cu.CU_MEMHOSTALLOC_PORTABLE
        return int(check_status(self._cu.cuMemHostAlloc(max(1, nbytes), portable)))

    def free_pinned(self, address: int) -> None:
        check_status(self._cu.cuMemFreeHost(address))

    def ordinal_of(self, address: int) -> int:
        """The ordinal of the device that an address belongs to; DeviceError for host memory."""
        kind = self._cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(check_status(self._cu.cuPointerGetAttribute(kind, address)))

    def copy(self, destination: int, source: int, nbytes: int, stream: Handle) -> None:
        """Queue a copy in any direction."""
        check_status(self._cu.cuMemcpyAsync(destination, source, nbytes, stream))

    def fill(self, destination: int, value: int, nbytes: int, stream: Handle) -> None:
        check_status(self._cu.cuMemsetD8Async(destination, value, nbytes, stream))

    def write(self, destination: int, value: int, stream: Handle) -> None:
        """Queue writing one integer of 64 bits, which travels with the command."""
        check_status(self._cu.cuStreamWriteValue64(stream, destination, value, 0))

    def create_stream(self, *, priority: int = 0, ordered_with_default: bool = False) -> Handle:
        flags = self._cu.CUstream_flags
        flag = flags.CU_STREAM_DEFAULT if ordered_with_default else flags.CU_STREAM_NON_BLOCKING
        return check_status(self._cu.cuStreamCreateWithPriority(flag.value, priority))

    def stream(self, address: int) -> Handle:
        """The handle of a stream that another library made."""
        return self._cu.CUstream(address)

    def handle_address(self, handle: Handle) -> int:
        return int(handle)

    def destroy_stream(self, stream: Handle) -> None:
        check_status(self._cu.cuStreamDestroy(stream))

    def synchronize_stream(self, stream: Handle) -> None:
        check_status(self._cu.cuStreamSynchronize(stream))

    def create_event(self, *, timing: bool = False) -> Handle:
        flags = self._cu.CUevent_flags
        flag = flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING
        return check_status(self._cu.cuEventCreate(flag.value))

    def destroy_event(self, event: Handle) -> None:
        check_status(self._cu.cuEventDestroy(event))

    def record(self, event: Handle, stream: Handle) -> None:
        check_status(self._cu.cuEventRecord(event, stream))

    def wait(self, stream: Handle, event: Handle) -> None:
        check_status(self._cu.cuStreamWaitEvent(stream, event, 0))

    def synchronize_event(self, event: Handle) -> None:
        check_status(self._cu.cuEventSynchronize(event))

    def happened(self, event: Handle) -> bool:
        status = self._cu.cuEventQuery(event)[0]
        if status == self._cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        check_status((status,))
        return True

    def elapsed(self, start: Handle, end: Handle) -> float:
        return 1e6 * float(check_status(self._cu.cuEventElapsedTime(start, end)))

    def launch(self, call: PreparedLaunch, stream: Handle) -> None:
        cuda = cast(CudaCall, call)
        check_status(
            self._cu.cuLaunchKernel(
                cuda.function, *cuda.grid, *cuda.block, cuda.shared_bytes, stream, cuda.params, 0
            )
        )

    def create_graph(self) -> Handle:
        return check_status(self._cu.cuGraphCreate(0))

    def destroy_graph(self, graph: Handle) -> None:
        """Destroy a graph."""
        check_status(self._cu.cuGraphDestroy(graph))

    def add_call(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        call: PreparedLaunch,
        priority: int | None = None,
        early: Sequence[Handle] = (),
    ) -> Handle:
        """Add a kernel node, with programmatic edges from the nodes `early`."""
        cu = self._cu
        params = cast(CudaCall, call).node
        node = check_status(
            cu.cuGraphAddKernelNode(graph, tuple(predecessors), len(predecessors), params)
        )
        if early:
            edges = (self._programmatic_edge,) * len(early)
            ends = (node,) * len(early)
            check_status(cu.cuGraphAddDependencies(graph, tuple(early), ends, edges, len(early)))
        if priority is not None:
            value = cu.CUkernelNodeAttrValue()
            value.priority = priority
            kind = cu.CUkernelNodeAttrID.CU_LAUNCH_ATTRIBUTE_PRIORITY
            check_status(cu.cuGraphKernelNodeSetAttribute(node, kind, value))
        return node

    @cached_property
    def _programmatic_edge(self) -> Any:
        edge = self._cu.CUgraphEdgeData()
        edge.type = self._cu.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.value
        edge.from_port = self._cu.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
        return edge

    def add_copy(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        destination: int,
        source: int,
        nbytes: int,
        direction: Direction,
    ) -> Handle:
        """Add a copy node."""
        params = self._cu.CUDA_MEMCPY3D()
        kind = self._cu.CUmemorytype
        params.WidthInBytes = nbytes
        params.Height = 1
        params.Depth = 1
        params.srcPitch = params.dstPitch = nbytes
        params.srcHeight = params.dstHeight = 1
        if direction == "to_device":
            params.srcMemoryType = kind.CU_MEMORYTYPE_HOST
            params.srcHost = source
        else:
            params.srcMemoryType = kind.CU_MEMORYTYPE_DEVICE
            params.srcDevice = source
        if direction == "from_device":
            params.dstMemoryType = kind.CU_MEMORYTYPE_HOST
            params.dstHost = destination
        else:
            params.dstMemoryType = kind.CU_MEMORYTYPE_DEVICE
            params.dstDevice = destination
        add = self._cu.cuGraphAddMemcpyNode
        return check_status(
            add(graph, tuple(predecessors), len(predecessors), params, self._context)
        )

    def add_fill(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        destination: int,
        value: int,
        nbytes: int,
    ) -> Handle:
        params = self._cu.CUDA_MEMSET_NODE_PARAMS()
        params.dst = destination
        params.value = value
        params.elementSize = 1
        params.width = nbytes
        params.height = 1
        add = self._cu.cuGraphAddMemsetNode
        return check_status(
            add(graph, tuple(predecessors), len(predecessors), params, self._context)
        )

    def add_child(self, graph: Handle, predecessors: Sequence[Handle], child: Handle) -> Handle:
        return check_status(
            self._cu.cuGraphAddChildGraphNode(graph, tuple(predecessors), len(predecessors), child)
        )

    def create_condition(self, graph: Handle) -> int:
        """A conditional handle of a graph; its value is what kernels set, there is no default."""
        return int(
            check_status(self._cu.cuGraphConditionalHandleCreate(graph, self._context, 0, 0))
        )

    def add_conditional(
        self, graph: Handle, predecessors: Sequence[Handle], condition: int, kind: ControlKind
    ) -> tuple[Handle, tuple[Handle, ...]]:
        """Add a conditional node: IF with an else body (CUDA 12.8), or WHILE."""
        cu = self._cu
        params = conditional_params(cu, condition, kind, self._context)
        node = check_status(
            cu.cuGraphAddNode(graph, tuple(predecessors), None, len(predecessors), params)
        )
        return node, tuple(cu.CUgraph(int(body)) for body in params.conditional.phGraph_out)

    def add_empty(self, graph: Handle, predecessors: Sequence[Handle]) -> Handle:
        return check_status(
            self._cu.cuGraphAddEmptyNode(graph, tuple(predecessors), len(predecessors))
        )

    def instantiate(self, graph: Handle, stream: Handle) -> Handle:
        """The executable form of a graph, using its nodes' priorities, uploaded."""
        flags = self._cu.CUgraphInstantiate_flags
        priorities = flags.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.value
        executable = check_status(self._cu.cuGraphInstantiate(graph, priorities))
        check_status(self._cu.cuGraphUpload(executable, stream))
        return executable

    def destroy_executable(self, executable: Handle) -> None:
        check_status(self._cu.cuGraphExecDestroy(executable))

    def update_call(self, executable: Handle, node: Handle, call: PreparedLaunch) -> None:
        params = cast(CudaCall, call).node
        check_status(self._cu.cuGraphExecKernelNodeSetParams(executable, node, params))

    def launch_graph(self, executable: Handle, stream: Handle) -> None:
        check_status(self._cu.cuGraphLaunch(executable, stream))
