"""The emulated device of this process."""

from functools import cache

from compiler.backends.emu.driver import EmulatedDriver
from compiler.emulator.compile import engine, unpack
from compiler.emulator.engine import open_engine


@cache
def _driver(content: bytes) -> EmulatedDriver:
    return EmulatedDriver(open_engine(content))


def device(code: bytes | None = None) -> EmulatedDriver:
    """The emulated device; compiled kernels bring its engine, which is otherwise built."""
    archive = None if code is None else unpack(code)
    return _driver(engine() if archive is None else archive[1])
