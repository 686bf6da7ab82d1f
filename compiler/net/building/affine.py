"""Folding of per-channel Mul and Add with constants into the preceding convolution or GEMM.

`conv(x, w) * s + t` is `conv(x, w * s) + t` with `s` scaling each output channel of `w`.
"""

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from compiler.net.graph import Graph, Value, constant
from compiler.net.node import Node
from compiler.net.operators import OPERATORS, facts_of
from compiler.net.operators.contractions import FLOAT_CONTRACTIONS
from compiler.net.operators.elementwise import ARITHMETIC
from compiler.tensors.dtypes import numpy_dtype
from compiler.tensors.exact import same_extents
from compiler.tensors.substitution import is_symbolic

_STEPPED = frozenset(name for name, entry in OPERATORS.items() if entry.facts.steps)
"""Operators that may make a whole step of the last bit: x * s / t of dequantised integers has
halves, which x * (s / t) has not, or has elsewhere."""
_SHORT = {"float16", "bfloat16"}
_FLOATS = {"float16", "bfloat16", "float32", "float64"}


@dataclass(slots=True)
class Affine:
    """`steps` on `base` as one `scale` and `shift` of each channel (axis 1).

    A `source` computes `base`; its weight and bias are constants into which they can be folded.
    `largest` is the greatest shift on the way, scaled by the steps after it.
    """

    base: Value
    scale: np.ndarray
    shift: np.ndarray
    largest: np.ndarray
    source: Node[Value] | None = None
    steps: list[Node[Value]] = field(default_factory=list[Node[Value]])

    def extend(self, operator: Node[Value], scale: np.ndarray, shift: np.ndarray) -> None:
        """Append a step."""
        self.scale = self.scale * scale
        self.shift = self.shift * scale + shift
        self.largest = np.maximum(self.largest * np.abs(scale), np.abs(self.shift))
        self.steps.append(operator)

    @property
    def rounds(self) -> bool:
        """Whether the steps may be there to round: x + 2**23 - 2**23 is a whole number."""
        short = self.base.dtype in _SHORT
        if short and self.source is None and len(self.steps) > 1:
            return True
        most = 16 if short else 2**12
        return bool((self.largest > most * (np.abs(self.scale) + np.abs(self.shift))).any())


def _channels(value: Value | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """A constant as one number per channel, or None if it varies along another axis."""
    if value is None or value.array is None or value.rank > len(shape) or is_symbolic(shape[1]):
        return None
    full = (1,) * (len(shape) - value.rank) + value.shape
    if any(size != 1 for axis, size in enumerate(full) if axis != 1) or full[1] > shape[1]:
        return None
    array = np.asarray(value.array, np.float64).reshape(-1)
    return np.broadcast_to(array, shape[1])


def _step(operator: Node[Value]) -> tuple[Value, np.ndarray, np.ndarray] | None:
    """The operand, scale and shift of a per-channel Mul, Div, Add or Sub."""
    if operator.type not in ARITHMETIC:
        return None
    left, right = operator.operand(0), operator.operand(1)
    if left.array is not None and facts_of(operator.type).commutative:
        left, right = right, left
    if left.dtype not in _FLOATS or left.rank < 2:
        return None
    if not same_extents(left.shape, operator.output.shape):
        return None
    numbers = _channels(right, left.shape)
    if numbers is None or not np.isfinite(numbers).all():
        return None
    one = np.ones_like(numbers)
    zero = np.zeros_like(numbers)
    match operator.type:
        case "Mul":
            return left, numbers, zero
        case "Div":
            return (left, 1 / numbers, zero) if numbers.all() else None
        case "Add":
            return left, one, numbers
        case _:
            return left, one, -numbers


def _foldable(operator: Node[Value]) -> bool:
    """Whether an operator is linear in constant weights (and a constant bias, if any)."""
    if operator.type not in FLOAT_CONTRACTIONS or operator.type == "MatMul":
        return False
    weight, *bias = operator.inputs[1:]
    known = weight is not None and weight.array is not None and not operator["transA"]
    return known and all(b is None or b.array is not None for b in bias)


def _scaled(array: np.ndarray, scale: np.ndarray) -> np.ndarray:
    if (scale == 1).all():
        return array
    wide = array.astype(np.float32) if array.dtype.itemsize < 4 else array
    return (wide * scale.astype(wide.dtype)).astype(array.dtype, copy=False)


def _folded(affine: Affine, source: Node[Value]) -> Node[Value] | None:
    """The source with another weight and bias, a Gemm without beta; None if they overflow."""
    weight = source.operand(1)
    bias = (*source.inputs, None)[2]
    old = np.zeros(()) if bias is None else np.asarray(bias.array, np.float64)
    once = {"beta": 1.0} if "beta" in source.attributes else {}
    if once:
        old = old * source["beta"]
    if source.type == "Conv":
        array = _scaled(weight.content, affine.scale.reshape(-1, *[1] * (weight.content.ndim - 1)))
    elif source.type == "Gemm":
        array = _scaled(weight.content, affine.scale[:, None] if source["transB"] else affine.scale)
    else:
        groups, (inputs, outputs) = source["group"], weight.content.shape[:2]
        grouped = weight.content.reshape(groups, inputs // groups, *weight.content.shape[1:])
        factors = affine.scale.reshape(groups, 1, outputs, *[1] * (weight.content.ndim - 2))
        array = _scaled(grouped, factors).reshape(weight.content.shape)
    new_bias = (old * affine.scale + affine.shift).astype(array.dtype)
    if not (np.isfinite(array).all() and np.isfinite(new_bias).all()):
        return None
    if array is not weight.content:
        # A few subnormal weights among larger ones do no harm; if all are, results lose bits.
        largest = float(np.abs(weight.content).max(initial=0)) * np.abs(affine.scale).max()
        if 0 < largest < _smallest(array.dtype):
            return None
        weight = constant(f"{weight.name}.folded", array)
    inputs = [source.inputs[0], weight, constant(f"{source.node}.bias", new_bias)]
    return replace(source, inputs=inputs, attributes={**source.attributes, **once})


def _collapsed(affine: Affine) -> list[Node[Value]]:
    """The steps as one Mul and one Add, if that is fewer operators."""
    first, last = affine.steps[0], affine.steps[-1]
    value = affine.base
    result = last.output
    parts = [
        (op_type, numbers)
        for op_type, numbers, neutral in (("Mul", affine.scale, 1), ("Add", affine.shift, 0))
        if (numbers != neutral).any()
    ] or [("Add", affine.shift)]
    dtype = numpy_dtype(value.dtype)
    small = (affine.scale != 0) & (np.abs(affine.scale) < _smallest(dtype))
    fits = (
        bool((np.isfinite(affine.scale.astype(dtype)) & ~small).all())
        and np.isfinite(affine.shift.astype(dtype)).all()
    )
    if len(parts) >= len(affine.steps) or not fits:
        return affine.steps
    operators: list[Node[Value]] = []
    for op_type, numbers in parts:
        node = last.node if op_type == parts[-1][0] else first.node
        is_last = len(operators) == len(parts) - 1
        output = result if is_last else Value(f"{node}.{op_type}", value.dtype, value.shape)
        factor = constant(f"{node}.{op_type}.constant", _by_channel(numbers, value.rank, dtype))
        operators.append(Node(op_type, {}, [value, factor], [output], node))
        value = output
    return operators


def _by_channel(numbers: np.ndarray, rank: int, dtype: np.dtype) -> np.ndarray:
    """A number for each channel, shaped to broadcast over a tensor; a scalar if all are equal."""
    if numbers.size and (numbers == numbers[0]).all():
        return numbers[0].astype(dtype)
    return numbers.reshape(-1, *[1] * (rank - 2)).astype(dtype)


def _smallest(dtype: np.dtype) -> float:
    """The smallest number that has all the bits of a dtype."""
    finfo: Any = ml_dtypes.finfo
    return float(finfo(dtype).smallest_normal)


def fold_affine(graph: Graph) -> None:
    """Fold chains of per-channel Mul and Add into their only producer, in place."""
    rounded = {op.inputs[0] for op in graph.operators if op.type in _STEPPED}
    with np.errstate(all="ignore"):
        graph.operators[:] = [o for item in _chains(graph) for o in _settled(item, rounded)]


def _chains(graph: Graph) -> list[Node[Value] | Affine]:
    """The operators in order, with each chain and its source where the chain begins."""
    counts = Counter(graph.uses())
    pending: dict[Value, Affine] = {}
    items: list[Node[Value] | Affine] = []
    for operator in graph.operators:
        step = _step(operator)
        if step is not None:
            value, scale, shift = step
            affine = pending.pop(value, None) if counts[value] == 1 else None
            if affine is None:
                affine = _neutral(value, len(scale))
                items.append(affine)
            affine.extend(operator, scale, shift)
            pending[operator.output] = affine
        elif _foldable(operator):
            output = operator.output
            pending[output] = _neutral(output, output.shape[1], operator)
            items.append(pending[output])
        else:
            items.append(operator)
    return items


def _neutral(base: Value, channels: int, source: Node[Value] | None = None) -> Affine:
    """No steps on a value."""
    return Affine(
        base=base,
        scale=np.ones(channels),
        shift=np.zeros(channels),
        largest=np.zeros(channels),
        source=source,
    )


def _settled(item: Node[Value] | Affine, rounded: Set[Value | None]) -> list[Node[Value]]:
    """A chain folded into its source, or collapsed after it unless its result is rounded."""
    if isinstance(item, Node):
        return [item]
    source = item.source
    if source is None:
        stepped = item.rounds or item.steps[-1].output in rounded
        return item.steps if stepped else _collapsed(item)
    if not item.steps:
        return [source]
    if item.rounds:
        return [source, *item.steps]
    same = bool((item.scale == 1).all() and (item.shift == 0).all())
    folded = source if same else _folded(item, source)
    if folded is None:
        return [source, *_collapsed(item)]
    return [replace(folded, outputs=item.steps[-1].outputs)]
