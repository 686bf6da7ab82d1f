"""The last word on what was compiled in several ways: the modules, on the device."""

from collections.abc import Mapping
from dataclasses import replace

from compiler.autotune.bindings import MeasuredChoice, measured_choice
from compiler.autotune.lock import measuring
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.executable import GpuExecutable
from compiler.schedule import ScheduleChoice

SUBSTITUTED, ORIGINAL = "substituted", "original"
"""The names of the two in records."""


def with_way(choice: ScheduleChoice | None, way: str) -> ScheduleChoice | None:
    """The choice of a module with the only way in which its quantised operators were compiled.

    The way is that of `import_model`, empty for a module without such operators.
    """
    if choice is None or not way:
        return choice
    timing = choice.timings.get(choice.chosen)
    time = min(choice.estimates.values()) if timing is None else timing.median
    return replace(choice, contractions={way: time})


def compared(
    driver: Driver, modules: Mapping[str, GpuExecutable | None], baseline: str, seconds: float
) -> MeasuredChoice:
    """Run measured modules in turns; the baseline is kept unless another is surely no slower.

    What they consist of had its trials when they were measured.
    """
    openers = {name: module.executor for name, module in modules.items() if module is not None}
    assert len(openers) == len(modules), "a module was not measured"
    with measuring(driver.device):
        return measured_choice(openers, baseline, seconds)
