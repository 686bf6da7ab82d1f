"""Problems and configs as named fields: the form in which the database stores them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from math import inf
from typing import Any, cast

Value = bool | int | str | tuple[int, ...]
"""The value of a field."""

FIELD_TYPES = frozenset((bool, int, str))
"""The types of all fields but sequences of integers."""

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


def as_config(values: Mapping[str, Any]) -> Config:
    """The fields of a config that were read from JSON."""
    return tuple((name, _plain(value)) for name, value in values.items())


def full_version(code: str, compiler: str) -> str:
    """The version that measured times belong to: a template's code hash and the compiler."""
    return f"{code} {compiler}"


Interval = tuple[float, float]
"""The least and the largest time of a confidence interval, in nanoseconds."""


def as_time(value: Any) -> float:
    """Nanoseconds that were read from JSON; raises ValueError for others."""
    if type(value) in (float, int) and 0 <= value < inf:
        return value
    raise ValueError(f"a time of {value!r}")


def as_interval(values: Sequence[float]) -> Interval:
    """An interval that was read from JSON."""
    low, high = values
    return as_time(low), as_time(high)


def problem_key(template: str, problem: Mapping[str, Value]) -> str:
    """The text of a template's problem: a JSON object, its template first, then its fields."""
    return json.dumps({"template": template, **problem}, separators=(",", ":"))


@cache
def problem_fields(key: str) -> Mapping[str, Value]:
    """The fields of a problem by its key, `template` among them."""
    return {name: _plain(value) for name, value in json.loads(key).items()}


def _plain(value: Any) -> Value:
    if type(value) in FIELD_TYPES:
        return value
    if isinstance(value, list) and {*map(type, cast(list[Any], value))} <= {int}:
        return tuple(cast(list[int], value))
    raise TypeError(f"a field of {value!r}")
