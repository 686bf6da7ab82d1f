"""The recorded choices of a compilation as JSON in a manifest; what does not fit is named."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar, cast, get_args

from compiler.errors import ArtifactError
from compiler.schedule.choices import (
    BINDING,
    CONTRACTIONS,
    MODES,
    SCHEDULE,
    SUBSTITUTION,
    Choice,
    ChoiceSource,
    Mode,
    ScheduleChoice,
    SearchRecord,
    Timing,
    TuningRecord,
)
from compiler.verify import checked_json as read

CHOICE_SOURCES: tuple[ChoiceSource, ...] = get_args(ChoiceSource)
QUESTIONS = (CONTRACTIONS, SUBSTITUTION, SCHEDULE)
T = TypeVar("T")


def choice_to_json(choice: Choice) -> dict[str, object]:
    """Plain data for a manifest, nested as the choices are; what is empty is left out."""
    entry = {key: value for key, value in asdict(choice).items() if value not in (None, {}, "")}
    within = [choice_to_json(inner) for inner in choice.within]
    return {**entry, "within": within} if within else _without(entry, "within")


def choice_from_json(value: object, path: str) -> Choice:
    """The choice of a manifest; raises ArtifactError that names the entry that does not fit."""
    return _choice(value, path, QUESTIONS)


def _choice(value: object, path: str, questions: Sequence[str]) -> Choice:
    """A choice of one of some questions, or of a binding within the last of them.

    Within it are choices of the questions that come after its own, so that the depth is bounded.
    """
    entry = read.as_object(value, path)
    question = read.string(entry, "question", path)
    if question not in questions and (questions or not question.startswith(BINDING)):
        expected = ", ".join(questions) or f"{BINDING}NAME"
        raise ArtifactError(f"{path}.question is {question!r}, not {expected}")
    inner = questions[questions.index(question) + 1 :] if questions else ()
    within = read.checked_sequence(
        {"within": [], **entry}, "within", path, partial(_choice, questions=inner)
    )
    if (inner and len(within) != 1) or (within and not questions):
        raise ArtifactError(f"{path}.within is not the choices within {question}")
    common: dict[str, Any] = {
        "question": question,
        "chosen": read.string(entry, "chosen", path),
        "baseline": _text(entry, "baseline", path),
        "source": read.checked_one_of(entry.get("source"), CHOICE_SOURCES, f"{path}.source"),
        "reason": _text(entry, "reason", path),
        "estimates": _each(entry, "estimates", path, read.checked_number),
        "timings": _each(entry, "timings", path, _timing),
        "skipped": _each(entry, "skipped", path, read.text),
        "within": within,
    }
    if question != SCHEDULE:
        return Choice(**common)
    search = entry.get("search")
    device = entry.get("device")
    return ScheduleChoice(
        **common,
        mode=cast(Mode, read.checked_one_of(entry.get("mode"), MODES, f"{path}.mode")),
        pdl=read.boolean(entry.get("pdl", False), f"{path}.pdl"),
        pipeline=_text(entry, "pipeline", path),
        budget_seconds=read.checked_number(entry.get("budget_seconds"), f"{path}.budget_seconds"),
        costs=_each(entry, "costs", path, read.checked_number),
        device=None if device is None else read.as_object(device, f"{path}.device"),
        search=None if search is None else _search(search, f"{path}.search"),
        tuning=tuning_from_json(entry.get("tuning"), f"{path}.tuning"),
    )


def _without(entry: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name not in names}


def tuning_from_json(value: object, path: str) -> TuningRecord | None:
    """The record of kernels that were measured; ArtifactError if it is none."""
    if value is None:
        return None
    entry = read.as_object(value, path)
    return TuningRecord(
        kernels=read.natural(entry.get("kernels"), f"{path}.kernels"),
        tried=read.natural(entry.get("tried"), f"{path}.tried"),
        improved=read.natural(entry.get("improved"), f"{path}.improved"),
        before=read.checked_number(entry.get("before"), f"{path}.before"),
        after=read.checked_number(entry.get("after"), f"{path}.after"),
        seconds=read.checked_number(entry.get("seconds"), f"{path}.seconds"),
    )


def _text(entry: dict[str, object], name: str, path: str) -> str:
    """A text of an entry, empty where it is left out."""
    return read.string(entry, name, path) if name in entry else ""


def _each(
    entry: Mapping[str, object], name: str, path: str, parse: Callable[[object, str], T]
) -> dict[str, T]:
    """The values by name of an object in an entry, none where it is left out."""
    values = read.as_object(entry.get(name, {}), f"{path}.{name}")
    return {key: parse(value, f"{path}.{name}.{key}") for key, value in values.items()}


def _timing(value: object, path: str) -> Timing:
    entry = read.as_object(value, path)
    return Timing(
        median=read.checked_number(entry.get("median"), f"{path}.median"),
        low=read.checked_number(entry.get("low"), f"{path}.low"),
        high=read.checked_number(entry.get("high"), f"{path}.high"),
        count=read.natural(entry.get("count"), f"{path}.count"),
    )


def _search(value: object, path: str) -> SearchRecord:
    entry = read.as_object(value, path)
    return SearchRecord(
        start=read.string(entry, "start", path),
        started_at=read.checked_number(entry.get("started_at"), f"{path}.started_at"),
        moved=read.checked_number(entry.get("moved"), f"{path}.moved"),
        makespan=read.checked_number(entry.get("makespan"), f"{path}.makespan"),
        steps=read.natural(entry.get("steps"), f"{path}.steps"),
        kept=read.natural(entry.get("kept"), f"{path}.kept"),
        seed=read.natural(entry.get("seed"), f"{path}.seed"),
        policies=_each(entry, "policies", path, read.checked_number),
        bound=_each(entry, "bound", path, read.checked_number),
    )
