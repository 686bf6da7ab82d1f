"""Checks of the attributes of classical models."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

Attributes = Mapping[str, Any]
"""Attributes by name: texts as `str`, tensors as arrays."""

POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The functions of scores, in the order of TreeEnsemble's numbers."""

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""How leaves' votes become a score, in the order of TreeEnsemble's numbers."""

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "aggregate_function": AGGREGATES,
    "cast_to": ("TO_FLOAT", "TO_INT64", "TO_STRING"),
    "kernel_type": ("LINEAR", "POLY", "RBF", "SIGMOID"),
    "map_form": ("DENSE", "SPARSE"),
    "norm": ("MAX", "L1", "L2"),
    "post_transform": POST_TRANSFORMS,
}


def check_choices(attributes: Attributes) -> None:
    """Raise ValueError for a value that ONNX does not list for an attribute."""
    for name, value in attributes.items():
        choices = _CHOICES.get(name, ())
        valid = value in choices if isinstance(value, str) else value in range(len(choices))
        if choices and not valid:
            raise ValueError(f"its {name} is {value!r}, not one of {', '.join(choices)}")


def check_required(function: Callable[..., Any], attributes: Attributes) -> None:
    """Raise ValueError if an attribute is missing that a function has no default for."""
    for name, parameter in inspect.signature(function).parameters.items():
        needed = parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
        if needed and name not in attributes:
            raise ValueError(f"it has no attribute {name!r}")


def required_attribute(attributes: Attributes, name: str) -> Any:
    """An attribute; raises ValueError if it is missing."""
    if name not in attributes:
        raise ValueError(f"it has no attribute {name!r}")
    return attributes[name]


def check_length(
    attributes: Attributes, name: str, count: int | None = None, least: int = 0
) -> None:
    """Raise ValueError unless a list has `count` elements, or at least so many."""
    length = len(attributes.get(name, ()))
    if length < least or count not in (None, length):
        raise ValueError(f"it has {length} {name}, not {least if count is None else count}")


def only(attributes: Attributes, *names: str) -> str:
    """The one attribute present of several alternatives; raises ValueError for none or several."""
    present = [name for name in names if name in attributes and len(attributes[name])]
    if len(present) != 1:
        raise ValueError(
            f"it has {' and '.join(present) or 'none'} of the attributes {', '.join(names)},"
            " where ONNX asks for exactly one"
        )
    return present[0]


def check_labels(labels: Attributes) -> None:
    """Raise ValueError for a classifier whose labels, by attribute, are none."""
    if not any(map(len, labels.values())):
        raise ValueError("it has no labels of its classes: neither integers nor strings")
