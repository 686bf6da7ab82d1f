"""Kernels for trials, and a device on which they are tried."""

from compiler.autotune import trial_process
from compiler.autotune.trials import Trials
from compiler.backends.emu.driver import EmulatedDriver, open_with_warps
from compiler.emulator.compile import compile_kernels
from compiler.errors import DeviceError
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Task, View

LANES = 32
VIEW = View(0, 0, "float32", (LANES,))

DOUBLE = "y[threadIdx.x] = 2.0f * x[threadIdx.x];"
FOREVER = "volatile float *p = y; while (true) *p = x[0];"
OUTSIDE = "y[threadIdx.x] = x[threadIdx.x + (1 << 30)];"
PARAMETERS = "const float *x, float *y"


def text(symbol: str, body: str, parameters: str = PARAMETERS) -> str:
    """The text of an entry point."""
    return f'extern "C" __global__ void {symbol}({parameters}) {{ {body} }}\n'


def kernel(name: str, body: str, indirect: str = "", flops: int = 0) -> KernelSpec:
    """An emulated kernel of one read and one write, by need with a second entry point."""
    source, symbols = text(name, body), [name]
    if indirect:
        second = f"const float *x = *px; float *y = *py; {indirect}"
        source += text(f"{name}_indirect", second, "const float **px, float **py")
        symbols.append(f"{name}_indirect")
    launch = Launch(name, (0, 1), block=(LANES, 1, 1), indirect=symbols[-1] if indirect else "")
    code = compile_kernels(source, symbols)
    return KernelSpec(name, "emu", code, (launch,), ("",), flops=flops, source=source)


def task(name: str) -> Task:
    """A task of such a kernel."""
    return Task(name, 0, (), (VIEW,), (VIEW,))


def impatient() -> EmulatedDriver:
    """A device in a process that soon ends when it is idle."""
    trial_process.IDLE_SECONDS = 0.3
    return open_with_warps(32)


def missing() -> EmulatedDriver:
    """Opens a device that only one process may use."""
    raise DeviceError("the device is in exclusive mode")


def pid(found: Trials) -> int:
    """The number of the process, which runs."""
    child = found._child  # pyright: ignore[reportPrivateUsage]
    assert child is not None
    return child._process.pid  # pyright: ignore[reportPrivateUsage]
