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
INDICES = frozenset({"int32", "int64"})
WITHOUT_BFLOAT16 = NUMBERS - {"bfloat16"}
