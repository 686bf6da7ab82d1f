"""The recorded choices of a compilation as JSON in a manifest; what does not fit is named."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from compiler.errors import ArtifactError
from compiler.schedule.choices import (
    BINDING,
    CONTRACTIONS,
    SCHEDULE,
    SUBSTITUTION,
    Choice,
    ScheduleChoice,
)
from compiler.verify import checked_json as read

QUESTIONS = (CONTRACTIONS, SUBSTITUTION, SCHEDULE)


def choice_to_json(choice: Choice) -> dict[str, object]:
    """Plain data for a manifest, nested as the choices are; what is empty is left out."""
    entry = {key: value for key, value in asdict(choice).items() if value not in (None, {}, "")}
    del entry["within"]
    within = [choice_to_json(inner) for inner in choice.within]
    return {**entry, "within": within} if within else entry


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
    kind = ScheduleChoice if question == SCHEDULE else Choice
    within = partial(read.checked_items, item=partial(_choice, questions=inner))
    choice = read.checked_record(kind, entry, path, within=within)
    if (inner and len(choice.within) != 1) or (choice.within and not questions):
        raise ArtifactError(f"{path}.within is not the choices within {question}")
    return choice
