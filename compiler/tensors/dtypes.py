"""Sets of dtypes that operators accept."""

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTEGERS = SIGNED | UNSIGNED
NUMBERS = INTEGERS | FLOATS
WIDE = frozenset({"int32", "int64", "uint32", "uint64"}) | FLOATS
"""The dtypes of GEMMs and reductions."""
UINT8 = frozenset({"uint8"})
BYTES = frozenset({"int8", "uint8"})
BOOL = frozenset({"bool"})
ALL = NUMBERS | BOOL
FLOAT8 = frozenset({"float8_e4m3fn", "float8_e5m2"})
MOVABLE = ALL | FLOAT8
"""The dtypes of operators that only cast elements, or move them as ONNX has it for float8s."""
INDICES = frozenset({"int32", "int64"})
WITHOUT_BFLOAT16 = NUMBERS - {"bfloat16"}

ELEMENT_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
"""Bytes of one element in memory, by dtype name (numpy's names, and ml_dtypes')."""
