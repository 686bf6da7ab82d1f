"""The element types of a node's results, as the standard has them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import onnx

from compiler.program.host.registry import HostValue


def standard_results(
    schema: onnx.defs.OpSchema | None,
    inputs: Sequence[HostValue],
    results: Sequence[HostValue],
) -> list[HostValue]:
    """The results as arrays of the types that the schema says; texts are arrays of objects.

    A type that depends on attributes is the function's own.
    """
    types = [None] * len(results) if schema is None else _result_types(schema, inputs)
    formals = len(types) - 1
    return [_as_type(value, types[min(i, formals)]) for i, value in enumerate(results)]


def _result_types(schema: onnx.defs.OpSchema, inputs: Sequence[HostValue]) -> list[np.dtype | None]:
    """The dtype of each formal output; None where neither the schema nor the inputs decide it."""
    bound: dict[str, np.dtype] = {}
    for index, value in enumerate(inputs):
        dtype = _dtype_of(value)
        if dtype is not None and schema.inputs:
            formal = schema.inputs[min(index, len(schema.inputs) - 1)]
            bound.setdefault(formal.type_str, dtype)
    only = _only_types(schema.domain, schema.name, schema.since_version)
    return [
        own or bound.get(formal.type_str) for own, formal in zip(only, schema.outputs, strict=True)
    ]


@cache
def _only_types(domain: str, name: str, version: int) -> Sequence[np.dtype | None]:
    """The dtype of each formal output that can have one only."""
    schema = onnx.defs.get_schema(name, version, domain)
    types = [sorted(formal.types) for formal in schema.outputs]
    return [_TENSORS.get(names[0]) if len(names) == 1 else None for names in types]


def _tensor_types() -> Mapping[str, np.dtype]:
    """The dtypes by the names that schemas have for tensors of them."""
    found: dict[str, np.dtype] = {}
    for name, element in onnx.TensorProto.DataType.items():
        if element:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
            found[f"tensor({name.lower()})"] = dtype
    return found


_TENSORS = _tensor_types()


def _dtype_of(value: HostValue) -> np.dtype | None:
    """The dtype of a tensor, or of the tensors of a sequence."""
    if isinstance(value, list):
        items = cast(Sequence[Any], value)
        return _dtype_of(items[0]) if items else None
    return value.dtype if hasattr(value, "dtype") else None


def _as_type(value: HostValue, dtype: np.dtype | None) -> HostValue:
    """A result as an array of a dtype, a list of such arrays, dictionaries, or None."""
    if value is None or isinstance(value, dict):
        return cast(HostValue, value)
    if isinstance(value, list):
        return [_as_type(item, dtype) for item in cast(Sequence[Any], value)]
    array = np.asarray(value)
    if array.dtype.kind in "USO":
        return array.astype(object, copy=False)
    return array if dtype is None else array.astype(dtype, copy=False)
