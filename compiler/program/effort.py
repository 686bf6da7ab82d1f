"""How much a segment's compilation searches and measures: a pure choice of settings.

A run waits for a segment, so that the default is quick where a search cannot gain much or is paid
for again and again: for few operators, and for further kinds of inputs of a segment.
"""

from dataclasses import replace

from compiler.driver.settings import SUBSTITUTE, Settings
from compiler.passes.pipeline import DEFAULT_PIPELINE, without_pass
from compiler.target.target import parse_target

FEW_OPERATORS = 16
"""The most operators of a segment for which neither substitutions nor schedules are searched."""

QUICK_BUDGET = 0.2
"""Seconds in which a quick compilation measures the segment's modes and bindings."""

QUICK_PIPELINE = without_pass(DEFAULT_PIPELINE, SUBSTITUTE)


def segment_settings(settings: Settings, operators: int, *, first: bool) -> Settings:
    """The settings for a segment of so many operators, the `first` kind of its inputs or not.

    Settings that the user chose (pipeline, schedule, budget or profile) hold for all segments.
    """
    quick = operators <= FEW_OPERATORS or not first
    backend = parse_target(settings.target).backend
    if settings.chosen or not quick or backend == "hip":
        return settings
    if backend == "cpu":
        return replace(settings, tuner=None)
    return replace(settings, pipeline=QUICK_PIPELINE, budget=QUICK_BUDGET, tuner=None)
