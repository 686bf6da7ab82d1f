"""The recorded choice of a schedule as JSON in a manifest; what does not fit is named."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar, cast

from compiler.schedule import (
    MODES,
    BindingChoice,
    Mode,
    ScheduleChoice,
    SearchRecord,
    Timing,
    TuningRecord,
)
from compiler.verify import checked_json as read

CHOICE_SOURCES = ("measured", "model")
T = TypeVar("T")


def choice_to_json(choice: ScheduleChoice) -> dict[str, Any]:
    """Plain data for a manifest; figures of what was not measured or searched are left out."""
    found = {key: value for key, value in asdict(choice).items() if value is not None}
    found["kernels"] = {"measured": found.pop("measured_kernels"), "of": found.pop("kernels")}
    bindings = found.pop("bindings")
    if not choice.contractions:
        del found["contractions"]
    if choice.device is None:
        del found["timings"], found["skipped"], found["graphs"]
    else:
        found["bindings"] = {
            name: {"chosen": binding["chosen"], **binding["timings"]}
            for name, binding in bindings.items()
        }
    return found


def choice_from_json(value: object, place: str) -> ScheduleChoice:
    """The choice of a manifest; raises ArtifactError that names the entry that does not fit."""
    entry = read.as_object(value, place)
    kernels = read.as_object(entry.get("kernels"), f"{place}.kernels")
    search, device = entry.get("search"), entry.get("device")
    return ScheduleChoice(
        source=read.checked_one_of(entry.get("source"), CHOICE_SOURCES, f"{place}.source"),
        reason=read.string(entry, "reason", place),
        chosen=read.string(entry, "chosen", place),
        baseline=read.string(entry, "baseline", place),
        mode=cast(Mode, read.checked_one_of(entry.get("mode"), MODES, f"{place}.mode")),
        pdl=read.boolean(entry.get("pdl", False), f"{place}.pdl"),
        streams=read.natural(entry.get("streams"), f"{place}.streams"),
        pipeline=read.string(entry, "pipeline", place),
        budget_seconds=read.checked_number(entry.get("budget_seconds"), f"{place}.budget_seconds"),
        measured_kernels=read.natural(kernels.get("measured"), f"{place}.kernels.measured"),
        kernels=read.natural(kernels.get("of"), f"{place}.kernels.of"),
        costs=_each(entry.get("costs"), f"{place}.costs", read.checked_number),
        estimates=_each(entry.get("estimates"), f"{place}.estimates", read.checked_number),
        timings=_each(entry.get("timings", {}), f"{place}.timings", _timing),
        skipped=_each(entry.get("skipped", {}), f"{place}.skipped", read.text),
        bindings=_each(entry.get("bindings", {}), f"{place}.bindings", _binding),
        device=None if device is None else read.as_object(device, f"{place}.device"),
        search=None if search is None else _search(search, f"{place}.search"),
        graphs=_each(entry.get("graphs", {}), f"{place}.graphs", _timing),
        contractions=_each(
            entry.get("contractions", {}), f"{place}.contractions", read.checked_number
        ),
        tuning=tuning_from_json(entry.get("tuning"), f"{place}.tuning"),
    )


def tuning_from_json(value: object, place: str) -> TuningRecord | None:
    """The record of kernels that were measured; ArtifactError if it is none."""
    if value is None:
        return None
    entry = read.as_object(value, place)
    return TuningRecord(
        kernels=read.natural(entry.get("kernels"), f"{place}.kernels"),
        tried=read.natural(entry.get("tried"), f"{place}.tried"),
        improved=read.natural(entry.get("improved"), f"{place}.improved"),
        before=read.checked_number(entry.get("before"), f"{place}.before"),
        after=read.checked_number(entry.get("after"), f"{place}.after"),
        seconds=read.checked_number(entry.get("seconds"), f"{place}.seconds"),
    )


def _each(value: object, place: str, entry: Callable[[object, str], T]) -> dict[str, T]:
    found = read.as_object(value, place)
    return {name: entry(value, f"{place}.{name}") for name, value in found.items()}


def _timing(value: object, place: str) -> Timing:
    entry = read.as_object(value, place)
    return Timing(
        median=read.checked_number(entry.get("median"), f"{place}.median"),
        low=read.checked_number(entry.get("low"), f"{place}.low"),
        high=read.checked_number(entry.get("high"), f"{place}.high"),
        count=read.natural(entry.get("count"), f"{place}.count"),
    )


def _binding(value: object, place: str) -> BindingChoice:
    entry = read.as_object(value, place)
    timings = {name: timing for name, timing in entry.items() if name != "chosen"}
    return BindingChoice(read.string(entry, "chosen", place), _each(timings, place, _timing))


def _search(value: object, place: str) -> SearchRecord:
    entry = read.as_object(value, place)
    makespan = read.checked_number(entry.get("makespan"), f"{place}.makespan")
    return SearchRecord(
        start=read.string(entry, "start", place),
        started_at=read.checked_number(entry.get("started_at"), f"{place}.started_at"),
        moved=read.checked_number(entry.get("moved", makespan), f"{place}.moved"),
        makespan=makespan,
        steps=read.natural(entry.get("steps"), f"{place}.steps"),
        kept=read.natural(entry.get("kept"), f"{place}.kept"),
        seed=read.natural(entry.get("seed"), f"{place}.seed"),
        policies=_each(entry.get("policies"), f"{place}.policies", read.checked_number),
        bound=_each(entry.get("bound"), f"{place}.bound", read.checked_number),
    )
