"""Static shapes of a model's inputs."""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral

import onnx

from compiler.errors import OpenShapeError, ShapeError
from compiler.support.arguments import LARGEST_SIZE

Shape = tuple[int, ...]
Shapes = Mapping[str, Sequence[int]]


PLACEHOLDERS = frozenset({"", "?", "*", "-1", "any", "dynamic", "none", "null", "unk", "unknown"})
"""The names, in lower case, that exporters give a dimension of which they know nothing.

Each such dimension has any size, like one without a name.
"""


def dimensions_of(info: onnx.ValueInfoProto) -> list[int | str] | None:
    """Numbers, symbols, and empty strings for unknown dimensions; None for an unknown rank."""
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.dim_value > 0 else _symbol(d) for d in tensor.shape.dim]


def _symbol(dimension: onnx.TensorShapeProto.Dimension) -> int | str:
    known_empty = dimension.HasField("dim_value") and dimension.dim_value == 0
    if known_empty:
        return 0
    unnamed = dimension.dim_param.strip().lower() in PLACEHOLDERS
    return "" if unnamed else dimension.dim_param


def _is_size(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return 0 <= int(value) <= LARGEST_SIZE


def checked_shape(name: str, given: Sequence[int], dimensions: list[int | str] | None) -> Shape:
    """The given shape, checked against the declared one."""
    if not all(map(_is_size, given)):
        raise ShapeError(
            f"the shape {list(given)} of input {name!r} needs whole numbers of at least 0"
            f" and at most {LARGEST_SIZE}"
        )
    shape = tuple(int(d) for d in given)
    if dimensions is None:
        return shape
    if len(shape) != len(dimensions):
        raise ShapeError(
            f"input {name!r} has {len(dimensions)} dimensions {dimensions}, "
            f"the given shape {list(shape)} has {len(shape)}"
        )
    for axis, (dimension, size) in enumerate(zip(dimensions, shape, strict=True)):
        if isinstance(dimension, int) and dimension != size:
            raise ShapeError(
                f"dimension {axis} of input {name!r} is {dimension} in the model, the given "
                f"shape {list(shape)} says {size}: change it there, or export the model again"
            )
    return shape


def _missing(name: str, dimensions: list[int | str] | None, symbols: Mapping[str, int]) -> str:
    if dimensions is None:
        return f"input {name!r} has no declared shape"
    open_axes = [a for a, d in enumerate(dimensions) if isinstance(d, str) and d not in symbols]
    names = ", ".join(
        f"{axis} ({dimensions[axis]!r})" if dimensions[axis] else str(axis) for axis in open_axes
    )
    return f"input {name!r} leaves dimension {names} open" if open_axes else ""


def resolve_shapes(infos: Iterable[onnx.ValueInfoProto], given: Shapes) -> dict[str, Shape]:
    """The static shape of each input; the size of a symbol holds wherever it occurs.

    Raises ShapeError for an unknown input, a wrong rank or a contradiction, and OpenShapeError for
    an open dimension.
    """
    declared = {info.name: dimensions_of(info) for info in infos}
    if unknown := sorted(set(given) - set(declared)):
        raise ShapeError(
            f"the model has no input {unknown[0]!r}; its inputs are {', '.join(declared) or 'none'}"
        )
    fixed = {name: checked_shape(name, shape, declared[name]) for name, shape in given.items()}
    symbols: dict[str, int] = {}
    for name, shape in fixed.items():
        for dimension, size in zip(
            declared[name] or [], shape if declared[name] else (), strict=True
        ):
            if isinstance(dimension, str) and dimension:
                if symbols.setdefault(dimension, size) != size:
                    raise ShapeError(
                        f"the dimension {dimension!r} is {size} in input {name!r} and "
                        f"{symbols[dimension]} in another: give one size for it"
                    )
    open_inputs = [
        text
        for name, dimensions in declared.items()
        if name not in fixed and (text := _missing(name, dimensions, symbols))
    ]
    if open_inputs:
        raise OpenShapeError(
            "; ".join(open_inputs) + ": fix every dimension with input_shapes={name: [sizes]} "
            "(--input-shape name=sizes on the command line)"
        )
    return {
        name: fixed[name]
        if name in fixed
        else tuple(symbols[d] if isinstance(d, str) else d for d in dimensions or ())
        for name, dimensions in declared.items()
    }
