"""The choice of a GPU module's schedule and execution mode: measured, else predicted by a model."""

from compiler.autotune.schedule.candidates import annotate, scheduled
from compiler.autotune.schedule.decision import (
    DEFAULT_BUDGET,
    Decision,
    Request,
    decide,
    present_device,
)
from compiler.autotune.schedule.search import SearchOptions

__all__ = [
    "DEFAULT_BUDGET",
    "Decision",
    "Request",
    "SearchOptions",
    "annotate",
    "decide",
    "present_device",
    "scheduled",
]
