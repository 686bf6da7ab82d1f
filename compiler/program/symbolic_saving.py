"""The saved form of a segment for all sizes: an artifact whose manifest has the segment's entries.

They are the shapes of its inputs, what was assumed of sizes, and the outputs that need no operator.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from compiler.artifact import symbolic
from compiler.artifact.manifest import Vouch
from compiler.artifact.symbolic import SymbolNames
from compiler.artifact.weights import Placing
from compiler.backends.base import backend
from compiler.errors import ArtifactError
from compiler.net.graph import Value
from compiler.program.folding import FoldedOutputs
from compiler.program.symbolic import SymbolicSegment, multiple_of
from compiler.tensors.assumptions import Assumptions, SizeCondition, assuming
from compiler.tensors.dtypes import numpy_dtype
from compiler.tensors.extents import Relation, symbols_of
from compiler.tensors.substitution import extent_array, is_symbolic
from compiler.verify import checked_json as read


def save_segment(segment: SymbolicSegment, folder: Path) -> None:
    """Write a segment to a new folder."""
    every = [extent for shape in segment.axes.values() for extent in shape]
    every += [condition.extent for condition in segment.assumptions]
    symbols = {symbol for extent in every for symbol in symbols_of(extent)}
    entries = partial(_entries, segment)
    with assuming():  # a denominator is positive where the segment's own conditions hold
        symbolic.save(segment.build, folder, sorted(symbols, key=str), entries)


def _entries(segment: SymbolicSegment, names: SymbolNames) -> dict[str, Any]:
    outputs = segment.outputs
    return {
        "axes": {name: [*map(names.text, shape)] for name, shape in segment.axes.items()},
        "assumptions": [[names.text(c.extent), c.relation] for c in segment.assumptions],
        "constants": {name: _array_to_json(array) for name, array in outputs.constants.items()},
        "passed": dict(outputs.passed),
        "reads": [*outputs.reads],
        "sizes": {
            name: {
                "dtype": value.dtype,
                "shape": [*value.shape],
                "extents": [*map(names.text, value.content.reshape(-1).tolist())],
            }
            for name, value in outputs.sizes.items()
        },
    }


def _array_to_json(array: np.ndarray) -> dict[str, Any]:
    data = b64encode(array.tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": [*array.shape], "data": data}


def load_segment(
    folder: Path, placing: Placing, vouch: Vouch, options: Mapping[str, Any]
) -> SymbolicSegment:
    """Read a segment, which is verified as any artifact, and again for all sizes.

    `options` are those of its modules. Raises ArtifactError, and DeviceError if this host cannot
    run it.
    """

    def check(target: str, requirements: Any) -> None:
        backend(target).check(requirements or backend(target).requirements(target))

    with assuming() as denominators:  # that texts divide by; a run checks that they are positive
        build, names, entries = symbolic.load(folder, check, placing, vouch)
        path = f"{folder}: the segment"
        axes = read.as_object(entries.get("axes"), f"{path}.axes")
        axis = partial(_axis, names)
        shapes = {n: read.checked_items(axes[n], f"{path}.axes.{n}", axis) for n in axes}
        conditions = read.checked_items(
            entries.get("assumptions"), f"{path}.assumptions", partial(_condition, names)
        )
        outputs = _outputs(entries, path, names)
    return SymbolicSegment(
        shapes, Assumptions.of([*denominators, *conditions]), outputs, build, options
    )


def _axis(names: SymbolNames, value: object, path: str) -> int:
    extent = names.extent(value, path)
    try:
        _ = is_symbolic(extent) and multiple_of(extent)
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}") from error
    return extent


def _condition(names: SymbolNames, value: object, path: str) -> SizeCondition:
    pair = cast(list[object], value) if isinstance(value, list) else []
    if len(pair) != 2:
        raise ArtifactError(f"{path} is not [extent, relation]")
    relation = cast(Relation, read.checked_one_of(pair[1], path, get_args(Relation)))
    return SizeCondition(names.any_extent(pair[0], path), relation)


def _outputs(entries: dict[str, object], path: str, names: SymbolNames) -> FoldedOutputs:
    constants, passed, sizes = (
        read.as_object(entries.get(key), f"{path}.{key}")
        for key in ("constants", "passed", "sizes")
    )
    return FoldedOutputs(
        {name: _array(value, f"{path}.constants.{name}") for name, value in constants.items()},
        {name: read.text(source, f"{path}.passed.{name}") for name, source in passed.items()},
        read.checked_items(entries.get("reads"), f"{path}.reads", read.text),
        {n: _value(n, value, f"{path}.sizes.{n}", names) for n, value in sizes.items()},
    )


def _array(value: object, path: str) -> np.ndarray:
    entry = read.as_object(value, path)
    dtype = numpy_dtype(read.dtype(entry.get("dtype"), f"{path}.dtype"))
    shape = read.checked_items(entry.get("shape"), f"{path}.shape", read.natural)
    try:
        data = b64decode(read.string(entry, "data", path), validate=True)
        return np.frombuffer(data, dtype).reshape(shape)  # a view that nobody can change
    except ValueError as error:
        raise ArtifactError(f"{path} is not an array: {error}") from error


def _value(name: str, value: object, path: str, names: SymbolNames) -> Value:
    entry = read.as_object(value, path)
    extents = read.checked_items(entry.get("extents"), f"{path}.extents", names.any_extent)
    shape = read.checked_items(entry.get("shape"), f"{path}.shape", read.natural)
    dtype = read.dtype(entry.get("dtype"), f"{path}.dtype")
    try:
        return Value(name, dtype, shape, extent_array(extents).reshape(shape))
    except ValueError as error:
        raise ArtifactError(f"{path} has not the elements of its shape: {error}") from error
