"""Flowloom: compiles an ONNX model into a verified multi-stream schedule of fused kernels.

`compile` needs the whole compiler; `load` and `Module` need only numpy, llvmlite and safetensors.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from compiler.errors import (
    ArtifactError,
    DeviceError,
    FlowloomError,
    KernelError,
    ModelError,
    PipelineError,
    ScheduleError,
    ShapeError,
    UnsupportedOperatorError,
)
from compiler.module import Module, load

if TYPE_CHECKING:
    import onnx

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_PIPELINE",
    "ArtifactError",
    "DeviceError",
    "FlowloomError",
    "KernelError",
    "ModelError",
    "Module",
    "PipelineError",
    "ScheduleError",
    "ShapeError",
    "UnsupportedOperatorError",
    "compile",
    "load",
]
