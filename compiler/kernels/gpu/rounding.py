"""Roundings to whole numbers: of exact quotients, and by two additions where numbers are small."""

from typing import Any

from tvm.ir import Call, Var
from tvm.ir.expr import TensorLoad
from tvm.target.codegen import llvm_get_intrinsic_name

from compiler.kernels.gpu.untyped import tirx, tvm_ffi
from compiler.kernels.ops.common import NEAREST
from compiler.kernels.tir.once import is_once

MOST_NEAREST = 1 << 22
"""The largest number that additions round."""

DIVISORS = (2.0**-100, 2.0**100)
"""The divisors of quotients that are corrected: what is left of those from 0.5 on is a float32."""

_ROUNDING = ("prim.ceil", "tirx.floor", "tirx.nearbyint", "tirx.round", "tirx.trunc")
"""Functions whose result one unit in the last place of a quotient may change."""

_CLIP = ("llvm.minimum", "llvm.maximum")


def rounded_quotients(body: Any) -> list[Any]:
    """The quotients that are rounded to whole numbers, perhaps clipped or bound to a name before.

    Divisions of these have to be exact: one unit in the last place could be the next number.
    """
    bound = dict[Var, Any]()
    operands = list[Any]()

    def bind(binding: Any) -> None:
        bound[binding.var] = binding.value

    def call(value: Any) -> None:
        operands.extend(value.args[:1] if getattr(value.op, "name", "") in _ROUNDING else ())

    def add(total: Any) -> None:
        operands.extend(
            [total.a]
            if isinstance(total.b, tirx.FloatImm) and float(total.b.value) == NEAREST
            else ()
        )

    rules = ((tirx.Let, bind), (tirx.stmt.Bind, bind), (Call, call), (tirx.Add, add))
    tvm_ffi.structural_walk(body, rules, order="pre")
    unclipped = (_unclipped(operand, bound) for operand in operands)
    return [value for value in unclipped if isinstance(value, tirx.Div)]


def exact_quotient(quotient: Any, reciprocal: Any) -> Any:
    """A quotient by a constant with its reciprocal, from 0.5 on the same number as by division."""
    if not DIVISORS[0] <= abs(float(quotient.b.value)) <= DIVISORS[1]:
        return quotient
    given = (quotient.a, quotient.b, reciprocal)
    return tirx.call_pure_extern("float32", "flowloom_quotient", *given)


def shared_quotient(quotient: Any) -> Any:
    """A quotient that is rounded, without a division if its divisor is an operand of one number.

    A division by IEEE's rules takes a call where an operand is 0, as numbers of 8 bits often are.
    """
    divisor: Any = quotient.b
    if not isinstance(divisor, TensorLoad) or str(divisor.ty.dtype) != "float32":
        return quotient
    places: list[Any] = [*divisor.indices]
    if not all(isinstance(place, tirx.IntImm) and int(place.value) == 0 for place in places):
        return quotient
    return tirx.call_pure_extern("float32", "flowloom_shared_quotient", quotient.a, divisor)


def nearest_by_additions(call: Any, mutator: Any) -> Any | None:
    """A rounding to the nearest number that is clipped to few; None for any other call.

    A conversion takes a GPU four times as long as an addition, or longer.
    """
    if getattr(call.op, "name", "") != "tirx.nearbyint":
        return None
    # The two constants that a number is between; fewer if it is not clipped to such.
    value = call.args[0]
    limit_of = dict[str, float]()
    while (name := _clip_of(value)) and isinstance(value.args[2], tirx.FloatImm):
        limit_of[name] = float(value.args[2].value)
        value = value.args[1]
    limits = list(limit_of.values())
    if len(limits) < 2 or max(map(abs, limits)) > MOST_NEAREST:
        return None
    return tirx.call_pure_extern("float32", "flowloom_nearest", mutator.mutate(call.args[0]))


def _unclipped(value: Any, bound: dict[Var, Any]) -> Any:
    """A value before it is bound and clipped."""
    if isinstance(value, Var):
        return _unclipped(bound[value], bound) if value in bound else value
    inner: Any = None
    if isinstance(value, tirx.Min | tirx.Max):
        sides = [_unclipped(side, bound) for side in (value.a, value.b)]
        return next((side for side in sides if isinstance(side, tirx.Div)), value)
    if _clip_of(value):
        inner = value.args[1]
    elif isinstance(value, Call) and is_once(value):
        inner = value.args[0]
    return value if inner is None else _unclipped(inner, bound)


def _clip_of(value: Any) -> str:
    """The intrinsic that limits a float32 on one side; empty if none does."""
    if getattr(getattr(value, "op", None), "name", "") != "tirx.call_llvm_pure_intrin":
        return ""
    name = llvm_get_intrinsic_name(int(value.args[0].value))
    return name if name in _CLIP and str(value.ty.dtype) == "float32" else ""
