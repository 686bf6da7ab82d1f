"""Options of sessions and runs with onnxruntime's names.

A field that means nothing here and cannot change a result is kept and not read; what could change
one, and cannot be done, is refused.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from operator import index
from typing import Any, cast

from compiler.errors import ArgumentError, InvalidArgument
from compiler.support.arguments import own_errors, taking

SEVERITIES = (
    *(logging.DEBUG, logging.INFO, logging.WARNING),
    *(logging.ERROR, logging.CRITICAL),
)
"""Levels of `logging` by onnxruntime's severity: verbose, info, warning, error, fatal."""


class GraphOptimizationLevel(IntEnum):
    """Accepted: graphs are always optimised, and `pipeline` says how."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Accepted: the schedule says what runs at once."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Accepted: the schedule has the order."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


ENUMERATIONS: Mapping[str, type[IntEnum]] = {
    "graph_optimization_level": GraphOptimizationLevel,
    "execution_mode": ExecutionMode,
    "execution_order": ExecutionOrder,
}
"""The enumerations of the fields that have one."""

LONGEST_KEY = 1024
"""The letters that the key of an entry may have, as in onnxruntime."""

REFUSED_ENTRIES = {
    "session.load_model_format": ("", "ONNX"),
    "session.save_model_format": ("", "ONNX"),
    "session.set_denormal_as_zero": ("", "0"),
}
"""The values that config entries may have which could change a result."""


class CheckedFields:
    """Fields that keep values of their types only, as onnxruntime's do.

    A bool is the truth of any number, an int has 32 bits and is a member of its field's
    enumeration, and a text may be bytes or a path. Others raise ArgumentError, a TypeError.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        annotated: Any = type(self).__annotations__.get(name)
        if annotated is not None:
            with taking(name, value=value):  # its methods are a caller's code
                value = _field(name, annotated, value)
        object.__setattr__(self, name, value)


def _field(name: str, annotated: Any, value: Any) -> Any:
    """The value of a field, in the type of its annotation."""
    if annotated is bool and (value is None or hasattr(type(cast(object, value)), "__bool__")):
        with suppress(TypeError, ValueError):  # as arrays of several elements raise
            return bool(value)
    if annotated is str:
        return _text(name, value)
    if annotated is int:
        number = _number(name, value)
        enumeration = ENUMERATIONS.get(name)
        return number if enumeration is None else _member(name, enumeration, number)
    if annotated is not bool and isinstance(value, dict):
        return cast(object, value)
    kind = "True or False" if annotated is bool else "a dict"
    raise ArgumentError(f"{name} is {value!r}: it must be {kind}")


def _text(name: str, value: Any) -> str:
    """A text, which may be given as bytes or a path."""
    if not isinstance(value, str | bytes | os.PathLike):
        raise ArgumentError(f"{name} is {value!r}: it must be a str")
    return os.fsdecode(cast(str, value))


def _number(name: str, value: Any, bits: int = 32) -> int:
    """A whole number of so many bits, with a sign."""
    with suppress(TypeError):
        if -1 << bits - 1 <= (number := index(value)) < 1 << bits - 1:
            return number
    raise ArgumentError(f"{name} is {value!r}: it must be a whole number of {bits} bits")


def _member(name: str, enumeration: type[IntEnum], number: int) -> IntEnum:
    if number not in [*enumeration]:
        members = ", ".join(f"{enumeration.__name__}.{member.name}" for member in enumeration)
        raise ArgumentError(f"{name} is {number}: it must be one of {members}")
    return enumeration(number)


@own_errors({})
@dataclass(slots=True)
class SessionOptions(CheckedFields):
    """The options of a session; an unknown field is an AttributeError, as in onnxruntime.

    `intra_op_num_threads` are the cores of a run on the CPU (0 and less: all).
    `optimized_model_filepath` is a directory to save the compiled module to, which a later session
    opens at once. With `enable_profiling` a Chrome trace is written whose name begins with
    `profile_file_prefix`.
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    enable_profiling: bool = False
    profile_file_prefix: str = "flowloom_profile_"
    optimized_model_filepath: str = ""
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    graph_optimization_level: int = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: int = ExecutionMode.ORT_SEQUENTIAL
    execution_order: int = ExecutionOrder.DEFAULT
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    sizes_by_name: dict[str, int] = field(default_factory=dict[str, int])
    sizes_by_denotation: dict[str, int] = field(default_factory=dict[str, int])
    entries: dict[str, str] = field(default_factory=dict[str, str])

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Give a symbolic dimension a size, so that the model is compiled for it alone."""
        self.sizes_by_name[_text("the name of a dimension", name)] = _number("size", size, 64)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Give the dimensions of a denotation such as `DATA_BATCH` a size."""
        self.sizes_by_denotation[_text("a denotation", denotation)] = _number("size", size, 64)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; raises ArgumentError for one that would change results here."""
        key, value = _checked_entry(key, value)
        if value not in REFUSED_ENTRIES.get(key, (value,)):
            raise ArgumentError(f"the session entry {key}={value!r} is not supported: leave it out")
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The value of an entry; raises InvalidArgument if it was not added."""
        return _entry(self.entries, key)

    def add_initializer(self, name: str, value: Any) -> None:
        """Raises ArgumentError: weights are packed when a model is compiled."""
        name = _text("the name of an initializer", name)
        raise ArgumentError(
            f"the initializer {name!r} cannot be replaced: put its value into the model"
        )

    def add_external_initializers(self, names: Any, values: Any) -> None:
        """Raises ArgumentError, as `add_initializer`."""
        raise ArgumentError("initializers cannot be replaced: put their values into the model")

    def register_custom_ops_library(self, path: str) -> None:
        """Raises ArgumentError: operators are added as docs/adding-an-operator.md says."""
        path = _text("the path of a library", path)
        raise ArgumentError(
            f"{path}: libraries of onnxruntime's custom operators cannot be loaded; write the"
            " operator as a function in the model, or see docs/adding-an-operator.md"
        )


@own_errors({})
@dataclass(slots=True)
class RunOptions(CheckedFields):
    """The options of a run; with `terminate` it fails instead of running."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    entries: dict[str, str] = field(default_factory=dict[str, str])

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none changes a result here."""
        key, value = _checked_entry(key, value)
        self.entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """The value of an entry; raises InvalidArgument if it was not added."""
        return _entry(self.entries, key)

    def add_active_adapter(self, adapter: Any) -> None:
        """Raises ArgumentError: an adapter would change the compiled weights."""
        raise ArgumentError("LoRA adapters are not supported: merge them into the model's weights")


def _checked_entry(key: Any, value: Any) -> tuple[str, str]:
    """An entry as text; raises InvalidArgument for a key of a length that onnxruntime refuses."""
    name = _text("the key of an entry", key)
    if not 0 < len(name) <= LONGEST_KEY:
        raise InvalidArgument(
            f"the key of an entry has {len(name)} letters: use one of 1 to {LONGEST_KEY}"
        )
    return name, _text(f"the value of the entry {name}", value)


def _entry(entries: dict[str, str], key: str) -> str:
    key = _text("the key of an entry", key)
    if key not in entries:
        raise InvalidArgument(f"there is no entry {key!r}: it has {', '.join(entries) or 'none'}")
    return entries[key]


def check_run_options(options: Any) -> None:
    """Raise InvalidArgument for a run that its options end before it begins.

    Raises ArgumentError, which is a TypeError as in onnxruntime, for an object of another class.
    """
    if not isinstance(options, RunOptions | None):
        raise ArgumentError(f"run_options is {options!r}: pass flowloom.RunOptions(), or None")
    if options is not None and options.terminate:
        raise InvalidArgument("the run was not made: its options have terminate=True")


def set_default_logger_severity(severity: Any) -> None:
    """Show logs from a severity on: 0 verbose, 1 information, 2 warning, 3 error, 4 fatal."""
    with taking("set_default_logger_severity", severity=severity):
        if not isinstance(severity, int) or severity not in range(len(SEVERITIES)):
            raise InvalidArgument(f"the severity {severity!r} is not one of 0 to 4")
    logging.getLogger("compiler").setLevel(SEVERITIES[severity])
