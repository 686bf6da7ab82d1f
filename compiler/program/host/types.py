"""The element types of a node's results, as the standard has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx

from compiler.program.host.registry import HostSequence, HostValue


@dataclass(frozen=True, slots=True)
class FormalTypes:
    """The type variables of an operator's inputs and outputs, and the outputs' only dtypes."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    only: Sequence[np.dtype | None]

    @classmethod
    def of(cls, schema: onnx.defs.OpSchema | None) -> "FormalTypes":
        """The types of a schema, which is read once: that takes microseconds."""
        if schema is None:
            return cls([], [], [])
        types = [sorted(formal.types) for formal in schema.outputs]
        return cls(
            [formal.type_str for formal in schema.inputs],
            [formal.type_str for formal in schema.outputs],
            [_TENSORS.get(names[0]) if len(names) == 1 else None for names in types],
        )


def standard_results(
    formals: FormalTypes, inputs: Sequence[HostValue], results: Sequence[HostValue]
) -> list[HostValue]:
    """The results as arrays of the types that the schema says; texts are arrays of objects.

    A type that depends on attributes is the function's own.
    """
    # The dtype of each formal output; None where neither the schema nor the inputs decide it.
    bound: dict[str, np.dtype] = {}
    last = len(formals.inputs) - 1
    for index, value in enumerate(inputs if formals.inputs else ()):
        dtype = _dtype_of(value)
        if dtype is not None:
            bound.setdefault(formals.inputs[min(index, last)], dtype)
    pairs = zip(formals.only, formals.outputs, strict=True)
    types = [fixed or bound.get(variable) for fixed, variable in pairs] or [None]
    last = len(types) - 1
    return [_as_type(value, types[min(i, last)]) for i, value in enumerate(results)]


def _tensor_types() -> Mapping[str, np.dtype]:
    """The dtypes by the names that schemas have for tensors of them."""
    dtypes: dict[str, np.dtype] = {}
    for name, element in onnx.TensorProto.DataType.items():
        if element:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
            dtypes[f"tensor({name.lower()})"] = dtype
    return dtypes


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
        items = [_as_type(item, dtype) for item in cast(Sequence[Any], value)]
        return HostSequence(items, value.items_dtype if isinstance(value, HostSequence) else "")
    array = np.asarray(value)
    if array.dtype.kind in "USO":
        return array.astype(object, copy=False)
    return array if dtype is None else array.astype(dtype, copy=False)
