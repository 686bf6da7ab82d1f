"""Integers wrap around: every operator at the ends of their types, alone and before others."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pytest
from numpy.typing import ArrayLike, NDArray
from onnx import NodeProto, helper
from tvm import tirx
from tvm.ir import PrimType, Var
from tvm.sym import Analyzer

import compiler
from compiler.kernels.ops import wrapping

Array = NDArray[Any]
TARGETS = ("cpu", "emu")
SIGNED, UNSIGNED = ("int8", "int32", "int64"), ("uint8", "uint32", "uint64")


def wrapped(values: Any, dtype: str) -> Array:
    """Python's integers modulo 2**bits."""
    limits = numpy.iinfo(dtype)
    exact = numpy.asarray(values, object)
    return ((exact - limits.min) % (1 << limits.bits) + limits.min).astype(dtype)


def quotient(a: int, b: int) -> int:
    """A division that truncates; 0 for the divisor 0."""
    size = abs(a) // abs(b) if b else 0
    return size if (a < 0) == (b < 0) else -size


def remainder(a: int, b: int) -> int:
    """The rest of `quotient`; 0 for the divisor 0."""
    return a - b * quotient(a, b) if b else 0


def modulo(a: int, b: int) -> int:
    """The remainder with the sign of the divisor; 0 for the divisor 0."""
    return a % b if b else 0


def shifted_left(a: int, count: int) -> int:
    """Bits moved up; none are left after 64 places."""
    return a << count if count < 64 else 0


def shifted_right(a: int, count: int) -> int:
    """Bits moved down, of any count."""
    return a >> min(count, 64)


EXACT: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": quotient,
    "Mod": modulo,
    "Mod:fmod=1": remainder,
    "BitShift:direction=LEFT": shifted_left,
    "BitShift:direction=RIGHT": shifted_right,
    "BitwiseNot": operator.invert,
    "Neg": operator.neg,
    "Abs": abs,
    "Max": max,
    "Min": min,
}
COMPARED: dict[str, Callable[..., Any]] = {
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Equal": operator.eq,
}


class Program:
    """Nodes over some data, with what Python's integers say that they give."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.feeds: dict[str, Array] = {}
        self.constants: dict[str, Array] = {}
        self.values: dict[str, Array] = {}

    def feed(self, value: Array) -> str:
        """An input."""
        return self._named(self.feeds, value)

    def constant(self, value: ArrayLike, dtype: str) -> str:
        """A constant."""
        return self._named(self.constants, numpy.array(value, dtype))

    def _named(self, place: dict[str, Array], value: Array) -> str:
        name = f"v{len(self.values)}"
        place[name] = self.values[name] = value
        return name

    def node(self, type: str, inputs: Sequence[str], expected: Array, **attributes: Any) -> str:
        """A node whose result is known."""
        name = self._named({}, expected)
        self.nodes.append(helper.make_node(type, inputs, [name], **attributes))
        return name

    def step(self, text: str, *inputs: str) -> str:
        """A node of one of the operators above, by name and attribute."""
        type, _, attribute = text.partition(":")
        operands = [self.values[name] for name in inputs]
        dtype = operands[0].dtype.name
        function = EXACT.get(text) or COMPARED[text]
        broadcast = numpy.broadcast_arrays(*[a.astype(object) for a in operands])
        found = [function(*items) for items in zip(*[a.ravel() for a in broadcast], strict=True)]
        exact = numpy.array(found, object).reshape(broadcast[0].shape)
        expected = exact.astype(bool) if text in COMPARED else wrapped(exact, dtype)
        name, _, value = attribute.partition("=")
        given = {name: int(value) if value.isdigit() else value} if name else {}
        return self.node(type, inputs, expected, **given)

    def cast(self, value: str, dtype: str) -> str:
        """A cast to another integer, as numpy has it."""
        expected = wrapped(self.values[value].astype(object), dtype)
        to = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
        return self.node("Cast", [value], expected, to=to)

    def check(self, target: str) -> None:
        """Compare all that the compiled program gives."""

        def info(name: str) -> Any:
            value = self.values[name]
            element = helper.np_dtype_to_tensor_dtype(value.dtype)
            return helper.make_tensor_value_info(name, element, value.shape)

        constants = [
            helper.make_tensor(
                name, info(name).type.tensor_type.elem_type, v.shape, v.tobytes(), True
            )
            for name, v in self.constants.items()
        ]
        read = {name for node in self.nodes for name in node.input}
        results = [name for node in self.nodes for name in node.output if name not in read]
        outputs = [info(name) for name in results]
        graph = helper.make_graph(
            self.nodes, "wrapping", [info(name) for name in self.feeds], outputs, constants
        )
        imports = [helper.make_opsetid("", 21)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        for name, result in compiler.compile(model, target=target).run(self.feeds).items():
            node = next(node for node in self.nodes if name in node.output)
            message = f"{node.op_type} of {self.values[node.input[0]].dtype}"
            numpy.testing.assert_array_equal(result, self.values[name], message)


def extremes(dtype: str) -> Array:
    """The ends of a type, what is next to them, and small integers."""
    limits = numpy.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    around = [low, low + 1, high // 2, high // 2 + 1, high - 1, high, -2, -1, 0, 1, 2, 3, 7]
    return numpy.array([v for v in dict.fromkeys(around) if low <= v <= high], dtype)


def add_chains(program: Program, dtype: str) -> None:
    """Arithmetic on all pairs of extremes, and what TVM, LLVM and C++ know of exact arithmetic.

    All results are one in the end, so that one kernel computes them.
    """
    step, pool, limits = program.step, extremes(dtype), numpy.iinfo(dtype)
    x = program.feed(numpy.repeat(pool, len(pool)))
    y = program.feed(numpy.tile(pool, len(pool)))
    zero, one, two, far, high, low = (
        program.constant(v, dtype)
        for v in (0, 1, 2, 3 if limits.bits < 32 else 65537, limits.max, limits.min)
    )
    other = dtype.removeprefix("u") if dtype[0] == "u" else f"u{dtype}"
    twice, total, differ = step("Mul", x, two), step("Add", x, y), step("Sub", x, y)
    found = [
        step("Div", twice, two),
        step("Less", step("Add", x, one), x),
        step("Greater", differ, x),
        step("LessOrEqual", step("Add", x, high), y),
        step("Div", step("Mul", x, y), y),
        step("GreaterOrEqual", step("Abs", x), zero),
        step("Less", step("BitwiseNot", x), y),
        step("Add", step("Add", step("Sub", x, x), high), x),
        step("Mod:fmod=1", step("Mod", x, y), step("Add", y, y)),
        *[step(name, x, end) for name in COMPARED for end in (low, high, zero)],
        step("Greater", step("Max", step("Sub", x, one), y), step("Min", x, y)),
        step("Div", step("Div", x, far), far),
        step("Equal", program.cast(program.cast(step("Min", x, low), other), dtype), low),
        step("Less", program.cast(x, other), program.constant(0, other)),
        program.cast(total, "int64" if limits.bits < 64 else "int32"),
    ]
    if dtype.startswith("u"):
        found += [step("BitShift:direction=LEFT", x, y), step("BitShift:direction=RIGHT", x, y)]
        found += [step("Less", step("BitShift:direction=LEFT", step("Max", x, one), y), one)]
    else:
        found += [step("Less", step("Neg", x), y)]
    result = total
    for value in found:
        result = step("Add", step("Mul", result, far), program.cast(value, dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("types", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
def test_elements_wrap_around(target: str, types: Sequence[str]):
    program = Program()
    for dtype in types:
        add_chains(program, dtype)
    program.check(target)


def add_sums(program: Program, dtype: str) -> None:
    """Operators that sum or multiply many integers, drawn from all of their type."""
    limits, random = numpy.iinfo(dtype), numpy.random.default_rng(5)

    def drawn(*shape: int) -> Array:
        data = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return numpy.where(random.random(shape) < 0.2, random.choice(extremes(dtype), shape), data)

    def node(type: str, inputs: Sequence[str], exact: Any, **attributes: Any) -> None:
        program.node(type, inputs, wrapped(exact, dtype), **attributes)

    data, odd = drawn(4, 600), drawn(3, 37) | 1
    x, many = program.feed(data), program.feed(odd)
    wide, axis = data.astype(object), program.constant([1], "int64")
    node("ReduceSum", [x, axis], wide.sum(1, keepdims=True))
    node("ReduceProd", [many, axis], odd.astype(object).prod(1, keepdims=True))
    node("ReduceL1", [x, axis], wrapped(abs(wide), dtype).astype(object).sum(1, keepdims=True))
    node("ReduceSumSquare", [x], (wide * wide).sum(keepdims=True).reshape(1, 1))
    left, right = drawn(5, 33), drawn(33, 6)
    a, b = program.feed(left), program.feed(right)
    matrix = left.astype(object) @ right.astype(object)
    node("MatMul", [a, b], matrix)
    node("Einsum", [a, b], matrix.T, equation="ij,jk->ki")
    node("CumSum", [a, program.constant(1, "int64")], left.astype(object).cumsum(1))
    slope = program.constant(limits.max, dtype)
    negative = left.astype(object) * int(limits.max)
    node("PRelu", [a, slope], numpy.where(left < 0, negative, left.astype(object)))
    places = program.constant([[2, 2, 2], [0, 0, 4]], "int64")
    rows = program.feed(drawn(2, 3))
    for reduction, function in (("add", operator.add), ("mul", operator.mul)):
        total = left.astype(object)
        for (row, column), value in numpy.ndenumerate(program.values[rows]):
            at = (int(program.values[places][row, column]), column)
            total[at] = function(total[at], int(value))
        node("ScatterElements", [a, places, rows], total, axis=0, reduction=reduction)
    if dtype.startswith("i"):
        node("Pow", [a, program.constant(5, dtype)], left.astype(object) ** 5)


@pytest.mark.parametrize(
    ("target", "dtype"), [("cpu", "int32"), ("cpu", "uint64"), ("emu", "int64")]
)
def test_sums_wrap_around(target: str, dtype: str):
    program = Program()
    add_sums(program, dtype)
    program.check(target)


def test_literals_are_folded_and_nothing_else_is():
    x = Var("x", PrimType("int32"))
    one, most = tirx.const(1, "int32"), tirx.const(2**31 - 1, "int32")
    assert wrapping.add(most, one).value == -(2**31)
    assert wrapping.multiply(most, most).value == 1
    assert wrapping.remainder(tirx.const(-7, "int32"), tirx.const(3, "int32")).value == -1
    larger = Analyzer().simplify(wrapping.add(x, one) > x)
    assert not isinstance(larger, tirx.IntImm)
