"""The last word on substitutions: the compiled module with them and without, on the device."""

from compiler.autotune.bindings import MeasuredChoice, measured_choice
from compiler.autotune.lock import measuring
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.executable import GpuExecutable

SUBSTITUTED, ORIGINAL = "substituted", "original"
"""The names of the two in records."""


def compared(
    driver: Driver, substituted: GpuExecutable, original: GpuExecutable, seconds: float
) -> MeasuredChoice:
    """Run both in turns; the original is kept unless the other is surely no slower."""
    openers = {SUBSTITUTED: substituted.executor, ORIGINAL: original.executor}
    with measuring(driver.device):
        return measured_choice(openers, ORIGINAL, seconds)
