"""Problems and configs as named fields: the form in which the database stores them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, cast

from compiler.errors import ArtifactError

Value = bool | int | str | tuple[int, ...]
"""The value of a field."""

Config = tuple[tuple[str, Value], ...]
"""The fields of a template's config by name; those with their default are left out."""


def config_fields(config: Any) -> Config:
    """The fields of a config, a dataclass, without those that have their default."""
    values = ((field, getattr(config, field.name)) for field in fields(config))
    return tuple(
        (field.name, value)
        for field, value in values
        if field.default is MISSING or value != field.default
    )


def typed_config(kinds: Iterable[type[Any]], values: Config) -> Any:
    """A config of fields that a database holds, of the one of some dataclasses that has these.

    Raises ArtifactError where none has: they are those of another version of the template.
    """
    for kind in kinds:
        with suppress(TypeError):
            return kind(**dict(values))
    names = ", ".join(name for name, _ in values)
    raise ArtifactError(
        f"a database of tuned configs has one of the fields {names}, which this version does not"
        " know: remove the user's database, or tune again"
    )


def as_config(values: Mapping[str, Any]) -> Config:
    """The fields of a config that were read from JSON."""
    return tuple((name, _plain(value)) for name, value in values.items())


def full_version(code: str, compiler: str) -> str:
    """The version that measured times belong to: a template's code hash and the compiler."""
    return f"{code} {compiler}"


Interval = tuple[float, float]
"""The least and the largest time of a confidence interval, in nanoseconds."""


def as_interval(values: Sequence[float]) -> Interval:
    """An interval that was read from JSON."""
    low, high = values
    return low, high


def problem_key(template: str, problem: Mapping[str, Value]) -> str:
    """The text of a template's problem: a JSON object, its template first, then its fields."""
    return json.dumps({"template": template, **problem}, separators=(",", ":"))


@cache
def problem_fields(key: str) -> Mapping[str, Value]:
    """The fields of a problem by its key, `template` among them."""
    return {name: _plain(value) for name, value in json.loads(key).items()}


def _plain(value: Any) -> Value:
    return tuple(cast(list[int], value)) if isinstance(value, list) else value
