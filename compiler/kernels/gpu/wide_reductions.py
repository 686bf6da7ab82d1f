"""Reductions of bytes by integers of 32 bits.

Threads share a reduction by shuffles, but TVM has none for elements of 8 bits. It reduces these in
shared memory, and for the last 32 of them nothing waits between a lane's store and the load of
another one: it takes for granted that the lanes of a warp go in step, which they need not do since
Volta (CUDA C++ Programming Guide, independent thread scheduling).
"""

from dataclasses import replace

from compiler.kernels.group import Group, Node
from compiler.net.operators import KINDS, Kind
from compiler.tensors.dtypes import element_type

NARROW_ELEMENTS = ("bool", "int8", "uint8")
REDUCED_AS = "int32"


def with_wide_reductions(group: Group) -> Group:
    """The group with bytes widened before they are reduced, and the results narrowed again."""
    values = list(group.values)
    operators = list[Node[int]]()

    def of_type(index: int, dtype: str) -> int:
        values.append(replace(values[index], dtype=dtype))
        return len(values) - 1

    def cast(source: int, to: int) -> None:
        attributes = {"to": element_type(values[to].dtype)}
        operators.append(Node("Cast", attributes, (source,), (to,)))

    for op in group.operators:
        source = op.operand(0) if KINDS.get(op.type) is Kind.REDUCTION else None
        # Of no elements the result is the least number of the own type, not the narrowed wide one.
        narrow = source is not None and values[source].dtype in NARROW_ELEMENTS
        if source is None or not narrow or not values[source].elements:
            operators.append(op)
            continue
        wide = of_type(source, REDUCED_AS)
        cast(source, wide)
        inputs = (wide, *op.inputs[1:])
        (result,) = op.outputs
        if values[result].dtype not in NARROW_ELEMENTS:  # positions, of ArgMax
            operators.append(replace(op, inputs=inputs))
            continue
        reduced = of_type(result, REDUCED_AS)
        operators.append(replace(op, inputs=inputs, outputs=(reduced,)))
        cast(reduced, result)
    return replace(group, values=tuple(values), operators=tuple(operators))
