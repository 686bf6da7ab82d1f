"""Type checks of the public functions' arguments."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple, cast

from compiler.errors import ArgumentError


class ArgumentKind(NamedTuple):
    """A type of arguments: its description and its test."""

    text: str
    accepts: Callable[[Any], bool]


def is_path(value: object) -> bool:
    """Whether a value can name a file: a str or os.PathLike without NUL."""
    try:
        text = os.fspath(cast(str, value))
    except TypeError:
        return False
    return isinstance(cast(object, text), str) and "\0" not in text


def _is_text(value: object) -> bool:
    """Whether a value is text that UTF-8 can encode: no surrogates of undecodable bytes."""
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def _is_model(value: object) -> bool:
    return is_path(value) or isinstance(value, bytes) or hasattr(value, "SerializeToString")


def _are_shapes(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    entries = cast(Mapping[object, object], value).items()
    return all(isinstance(n, str) and _is_listing(shape) for n, shape in entries)


def _is_listing(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _are_names(value: object) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence | Set):
        return False
    return all(isinstance(name, str) for name in cast(Iterable[object], value))


def _are_paths(value: object) -> bool:
    if is_path(value):
        return True
    if isinstance(value, bytes) or not isinstance(value, Sequence | Set):
        return False
    return all(map(is_path, cast(Iterable[object], value)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_count(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def optional(kind: ArgumentKind) -> ArgumentKind:
    """The kind, or None."""

    def accepts(value: object) -> bool:
        return value is None or kind.accepts(value)

    return ArgumentKind(f"{kind.text}, or None", accepts)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _are_semantics(value: object) -> bool:
    if not isinstance(value, Mapping):
        return _is_text(value)
    return all(isinstance(name, str) for name in cast(Mapping[object, object], value))


TEXT = ArgumentKind("a str of whole characters", _is_text)
PATH = ArgumentKind("a path without NUL (a str or os.PathLike)", is_path)
COUNT = ArgumentKind("a whole number", _is_count)
BOOLEAN = ArgumentKind("True or False", _is_boolean)

COMPILE: Mapping[str, ArgumentKind] = {
    "model": ArgumentKind("a path, the bytes of a model or an onnx.ModelProto", _is_model),
    "target": TEXT,
    "pipeline": optional(TEXT),
    "input_shapes": optional(
        ArgumentKind("a mapping from input names to lists of sizes", _are_shapes)
    ),
    "arch": optional(TEXT),
    "precision": optional(TEXT),
    "threads": optional(COUNT),
    "dump_ir": optional(PATH),
    "budget": optional(ArgumentKind("a number of seconds", _is_number)),
    "profile": optional(PATH),
    "schedule": optional(PATH),
    "passes": ArgumentKind("a list of passes", _is_listing),
    "overridable": ArgumentKind("a list of names", _are_names),
    "cache": BOOLEAN,
    "check_indices": BOOLEAN,
    "check": BOOLEAN,
    "progress": optional(ArgumentKind("a function of an event of compiler.progress", callable)),
    "dynamic": BOOLEAN,
    "graphs": TEXT,
    "quantised": TEXT,
    "semantics": optional(
        ArgumentKind("'onnx', 'onnxruntime' or a mapping from rules to these", _are_semantics)
    ),
    "buckets": optional(
        ArgumentKind("a mapping from names of dimensions to lists of sizes", _are_shapes)
    ),
}
"""The arguments of `compiler.compile`."""

LOAD: Mapping[str, ArgumentKind] = {
    "directory": PATH,
    "threads": optional(COUNT),
    "trusted": optional(ArgumentKind("the path of a public key, or a list of such", _are_paths)),
    "key": PATH,
}
"""The arguments of `compiler.load`, `compiler.sign` and `Module.save`."""

RUN: Mapping[str, ArgumentKind] = {
    "inputs": ArgumentKind("a mapping from input names to arrays", _is_mapping)
}
"""The arguments of `Module.run`."""


def check_arguments(given: Mapping[str, object], kinds: Mapping[str, ArgumentKind]) -> None:
    """Raise ArgumentError for an argument of a wrong type; it names the argument and the type."""
    for name, kind in kinds.items():
        if name in given and not kind.accepts(value := given[name]):
            raise ArgumentError(
                f"{name} is {type(value).__name__} {_shown(value)}: it must be {kind.text}"
            )


def check_buckets(buckets: object, one_schedule: Mapping[str, bool]) -> None:
    """Raise ArgumentError for buckets with an option that only one schedule can have."""
    asked = [name for name, given in one_schedule.items() if given]
    if buckets and asked:
        raise ArgumentError(
            f"buckets={_shown(buckets)} make several schedules, and {asked[0]} is for one: leave"
            " that out, or the buckets (--bucket on the command line) and name one size in"
            " input_shapes (--input-shape)"
        )


def check_run(inputs: object) -> None:
    """Raise ArgumentError unless the inputs of a run are a mapping."""
    if type(inputs) is not dict:
        check_arguments({"inputs": inputs}, RUN)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
