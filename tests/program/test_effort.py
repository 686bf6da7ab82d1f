"""How much a segment's compilation searches."""

from dataclasses import replace

import pytest

from compiler.autotune.kernels.kernel_tuner import KernelTuner
from compiler.driver.build import parse
from compiler.driver.settings import Settings
from compiler.kernels.building.cache import KernelCache
from compiler.program.effort import FEW_OPERATORS, QUICK_BUDGET, segment_settings


def settings(target: str, *, chosen: bool = False) -> Settings:
    return Settings(target, None, cache=KernelCache(), chosen=chosen)


@pytest.mark.parametrize("target", ["cuda", "emu"])
def test_small_segments_and_later_kinds_of_inputs_are_quick(target: str):
    given = settings(target)
    for operators, first in ((FEW_OPERATORS, True), (500, False)):
        quick = segment_settings(given, operators, first=first)
        assert quick.budget == QUICK_BUDGET
        assert "substitute" not in quick.passes
        assert parse(quick.passes)
    assert segment_settings(given, FEW_OPERATORS + 1, first=True) is given


def test_what_the_user_chose_holds_for_all_segments():
    given = settings("cuda", chosen=True)
    assert segment_settings(given, 1, first=False) is given


def test_a_target_without_measurements_has_one_effort():
    given = settings("hip:gfx90a:fp16")
    assert segment_settings(given, 1, first=False) is given


def test_small_segments_of_a_cpu_are_not_measured():
    given = replace(settings("cpu"), tuner=KernelTuner())
    assert segment_settings(given, 1, first=False) == replace(given, tuner=None)
    assert segment_settings(given, 1000, first=True) is given
