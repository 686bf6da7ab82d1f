"""Rounding within a kernel in fewer steps: numbers that are quantised, and perhaps widened again.

    Cast(Clip(Round(x) + z, 0, 255))  ->  Cast(Cast(Clip(x, -z, 255 - z), rounds) + z)
    Cast(Cast(Cast(...)) - z)         ->  Round(Clip(x, -z, 255 - z))

Both are exact: rounding, and clipping to whole numbers, may change places. Zero points are
constants, or bytes that the kernel reads.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.group import Group, Node, TensorInfo, needed
from compiler.net.operators import facts_of

_LARGEST_ZERO = 1 << 16
"""The largest zero point: float32 holds its sum with any number that is not clipped."""

_INTEGERS = ("int8", "uint8", "int16", "uint16")


@dataclass(frozen=True)
class _Quantised:
    """The number `value` that is rounded, and the zero point that is added to it.

    The zero point is a constant, or `operand`, a byte that the kernel reads, as the float `added`.
    """

    value: int
    dtype: str
    zero: int = 0
    operand: int | None = None
    added: int | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest rounded number, before a constant is subtracted."""
        info = np.iinfo(self.dtype)
        return int(info.min) - self.zero, int(info.max) - self.zero

    @property
    def bounds(self) -> dict[str, bool]:
        """The attributes of a Clip to the limits."""
        return {} if self.operand is None else {"are_numbers": True}

    def is_shifted_by(self, zero: float | None, operand: int | None) -> bool:
        """Whether a constant or an operand is the zero point."""
        if zero is None:
            return self.operand == operand
        return self.operand is None and self.zero == zero


def requantised(group: Group) -> Group:
    """The group with roundings written shorter; the group itself if it has none."""
    rewriting = _Rewriting(group)
    operators = [new for op in group.operators for new in rewriting.replaced(op)]
    if not rewriting.quantised:
        return group
    values = tuple(rewriting.values)
    kept = needed(operators, group.outputs)
    return replace(group, values=values, constants=rewriting.constants, operators=kept)


class _Rewriting:
    """The values of a group as they grow, and the quantised ones."""

    def __init__(self, group: Group) -> None:
        self.values, self.constants = list(group.values), dict(group.constants)
        self.quantised: dict[int, _Quantised] = {}
        self._inputs = group.inputs
        self._makers = {value: op for op in group.operators for value in op.outputs}

    def replaced(self, op: Node[int]) -> list[Node[int]]:
        """The operators instead of one."""
        if not facts_of(op.type).converts:
            return [op]
        result = op.output
        quantised = self._quantised(op)
        if quantised is not None:
            self.quantised[result] = quantised
            return self._rounded(quantised, op)
        quantised = self._widened(op)
        if quantised is None:
            return [op]
        clipped = self._value(self.values[result])
        limits, operators = self._limits(quantised, op)
        return [
            *operators,
            Node("Clip", quantised.bounds, (quantised.value, *limits), (clipped,), op.node),
            Node("Round", {}, (clipped,), (result,), op.node),
        ]

    def _rounded(self, quantised: _Quantised, cast: Node[int]) -> list[Node[int]]:
        """Clip, round to int32, add the zero point, drop the high bits."""
        info = self.values[quantised.value]
        clipped, whole = self._value(info), self._value(replace(info, dtype="int32"))
        limits, operators = self._limits(quantised, cast)
        operators += [
            Node("Clip", quantised.bounds, (quantised.value, *limits), (clipped,), cast.node),
            Node("Cast", {"rounds": True}, (clipped,), (whole,), cast.node),
        ]
        if quantised.zero or quantised.operand is not None:
            zero = self._constant(np.array(quantised.zero, np.int32))
            if quantised.operand is not None:
                zero = self._value(TensorInfo("int32", ()))
                operators.append(Node("Cast", {}, (quantised.operand,), (zero,), cast.node))
            sum = self._value(self.values[whole])
            operators.append(Node("Add", {}, (whole, zero), (sum,), cast.node))
            whole = sum
        return [*operators, replace(cast, inputs=(whole,))]

    def _limits(self, quantised: _Quantised, op: Node[int]) -> tuple[list[int], list[Node[int]]]:
        """The least and the largest rounded number, and what computes them of an operand."""
        limits = [self._constant(np.array(limit, np.float32)) for limit in quantised.limits]
        if quantised.added is None:
            return limits, []
        less = [self._value(TensorInfo("float32", ())) for _ in limits]
        pairs = zip(limits, less, strict=True)
        return less, [
            Node("Sub", {}, (limit, quantised.added), (result,), op.node) for limit, result in pairs
        ]

    def _quantised(self, cast: Node[int]) -> _Quantised | None:
        """The number that a cast quantises; None if it was not rounded and clipped to the type."""
        dtype = self.values[cast.output].element
        clip = self._maker(cast, "Clip")
        if dtype not in _INTEGERS or clip is None or len(clip.inputs) < 3:
            return None
        limits = np.iinfo(dtype)
        if [self._number(clip.inputs[i]) for i in (1, 2)] != [limits.min, limits.max]:
            return None
        add = self._maker(clip, "Add")
        rounding = self._maker(clip if add is None else add, "Round")
        if rounding is None or self.values[rounding.operand(0)].dtype != "float32":
            return None
        value = rounding.operand(0)
        zero = 0.0 if add is None else self._number(add.inputs[1])
        if zero is not None:
            small = zero % 1 == 0 and abs(zero) <= _LARGEST_ZERO
            return _Quantised(value, dtype, int(zero)) if small else None
        added = None if add is None else add.inputs[1]
        operand = self._byte(added)
        return None if operand is None else _Quantised(value, dtype, 0, operand, added)

    def _widened(self, cast: Node[int]) -> _Quantised | None:
        """The number that a cast to float32 widens again, less the zero point that was added."""
        if self.values[cast.output].dtype != "float32":
            return None
        minus = self._maker(cast, "Sub")
        zero = 0 if minus is None else self._number(minus.inputs[1])
        inner = cast if minus is None else self._maker(minus, "Cast")
        quantised = None if inner is None else self.quantised.get(inner.operand(0))
        wide = inner is not None and self.values[inner.output].dtype in ("int32", "float32")
        operand = None if minus is None or zero is not None else self._byte(minus.inputs[1])
        if quantised is None or not wide or (zero is None and operand is None):
            return None
        return quantised if quantised.is_shifted_by(zero, operand) else None

    def _maker(self, op: Node[int], type: str) -> Node[int] | None:
        """The operator of a type that makes the first operand of another."""
        maker = self._makers.get(op.operand(0))
        return maker if maker is not None and maker.type == type else None

    def _number(self, value: int | None) -> float | None:
        array = None if value is None else self.constants.get(value)
        return None if array is None or array.size != 1 else float(array.reshape(-1)[0])

    def _byte(self, value: int | None) -> int | None:
        """The read of one byte that a number is cast from; None for any other."""
        maker = self._makers.get(-1 if value is None else value)
        casts = maker is not None and facts_of(maker.type).converts
        source = maker.operand(0) if maker is not None and casts else None
        if source is None or source >= self._inputs:
            return None
        info = self.values[source]
        return source if info.shape == () and info.element in _INTEGERS[:2] else None

    def _value(self, info: TensorInfo) -> int:
        self.values.append(info)
        return len(self.values) - 1

    def _constant(self, array: NDArray[np.generic]) -> int:
        number = self._value(TensorInfo(array.dtype.name, array.shape))
        self.constants[number] = array
        return number
