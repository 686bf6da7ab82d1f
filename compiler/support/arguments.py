"""Type checks of the public functions' arguments."""

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from operator import index
from threading import TIMEOUT_MAX
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

from compiler.errors import ArgumentError, FlowloomError

Interface = TypeVar("Interface")

LARGEST_SIZE = (1 << 31) - 1
"""The largest size of a dimension."""


_LONGEST_PATH = 3072
"""The most bytes of a path: Linux takes 4095, of which files in a folder need some."""
_LONGEST_PART = 255
"""The most bytes of a name in a path, by Linux's file systems."""


class ArgumentKind(NamedTuple):
    """A type of arguments: its description and its test."""

    text: str
    accepts: Callable[[Any], bool]


def is_path(value: object) -> bool:
    """Whether a value can name a file: a str or os.PathLike without NUL that is short enough."""
    try:
        text = os.fspath(cast(str, value))
        encoded = os.fsencode(text)
    except (TypeError, UnicodeEncodeError):
        return False
    names = encoded.split(b"/")
    short = len(encoded) <= _LONGEST_PATH and max(map(len, names)) <= _LONGEST_PART
    return isinstance(cast(object, text), str) and "\0" not in text and short


def _is_text(value: object) -> bool:
    """Whether a value is text that UTF-8 can encode: no surrogates of undecodable bytes."""
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def _is_model(value: object) -> bool:
    # By name: loading a module must not import onnx.
    protobuf = any(kind.__name__ == "ModelProto" for kind in type(value).__mro__)
    return is_path(value) or isinstance(value, bytes) or protobuf


def _are_shapes(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    entries = cast(Mapping[object, object], value).items()
    return all(
        isinstance(n, str)
        and isinstance(shape, Iterable)
        and not isinstance(shape, str | bytes | Mapping)
        for n, shape in entries
    )


def _is_none(value: object) -> bool:
    return value is None


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _are_names(value: object) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence | Set):
        return False
    return all(isinstance(name, str) for name in cast(Iterable[object], value))


def _are_paths(value: object) -> bool:
    if _is_file(value):
        return True
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | Set):
        return False
    return all(map(_is_file, cast(Iterable[object], value)))


def _is_time(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # waits of Python's threads take no more
    return number and 0 <= cast(float, value) <= TIMEOUT_MAX


def whole(least: int = 0, most: int = LARGEST_SIZE) -> ArgumentKind:
    """Whole numbers within bounds."""

    def accepts(value: object) -> bool:
        return (hasattr(value, "__index__") and not isinstance(value, bool)) and least <= index(
            cast(int, value)
        ) <= most

    return ArgumentKind(f"a whole number, at least {least} and at most {most}", accepts)


def choice_of(words: Sequence[str]) -> ArgumentKind:
    """Some words."""

    def accepts(value: object) -> bool:
        return isinstance(value, str) and value in words

    return ArgumentKind(" or ".join(map(repr, words)), accepts)


def instance(kind: type[object], text: str) -> ArgumentKind:
    """Objects of a class, which the text describes."""

    def accepts(value: object) -> bool:
        return isinstance(value, kind)

    return ArgumentKind(text, accepts)


def optional(kind: ArgumentKind) -> ArgumentKind:
    """The kind, or None."""

    def accepts(value: object) -> bool:
        return value is None or kind.accepts(value)

    return ArgumentKind(f"{kind.text}, or None", accepts)


def _are_sizes(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    sizes = cast(Mapping[object, object], value).items()
    return all(isinstance(name, str) and SIZE.accepts(size) for name, size in sizes)


def _is_shape(value: object) -> bool:
    return _is_list(value) and all(map(SIZE.accepts, cast(Sequence[object], value)))


def _is_array(value: object) -> bool:
    """Whether numpy can read a value as numbers or texts; it would wrap any other object."""
    lists = isinstance(value, bool | int | float | complex | str | bytes | list | tuple)
    return lists or any(hasattr(value, name) for name in ("__array__", "__array_interface__"))


def _are_semantics(value: object) -> bool:
    if not isinstance(value, Mapping):
        return _is_text(value)
    return all(isinstance(name, str) for name in cast(Mapping[object, object], value))


def _is_name(value: object) -> bool:
    return _is_text(value) and value != ""


def _is_file(value: object) -> bool:
    return is_path(value) and os.fspath(cast(str, value)) != ""


TEXT = ArgumentKind("a str of whole characters", _is_text)
NONEMPTY_TEXT = ArgumentKind("a str of whole characters, not an empty one", _is_name)
_OF_PATHS = f"without NUL, of at most {_LONGEST_PATH} bytes and {_LONGEST_PART} in each part"
PATH = ArgumentKind(
    f"a path {_OF_PATHS} (a str or os.PathLike), not an empty one",
    _is_file,
)
SIZE = whole()
DURATION = ArgumentKind(f"a number of seconds, at least 0 and at most {TIMEOUT_MAX:.0f}", _is_time)
MOST_RUN_THREADS = 8192
"""The most threads of a run: Linux is built for at most as many cores."""
THREAD_COUNT = whole(1, MOST_RUN_THREADS)
SIZES_BY_NAME = ArgumentKind(f"a mapping from names to sizes, each {SIZE.text}", _are_sizes)
MAPPING = instance(Mapping, "a mapping")
BOOLEAN = instance(bool, "True or False")
SEQUENCE = ArgumentKind("a list", _is_list)
SHAPE = ArgumentKind(f"a list of sizes, each at most {LARGEST_SIZE}", _is_shape)
NAMES = ArgumentKind("a list of names", _are_names)
FUNCTION = ArgumentKind("a function", callable)
ADDRESS = whole(0, (1 << 64) - 1)
ARRAY = ArgumentKind("an array", _is_array)

WAYS = ("onnx", "onnxruntime")
"""Whose results a node has: those of the ONNX text, or onnxruntime's."""

COMPILE: Mapping[str, ArgumentKind] = {
    "model": ArgumentKind(
        f"a path {_OF_PATHS}, the bytes of a model or an onnx.ModelProto", _is_model
    ),
    "target": TEXT,
    "pipeline": optional(TEXT),
    "input_shapes": optional(
        ArgumentKind("a mapping from input names to lists of sizes", _are_shapes)
    ),
    "arch": optional(NONEMPTY_TEXT),
    "precision": optional(NONEMPTY_TEXT),
    "threads": optional(THREAD_COUNT),
    "dump_ir": optional(PATH),
    "budget": optional(DURATION),
    "profile": optional(PATH),
    "schedule": optional(PATH),
    "passes": ArgumentKind("a list of passes", _is_list),
    "overridable": NAMES,
    "cache": BOOLEAN,
    "check_indices": BOOLEAN,
    "check": BOOLEAN,
    "progress": optional(ArgumentKind("a function of an event of flowloom.progress", callable)),
    "dynamic": BOOLEAN,
    "graphs": TEXT,
    "quantised": TEXT,
    "semantics": optional(
        ArgumentKind("'onnx', 'onnxruntime' or a mapping from rules to these", _are_semantics)
    ),
    "buckets": ArgumentKind(
        "left out: a module runs at any size, and its `prepare` compiles for sizes ahead",
        _is_none,
    ),
}
"""The arguments of `compiler.compile`."""

LOAD: Mapping[str, ArgumentKind] = {
    "directory": PATH,
    "threads": optional(THREAD_COUNT),
    "trusted": optional(ArgumentKind("the path of a public key, or a list of such", _are_paths)),
    "key": PATH,
}
"""The arguments of `compiler.load`, `compiler.sign` and `Module.save`."""

PREPARE: Mapping[str, ArgumentKind] = {"sizes": optional(SIZES_BY_NAME)}
"""The arguments of `DynamicModule.prepare`."""

RUN: Mapping[str, ArgumentKind] = {
    "inputs": instance(Mapping, "a mapping from input names to arrays"),
    "outputs": choice_of(("numpy", "device")),
}
"""The arguments of `run` that static and dynamic modules share."""


def check_arguments(arguments: Mapping[str, object], kinds: Mapping[str, ArgumentKind]) -> None:
    """Raise ArgumentError for an argument of a wrong type; it names the argument and the type."""
    for name, kind in kinds.items():
        if name in arguments and not _accepts(kind, value := arguments[name]):
            raise ArgumentError(
                f"{name} is {type(value).__name__} {_shown(value)}: it must be {kind.text}"
            )


def closest_name(name: str, choices: Iterable[str]) -> str:
    """Advice for an unknown name: the one that looks like it, or all there are."""
    names = [*choices]
    similar = get_close_matches(name, names, 1)
    return f"did you mean {similar[0]!r}?" if similar else f"there are {', '.join(names) or 'none'}"


def _accepts(kind: ArgumentKind, value: object) -> bool:
    """Whether a value is of a kind; a value whose methods fail is not."""
    try:
        return kind.accepts(value)
    except Exception:
        return False


@contextmanager
def taking(what: str, **arguments: Any) -> Generator[None]:
    """Turn errors of another kind into ArgumentError, which names what was asked and with what.

    For calls that do nothing but use their arguments, so that these are at fault.
    """
    try:
        yield
    except FlowloomError:
        raise
    except Exception as error:
        passed = ", ".join(f"{name}={_shown(value)}" for name, value in arguments.items())
        reason = f"{type(error).__name__}: {error}"
        raise ArgumentError(f"{what} cannot take {passed} ({reason}): correct it") from error


_PROTOCOLS = ("__init__", "__array__", "__dlpack__", "__dlpack_device__")
"""The methods with underscores that users, or libraries for them, call."""


def own_errors(
    kinds: Mapping[str, ArgumentKind],
) -> Callable[[type[Interface]], type[Interface]]:
    """Make the public methods of a class raise no error but a FlowloomError.

    Parameters whose names are in `kinds` are checked first; any other error becomes an
    ArgumentError. For interfaces that hand their arguments on to numpy and to other rooms.
    """

    def wrapped(interface: type[Interface]) -> type[Interface]:
        for name, member in [*vars(interface).items()]:
            public = not name.startswith("_") or name in _PROTOCOLS
            if public and isinstance(member, FunctionType):
                setattr(interface, name, _checked(member, kinds))
            elif public and isinstance(member, property) and member.fget is not None:
                setattr(interface, name, property(_checked(member.fget, kinds)))
            elif public and isinstance(member, classmethod):
                function = cast(Any, member).__func__
                setattr(interface, name, classmethod(_checked(function, kinds)))
        return interface

    return wrapped


def _checked(method: Callable[..., Any], kinds: Mapping[str, ArgumentKind]) -> Callable[..., Any]:
    parameters = [*signature(method).parameters]
    checked = {name: kinds[name] for name in parameters if name in kinds}

    @wraps(method)
    def call(*positional: Any, **named: Any) -> Any:
        if checked:
            check_arguments({**dict(zip(parameters, positional, strict=False)), **named}, checked)
        try:
            return method(*positional, **named)
        except FlowloomError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ArgumentError(
                f"{method.__qualname__} cannot take its arguments ({reason}): correct them"
            ) from error

    return call


def inputs_by_name(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a run as a dictionary; raises ArgumentError for others than mappings."""
    if type(inputs) is dict:
        return cast(dict[str, Any], inputs)
    check_arguments({"inputs": inputs}, RUN)
    try:
        return {**inputs}
    except Exception as error:  # the mapping's methods are a caller's code
        raise ArgumentError(f"inputs cannot be read ({error}): pass a dict of arrays") from error


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"(its repr: {type(error).__name__})"
    return text if len(text) <= 60 else text[:57] + "..."
