"""Which scatters combine rows, whose updates can be put in order beforehand."""

from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from compiler.ir.dataflow import OperatorOp
from compiler.ir.types import dtype_of, shape_of
from compiler.net.operators import KINDS, Kind, broadcasts

COMBINED = ("float16", "bfloat16", "float32")
"""The types of rows that are combined: those that kernels compute in float32."""

MOST_SLOTS = 2_816_000
"""The most slots whose updates a kernel sorts in as many steps as there are updates, for computed
indices: the buckets of the template `scatter_order`."""


@dataclass(frozen=True)
class ScatteredRows:
    """Updates that are combined with the slices of a tensor: `indices` hold the slice of each.

    They have one element for each update, in any shape.
    """

    data: SSAValue
    indices: SSAValue
    updates: SSAValue

    @property
    def slots(self) -> int:
        """The slices of the tensor."""
        return shape_of(self.data.type)[0]

    @property
    def count(self) -> int:
        """The number of updates."""
        return shape_of(self.updates.type)[0]


def find_scattered_rows(op: OperatorOp) -> ScatteredRows | None:
    """The slices along the first axis that a scatter combines with others; None if it does not."""
    if op.type_name not in _INDICES or op["reduction"] == "none":
        return None
    data, _, updates = op.inputs
    shape = shape_of(data.type)
    if dtype_of(data.type) not in COMBINED or not prod((*shape, *shape_of(updates.type))):
        return None
    indices = _INDICES[op.type_name](op)
    return None if indices is None else ScatteredRows(data, _before_views(indices), updates)


def _of_slices(scatter: OperatorOp) -> SSAValue | None:
    """The indices of a ScatterND with one index for each of a list of slices."""
    places = shape_of(scatter.inputs[1].type)
    return scatter.inputs[1] if len(places) == 2 and places[1] == 1 else None


def _of_elements(scatter: OperatorOp) -> SSAValue | None:
    """The indices that a ScatterElements has for all elements of a slice, as exporters write it."""
    data, indices = scatter.inputs[:2]
    shape, places = shape_of(data.type), shape_of(indices.type)
    if scatter["axis"] or places[1:] != shape[1:]:
        return None
    source = indices.owner
    if isinstance(source, OperatorOp) and broadcasts(source.type_name):
        lead = shape_of(source.inputs[0].type)
        indices = source.inputs[0]
        if lead != (places[0], *[1] * (len(places) - 1)):
            return None
    return indices if prod(shape_of(indices.type)) == places[0] else None


_INDICES = {"ScatterND": _of_slices, "ScatterElements": _of_elements}


def _before_views(value: SSAValue) -> SSAValue:
    """The value of which another one is a view: scatters in several shapes share its order."""
    while isinstance(owner := value.owner, OperatorOp) and KINDS[owner.type_name] is Kind.VIEW:
        value = owner.inputs[0]
    return value
