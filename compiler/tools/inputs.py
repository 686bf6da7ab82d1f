"""Inputs of a run: random ones, or those of an archive."""

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from compiler.artifact.module import Module
from compiler.backends.memory import Array
from compiler.errors import ShapeError
from compiler.schedule.tasks import Allocation

if TYPE_CHECKING:
    from compiler.program.signature import ValueType
from compiler.support.caches import check_regular

UNREADABLE = (
    *(OSError, ValueError, TypeError, EOFError, RuntimeError, OverflowError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
"""The errors that numpy raises for a file that is not an archive of arrays."""


def read_inputs(path: Path) -> dict[str, Array]:
    """The arrays of a .npz by name; ShapeError for a file that is not one."""
    try:
        check_regular(path)
        # numpy.load also reads files of a single array, which have no names
        with zipfile.ZipFile(path):
            pass
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ShapeError(
            f"cannot read inputs from {path}: {reason}; it must be what numpy.savez writes"
        ) from error


def random_inputs(module: Module, seed: int) -> dict[str, Array]:
    """Normal floats and integers 0 or 1, as these are mostly indices, from a seed."""
    return random_arrays(module.inputs, seed)


def random_arrays(specs: "Iterable[Allocation | ValueType]", seed: int) -> dict[str, Array]:
    """Random arrays for inputs that have a name, a dtype and a shape."""
    generator = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    for spec in specs:
        shape = tuple(size for size in spec.shape or () if isinstance(size, int))
        if spec.kind in ("map", "optional", "sequence"):
            raise ShapeError(
                f"the input {spec} is not a tensor, and commands take tensors alone: run the model"
                " in Python, by flowloom.compile(MODEL).run({...})"
            )
        if spec.shape is None or len(shape) < len(spec.shape):
            raise ShapeError(
                f"the input {spec} has no fixed shape: give one with --input-shape"
                f" {spec.name}=SIZES, or the inputs with --inputs"
            )
        if np.dtype(spec.dtype).kind in "iub":
            inputs[spec.name] = generator.integers(0, 2, shape).astype(spec.dtype)
        else:
            inputs[spec.name] = generator.standard_normal(shape).astype(spec.dtype)
    return inputs
