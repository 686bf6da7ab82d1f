"""Flowloom: compiles an ONNX model into a verified multi-stream schedule of fused kernels.

`compile` needs the whole compiler; `load` and `Module` run without TVM, onnx and xDSL.
"""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler import errors
from compiler.artifact.checking import checked_artifacts
from compiler.artifact.manifest import PROGRAM_MANIFEST, format_in, trust_all
from compiler.artifact.module import Module
from compiler.artifact.module import load as load_module
from compiler.artifact.signing import KeyFile, trusting, write_signature
from compiler.errors import (
    ArgumentError,
    ArtifactError,
    ClusterError,
    DeviceError,
    DifferenceError,
    FlowloomError,
    InputDataError,
    InvalidArgument,
    KernelError,
    MissingExtraError,
    ModelError,
    OpenShapeError,
    PipelineError,
    RunInputError,
    ScheduleError,
    SemanticsWarning,
    ShapeError,
    SymbolicFaultWarning,
    UnsupportedOperatorError,
)
from compiler.support.arguments import COMPILE, LOAD, check_arguments

if TYPE_CHECKING:
    import onnx
    from xdsl.passes import ModulePass

    from compiler.interfaces.onnxruntime.inference_session import InferenceSession
    from compiler.interfaces.onnxruntime.io_binding import IOBinding
    from compiler.interfaces.onnxruntime.node_arg import ModelMetadata, NodeArg
    from compiler.interfaces.onnxruntime.options import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        RunOptions,
        SessionOptions,
        set_default_logger_severity,
    )
    from compiler.interfaces.onnxruntime.ort_value import OrtValue
    from compiler.interfaces.onnxruntime.providers import (
        get_all_providers,
        get_available_providers,
        get_device,
    )
    from compiler.interfaces.torch.entry import from_torch
    from compiler.passes.pipeline import DEFAULT_PIPELINE
    from compiler.program.model import DynamicModule
    from compiler.progress import Listener
    from compiler.schedule.tasks import Schedule

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_PIPELINE",
    "ArgumentError",
    "ArtifactError",
    "ClusterError",
    "DeviceError",
    "DifferenceError",
    "DynamicModule",
    "ExecutionMode",
    "ExecutionOrder",
    "FlowloomError",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InputDataError",
    "InvalidArgument",
    "KernelError",
    "MissingExtraError",
    "ModelError",
    "ModelMetadata",
    "Module",
    "NodeArg",
    "OpenShapeError",
    "OrtValue",
    "PipelineError",
    "RunInputError",
    "RunOptions",
    "Schedule",
    "ScheduleError",
    "SemanticsWarning",
    "SessionOptions",
    "ShapeError",
    "SymbolicFaultWarning",
    "UnsupportedOperatorError",
    "compile",
    "errors",
    "from_torch",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "load",
    "set_default_logger_severity",
    "sign",
]

_HOMES = {
    "DEFAULT_PIPELINE": "compiler.passes.pipeline",
    "DynamicModule": "compiler.program.model",
    "ExecutionMode": "compiler.interfaces.onnxruntime.options",
    "ExecutionOrder": "compiler.interfaces.onnxruntime.options",
    "GraphOptimizationLevel": "compiler.interfaces.onnxruntime.options",
    "IOBinding": "compiler.interfaces.onnxruntime.io_binding",
    "InferenceSession": "compiler.interfaces.onnxruntime.inference_session",
    "ModelMetadata": "compiler.interfaces.onnxruntime.node_arg",
    "NodeArg": "compiler.interfaces.onnxruntime.node_arg",
    "OrtValue": "compiler.interfaces.onnxruntime.ort_value",
    "RunOptions": "compiler.interfaces.onnxruntime.options",
    "Schedule": "compiler.schedule.tasks",
    "SessionOptions": "compiler.interfaces.onnxruntime.options",
    "backend": "compiler.backend",
    "from_torch": "compiler.interfaces.torch.entry",
    "get_all_providers": "compiler.interfaces.onnxruntime.providers",
    "get_available_providers": "compiler.interfaces.onnxruntime.providers",
    "get_device": "compiler.interfaces.onnxruntime.providers",
    "set_default_logger_severity": "compiler.interfaces.onnxruntime.options",
}
"""The module of each public name that is imported when it is first used."""


def compile(
    model: "str | os.PathLike[str] | bytes | onnx.ModelProto",
    *,
    target: str = "cpu",
    pipeline: str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    arch: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    dump_ir: str | os.PathLike[str] | None = None,
    budget: float | None = None,
    profile: str | os.PathLike[str] | None = None,
    schedule: str | os.PathLike[str] | None = None,
    passes: "Sequence[type[ModulePass] | str]" = (),
    overridable: Sequence[str] = (),
    cache: bool = True,
    check_indices: bool = False,
    dynamic: bool = True,
    graphs: str = "all",
    quantised: str = "auto",
    semantics: str | Mapping[str, str] | None = None,
    buckets: None = None,
    check: bool = False,
    progress: "Listener | None" = None,
) -> "Module | Any":
    """Compile an ONNX model into a module that runs on this machine.

    `model` is a path, the bytes of a model or an `onnx.ModelProto`. `input_shapes` fixes symbolic
    dimensions by input name. `pipeline` is a string of passes (default: `DEFAULT_PIPELINE`), which
    may name those of `passes`: classes, or `FILE.py:CLASS` (docs/adding-a-pass.md).
    `arch` is what kernels are compiled for (cuda: the device's, else sm_90; hip: one or several
    such as "gfx90a,gfx942", default the device's, else gfx90a; cpu: this host). `precision` is that
    of GEMMs and convolutions (cpu and hip: fp32 by default, fp16 or bf16; cuda and emu: tf32 by
    default, fp32, fp16 or bf16). On a CPU only storage has 16 bits, computing has 32. `threads` is
    the number of cores that a run may use on the CPU (default: all available). Compiling and saving
    need no device; the first run does. `dump_ir` is a directory for an IR file for each pass, and
    the CUDA text of every kernel.

    On a GPU a search with a simulator of the device finds candidate schedules. Measuring them for 5
    seconds, or 0.2 for a small segment of a dynamic module, chooses the schedule and the execution
    mode, or the simulator if the device is missing; `Module.choice` has the figures. Before that,
    candidates of kernels that no database has are measured for 0.8 seconds each, 5 at most, and
    go to the user's database (docs/tuning.md). With a `budget` in seconds kernels may take half of
    it, and schedules get the rest; 0 measures nothing.

    The search is bounded in steps, so that it depends on kernel times alone:
    `schedule="auto{steps=1000 seed=1}"` sets steps and seed. With an explicit pipeline only the
    mode is chosen. `profile` is a file of kernel times, to which measurements are added; with it
    and a budget of 0 nothing is measured, and the schedule depends on the model, the options and
    the file alone. `schedule` can also be a file of constraints, or a `schedule.json` to use
    unchanged (docs/schedules.md).

    An initializer that is also an input of the model is compiled in like the others. Those that
    `overridable` names are inputs that each run gives instead (docs/interfaces.md).

    Kernels are read from the cache of `flowloom cache` and added to it, unless `cache` is False; a
    CPU's module is read from there whole, where nothing that decides it changed (docs/targets.md).
    Kernels clamp indices in the input data that are out of range; with `check_indices` a run with
    such indices raises InputDataError, which names the node (docs/safety.md).

    A model whose shapes or control flow only a run decides, or with nodes for which there is no
    kernel, becomes a `compiler.program.model.DynamicModule`, which is used in the same way; with
    `dynamic` False it is refused (docs/dynamic.md). `buckets` are refused: sizes are symbols.

    `graphs` names the parts of PyGraph to use on cuda and emu: `all`, `none`, or some of
    `resident,indirection,selective` (docs/dynamic.md).

    `quantised` says how quantised operators are contracted: as `bytes` where there are kernels for
    them; as bytes that are the only numbers rounded, as these are `operands`, while all else is
    only clipped to its range; as `floats` of the precision that are rounded as bytes; as
    `unrounded` floats, which are only clipped; or `auto`: on cpu bytes, on cuda the faster of bytes
    and floats, in fp16 and bf16 of operands and unrounded.

    `semantics` says whose results a model has where onnxruntime's are not those of the ONNX text by
    more than rounding: "onnx", "onnxruntime", or one of these by the name of a rule of
    docs/differences.md, where "*" stands for the other rules. A node that meets a rule without a
    choice follows the text, and a SemanticsWarning names it.

    `progress` is called with events of `compiler.progress`, frozen dataclasses, also from other
    threads.

    With `check` a run launches one task after another and compares each with the interpreter, on
    the tensors that the task reads; the first that differs raises DifferenceError
    (docs/debugging-a-pass.md). Such a model has static shapes.

    On the CPU that the code is for, a `budget` is all for candidates of kernels that no database
    of this CPU has, and nothing is measured without one; `Module.tuning` says what that gained. For
    hip and emu nothing is measured: a budget or profile is refused there. `graphs` is refused on
    cpu and hip, and a profile on cpu.

    Raises a FlowloomError: ArgumentError, ModelError, ShapeError, UnsupportedOperatorError,
    PipelineError, ScheduleError, KernelError or DeviceError.
    """
    arguments = locals()
    check_arguments(arguments, COMPILE)
    del arguments["buckets"]
    from compiler.tools.api.keeping import compiled_or_kept

    return compiled_or_kept(arguments)


def load(
    directory: str | os.PathLike[str],
    threads: int | None = None,
    *,
    trusted: "KeyFile | Sequence[KeyFile] | None" = None,
    **options: Any,
) -> "Module | Any":
    """Load a saved module after verifying its files, its schedule, its kernels and this host.

    A saved module is native code, which runs as this process (docs/trust.md): `trusted` names one
    or several PEM files of Ed25519 public keys, and what none of them signed is refused. `threads`
    work on each run (default: as many as the process may use); `options` are the backend's.

    Raises ArtifactError for a missing, truncated or edited file and for a missing or wrong
    signature, and DeviceError, which names the missing requirement, if this host cannot run it.
    """
    check_arguments({"directory": directory, "threads": threads, "trusted": trusted}, LOAD)
    if format_in(Path(directory)) is not PROGRAM_MANIFEST:
        return load_module(directory, threads, trusted=trusted, **options)
    from compiler.program.loading import load_program

    if threads is not None:
        options["threads"] = threads
    return load_program(Path(directory), options, trusting(trusted))


def sign(directory: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
    """Sign a saved module after checking all of it, for `load` with `trusted`.

    `key` is the PEM file of an Ed25519 private key without a password. Saving again removes the
    signature. Raises ArtifactError, ArgumentError for another key, and MissingExtraError without
    the package `cryptography`.
    """
    check_arguments({"directory": directory, "key": key}, LOAD)
    for _ in checked_artifacts(Path(directory), trust_all):
        pass
    write_signature(Path(directory), key)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'compiler' has no attribute {name!r}")
    module = import_module(_HOMES[name])
    return module if name == "backend" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
