"""The table of operators that can be compiled: their signatures and type inference.

The frontend folds any other operator, expands it into operators of the table, or reports it. The
kernel builder has a lowering for every operator of the table except views.
Everything here works on plain data: dtype names, shapes, arrays and attribute values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler.net.attributes import Mismatch
from compiler.net.evaluation import EVALUATIONS
from compiler.net.facts import Facts
from compiler.net.node import OperatorInput, ShapeMismatch, TypedNode
from compiler.net.operators.contractions import CONTRACTIONS
from compiler.net.operators.elementwise import ELEMENTWISE
from compiler.net.operators.fourier import FOURIER, FOURIERS
from compiler.net.operators.indices import check_constant_indices
from compiler.net.operators.injective import INJECTIVE
from compiler.net.operators.normalization import NORMALIZATIONS
from compiler.net.operators.opaque import OPAQUE
from compiler.net.operators.pooling import POOLING
from compiler.net.operators.positions import NONZERO_POSITIONS, POSITIONAL, POSITIONS
from compiler.net.operators.quantisation import QUANTISATION
from compiler.net.operators.ranges import PARTIAL_RANGES, RANGES
from compiler.net.operators.recurrence import RECURRENCE, RECURRENCES
from compiler.net.operators.reductions import REDUCTIONS
from compiler.net.operators.segments import SCATTER_ORDER, SEGMENT_REDUCE, SEGMENTS
from compiler.net.operators.suppression import KEPT_BOXES, SUPPRESSIONS
from compiler.net.operators.views import VIEWS
from compiler.net.spec import (
    LARGEST_TENSOR,
    Kind,
    KnownTensor,
    OpSpec,
    check_attributes,
    check_room,
    check_size,
    infer_results,
    type_text,
)

__all__ = [
    "BYTE_CONTRACTIONS",
    "FLOAT8_CONTRACTIONS",
    "FOURIER",
    "INTEGER_CONTRACTIONS",
    "KEPT_BOXES",
    "KINDS",
    "LARGEST_TENSOR",
    "NONZERO_POSITIONS",
    "OPERATORS",
    "PARTIAL_RANGES",
    "POSITIONS",
    "RECURRENCE",
    "SCATTER_ORDER",
    "SEGMENT_REDUCE",
    "STRUCTURAL_INPUTS",
    "Kind",
    "KnownTensor",
    "Mismatch",
    "OpSpec",
    "OperatorInput",
    "ShapeMismatch",
    "broadcasts",
    "check_room",
    "check_size",
    "facts_of",
    "infer",
    "infer_node",
    "type_text",
]

INTEGER_CONTRACTIONS = ("ConvInteger", "MatMulInteger")
"""Contractions of bytes, with sums in int32."""

FLOAT8_CONTRACTIONS = ("ConvFloat8", "MatMulFloat8")
"""Contractions of floats of a byte, with sums in float32; no other runtime has them."""

BYTE_CONTRACTIONS = (*INTEGER_CONTRACTIONS, *FLOAT8_CONTRACTIONS)
"""Contractions whose operands have one byte an element."""

_FAMILIES: dict[str, OpSpec] = {
    **ELEMENTWISE,
    **INJECTIVE,
    **REDUCTIONS,
    **POOLING,
    **NORMALIZATIONS,
    **CONTRACTIONS,
    **VIEWS,
    **OPAQUE,
    **RECURRENCES,
    **FOURIERS,
    **SEGMENTS,
    **RANGES,
    **POSITIONAL,
    **QUANTISATION,
    **SUPPRESSIONS,
}

OPERATORS: dict[str, OpSpec] = {
    name: entry if entry.evaluate else replace(entry, evaluate=EVALUATIONS[name])
    for name, entry in _FAMILIES.items()
}
"""Every operator that can be compiled of ONNX, of its `domain`, or of this package."""

KINDS: dict[str, Kind] = {name: entry.kind for name, entry in OPERATORS.items()}
"""Kind of every operator that can be compiled."""

_NOTHING = Facts()


def facts_of(op_type: str) -> Facts:
    """What is known of an operator; nothing of one that cannot be compiled."""
    entry = OPERATORS.get(op_type)
    return _NOTHING if entry is None else entry.facts


def broadcasts(op_type: str) -> bool:
    """Whether an operator repeats the elements of its operand along axes, and does nothing else."""
    entry = OPERATORS.get(op_type)
    return entry is not None and entry.kind is Kind.ELEMENTWISE and entry.maps is not None


STRUCTURAL_INPUTS: dict[str, tuple[int, ...]] = {
    name: entry.structural for name, entry in OPERATORS.items() if entry.structural
}
"""Inputs that must be constants, for which kernels are made; they become `dataflow.constant`.

Constants of one element become `dataflow.constant` wherever they are used.
"""


def infer(
    op_type: str,
    inputs: Sequence[OperatorInput | None],
    attributes: Mapping[str, Any],
    outputs: int = 1,
) -> list[KnownTensor]:
    """The types of an operator's first `outputs` results.

    Raises Mismatch, or ShapeMismatch where shapes are at fault, for what does not fit.
    """
    operator = OPERATORS.get(op_type)
    if operator is None:
        raise Mismatch(f"there is no operator {op_type!r}")
    check_attributes(operator, attributes)
    return infer_node(operator.node(op_type, inputs, attributes, outputs))


def infer_node(node: TypedNode) -> list[KnownTensor]:
    """The types of the results of a node whose attributes are complete; raises as `infer`."""
    results = infer_results(node, OPERATORS[node.type])
    check_constant_indices(node.type, node.inputs, node.__getitem__)
    return results
