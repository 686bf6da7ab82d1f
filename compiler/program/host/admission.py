"""Element types that a node of the host does not take, known before it runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from compiler.frontend.evaluate import input_types, schema_of
from compiler.frontend.rules.classical import ML_DOMAIN
from compiler.frontend.unsupported import Unsupported
from compiler.program.classical import taken_dtypes

DataType = onnx.TensorProto.DataType

POOLS = {"pool_strings": ("string",), "pool_int64s": ("int32", "int64")}
"""The elements of TfIdfVectorizer's input, by the attribute that has its n-grams."""


def type_obstacle(
    op_type: str, domain: str, opset: int, elements: Sequence[int], attributes: Mapping[str, Any]
) -> Unsupported | None:
    """Why nothing computes a node for the element types of its inputs, 0 where one is not known.

    An operator takes the types of its schema, in its opset or a later one, one type for each
    variable, and what its attributes have. Raises ValueError for attributes that are invalid.
    """
    schema = schema_of(op_type, opset, domain)
    if schema is None or not schema.inputs:
        return None
    if obstacle := schema_obstacle(op_type, domain, opset, elements):
        return obstacle
    variables: dict[str, str] = {}
    for index, element in enumerate(elements):
        if not element:
            continue
        kind = formal_name(element)
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        first = variables.setdefault(formal.type_str, kind)
        if first != kind and formal.is_homogeneous:
            return Unsupported(
                f"its inputs are {first} and {kind}, where ONNX asks for one type",
                "cast one to the type of the other",
            )
    # The types of the first input that the attributes decide; empty where they do not.
    if domain == ML_DOMAIN:
        dtypes = taken_dtypes(op_type, attributes)
        allowed = [formal_name(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(d))) for d in dtypes]
    elif op_type != "TfIdfVectorizer":
        allowed = []
    else:
        pools = [POOLS[name] for name in POOLS if attributes.get(name)]
        allowed = [f"tensor({name})" for name in pools[0]] if len(pools) == 1 else []
    if elements and elements[0] and allowed and (kind := formal_name(elements[0])) not in allowed:
        return _refused(0, kind, "its attributes", allowed)
    return None


def schema_obstacle(
    op_type: str, domain: str, opset: int, elements: Sequence[int]
) -> Unsupported | None:
    """Why an operator does not take the element types of its inputs, 0 where one is not known.

    It takes those of its schema in its opset or a later one.
    """
    schema = schema_of(op_type, opset, domain)
    if schema is None or not schema.inputs:
        return None
    for index, element in enumerate(elements):
        allowed = input_types(op_type, opset, index, domain)
        if element and formal_name(element) not in allowed:
            return _refused(index, formal_name(element), "its schema", sorted(allowed))
    return None


def formal_name(element: int) -> str:
    """A tensor's type as schemas write it: tensor(float)."""
    return f"tensor({DataType.Name(element).lower()})"


def _refused(index: int, kind: str, by: str, allowed: Sequence[str]) -> Unsupported:
    return Unsupported(
        f"its input {index} is {kind}, which is not a type that it has by {by}",
        f"give it {' or '.join(allowed)}, such as by a Cast",
    )
