"""Options of sessions and runs with onnxruntime's names.

A field that means nothing here and cannot change a result is kept and not read; what could change
one, and cannot be done, is refused.
"""

import logging
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from compiler.arguments import own_errors
from compiler.errors import ArgumentError, InvalidArgument

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


REFUSED_ENTRIES = {
    "session.load_model_format": ("", "ONNX"),
    "session.save_model_format": ("", "ONNX"),
    "session.set_denormal_as_zero": ("", "0"),
}
"""The values that config entries may have which could change a result."""


@own_errors
@dataclass(slots=True)
class SessionOptions:
    """The options of a session; an unknown field is an AttributeError, as in onnxruntime.

    `intra_op_num_threads` are the cores of a run on the CPU (0: all). `optimized_model_filepath` is
    a directory to save the compiled module to, which a later session opens at once. With
    `enable_profiling` a Chrome trace is written whose name begins with `profile_file_prefix`.
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
        self.sizes_by_name[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Give the dimensions of a denotation such as `DATA_BATCH` a size."""
        self.sizes_by_denotation[denotation] = int(size)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; raises ArgumentError for one that would change results here."""
        if value not in REFUSED_ENTRIES.get(key, (value,)):
            raise ArgumentError(f"the session entry {key}={value!r} is not supported: leave it out")
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The value of an entry; raises InvalidArgument if it was not added."""
        return _entry(self.entries, key)

    def add_initializer(self, name: str, value: Any) -> None:
        """Raises ArgumentError: weights are packed when a model is compiled."""
        raise ArgumentError(
            f"the initializer {name!r} cannot be replaced: put its value into the model"
        )

    def add_external_initializers(self, names: Any, values: Any) -> None:
        """Raises ArgumentError, as `add_initializer`."""
        raise ArgumentError("initializers cannot be replaced: put their values into the model")

    def register_custom_ops_library(self, path: str) -> None:
        """Raises ArgumentError: operators are added as docs/adding-an-operator.md says."""
        raise ArgumentError(
            f"{path}: libraries of onnxruntime's custom operators cannot be loaded; write the"
            " operator as a function in the model, or see docs/adding-an-operator.md"
        )


@own_errors
@dataclass(slots=True)
class RunOptions:
    """The options of a run; with `terminate` it fails instead of running."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    entries: dict[str, str] = field(default_factory=dict[str, str])

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none changes a result here."""
        self.entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """The value of an entry; raises InvalidArgument if it was not added."""
        return _entry(self.entries, key)

    def add_active_adapter(self, adapter: Any) -> None:
        """Raises ArgumentError: an adapter would change the compiled weights."""
        raise ArgumentError("LoRA adapters are not supported: merge them into the model's weights")


def _entry(entries: dict[str, str], key: str) -> str:
    if key not in entries:
        raise InvalidArgument(f"there is no entry {key!r}: it has {', '.join(entries) or 'none'}")
    return entries[key]


def check_run_options(options: RunOptions | None) -> None:
    """Raise InvalidArgument for a run that its options end before it begins."""
    if options is not None and options.terminate:
        raise InvalidArgument("the run was not made: its options have terminate=True")


def set_default_logger_severity(severity: Any) -> None:
    """Show logs from a severity on: 0 verbose, 1 information, 2 warning, 3 error, 4 fatal."""
    if not isinstance(severity, int) or severity not in range(len(SEVERITIES)):
        raise InvalidArgument(f"the severity {severity!r} is not one of 0 to 4")
    logging.getLogger("compiler").setLevel(SEVERITIES[severity])
