"""TASO's rules as graphs of our operators.

`taso_rules.json` is TASO's published file of graph substitutions (Apache-2.0), as JSON. An
operator's inputs are pairs: a variable (negative) or an operator of the same side, and the number
of its result.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any

import z3

from compiler.graph.rewriting.terms import Graph, Term, Terms
from compiler.net.spec import KnownTensor

Shape = tuple[int, ...]
Operator = Mapping[str, Any]
KERNEL = 3
LARGEST = 12
"""The largest extent of an example."""


@dataclass(frozen=True)
class TasoRule:
    """Two graphs that TASO says are equal, result by result."""

    source: Sequence[Operator]
    target: Sequence[Operator]
    outputs: Sequence[Mapping[str, Any]]

    @property
    def has_convolutions(self) -> bool:
        """Whether a convolution is in it, which may have groups."""
        return any(op["op"] == "conv2d" for op in (*self.source, *self.target))


def taso_rules() -> list[TasoRule]:
    """The rules of the file."""
    text = (Path(__file__).parent / "taso_rules.json").read_text()
    return [TasoRule(**rule) for rule in json.loads(text)]


@dataclass
class Typing:
    """The extents of variables as unknowns, and what both sides require of them."""

    rank: int
    groups: Iterator[int]
    shapes: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, tuple[Any, ...]])
    conditions: list[Any] = field(default_factory=list[Any])

    def variable(self, name: int, rank: int) -> tuple[Any, ...]:
        """The extents of a variable."""
        if name not in self.shapes:
            self.shapes[name] = tuple(z3.Int(f"v{-name}.{axis}") for axis in range(rank))
            self.conditions += [c for n in self.shapes[name] for c in (n >= 1, n <= LARGEST)]
        return self.shapes[name]

    def side(self, operators: Sequence[Operator]) -> list[tuple[tuple[Any, ...], ...]]:
        """The shapes of the results of one side's operators."""
        results: list[tuple[tuple[Any, ...], ...]] = []
        for op in operators:
            inputs = [
                self.variable(i, _rank(op, self.rank)) if i < 0 else results[i][o]
                for i, o in op["inputs"]
            ]
            results.append(self._results(op, inputs))
        return results

    def _results(self, op: Operator, inputs: list[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
        first = inputs[0]
        match op["op"]:
            case "ew_add" | "ew_mul":
                self.conditions += [a == b for a, b in zip(*inputs, strict=True)]
            case "matmul":
                self.conditions.append(first[1] == inputs[1][0])
                return ((first[0], inputs[1][1]),)
            case "concat":
                return (self._concat(inputs, op["params"]["axis"]),)
            case "split":
                return self._split(first, op["params"]["axis"])
            case "conv2d":
                return (self._conv(*inputs),)
            case _:
                assert op["op"] == "relu"
        return (first,)

    def _concat(self, inputs: list[tuple[Any, ...]], axis: int) -> tuple[Any, ...]:
        first, second = inputs
        pairs = enumerate(zip(first, second, strict=True))
        self.conditions += [a == b for i, (a, b) in pairs if i != axis]
        return (*first[:axis], first[axis] + second[axis], *first[axis + 1 :])

    def _split(self, shape: tuple[Any, ...], axis: int) -> tuple[tuple[Any, ...], ...]:
        """Two parts, as a Concat put them together."""
        extent = z3.simplify(shape[axis])
        assert extent.decl().kind() == z3.Z3_OP_ADD
        return tuple((*shape[:axis], part, *shape[axis + 1 :]) for part in extent.children())

    def _conv(self, x: tuple[Any, ...], w: tuple[Any, ...]) -> tuple[Any, ...]:
        group = next(self.groups)
        self.conditions += [w[2] == KERNEL, w[3] == KERNEL]
        self.conditions += [x[1] == w[1] * group, w[0] % group == 0]
        return (x[0], w[0], *x[2:])


def _rank(op: Operator, rank: int) -> int:
    given: int = op["params"].get("numdim", rank)
    return {"matmul": 2, "conv2d": 4}.get(str(op["op"]), given)


def rank_of(rule: TasoRule) -> int:
    """The rank of variables that only elementwise operators read."""
    operators = (*rule.source, *rule.target)
    ranks = {_rank(op, 0) for op in operators} - {0}
    return max(ranks, default=2)


def example(rule: TasoRule, dense: bool = True) -> dict[int, Shape] | None:
    """Shapes for which both sides are well typed, as different from each other as they can be.

    Convolutions are dense, or one of them has groups.
    """
    operators = (*rule.source, *rule.target)
    convolutions = sum(op["op"] == "conv2d" for op in operators)
    for groups in product((1, 2, 3), repeat=convolutions):
        if all(group == 1 for group in groups) == dense:
            shapes = shapes_of(typing_of(rule, groups))
            if shapes is not None:
                return shapes
    return None


def typing_of(rule: TasoRule, groups: Sequence[int]) -> Typing:
    """The conditions that both sides are well typed, of equal types."""
    typing = Typing(rank_of(rule), iter(groups))
    source, target = typing.side(rule.source), typing.side(rule.target)
    for output in rule.outputs:
        (i, j), (k, m) = output["source"], output["target"]
        typing.conditions += [a == b for a, b in zip(source[i][j], target[k][m], strict=True)]
    return typing


def shapes_of(typing: Typing) -> dict[int, Shape] | None:
    """Extents that fulfil the conditions, different where they can be; None if there are none."""
    solver = z3.Solver()
    solver.add(*typing.conditions)
    if solver.check() != z3.sat:
        return None
    for condition in _differences(typing):
        if solver.check(condition) == z3.sat:
            solver.add(condition)
    solver.check()
    model = solver.model()
    return {
        name: tuple(model.eval(n, model_completion=True).as_long() for n in shape)
        for name, shape in typing.shapes.items()
    }


def _differences(typing: Typing) -> Iterator[Any]:
    """Extents above 1, different along an axis of two variables and along two axes of one."""
    shapes = list(typing.shapes.values())
    yield from (n > 1 for shape in shapes for n in shape)
    for i, shape in enumerate(shapes):
        yield from (a != b for a, b in combinations(shape, 2))
        for other in shapes[:i]:
            yield from (a != b for a, b in zip(shape, other, strict=False))


def leaf(terms: Terms, name: int, shape: Shape) -> Term:
    """A variable."""
    return terms.leaf("input", KnownTensor("float32", shape), index=-name)


def _terms(terms: Terms, op: Operator, inputs: list[Term]) -> Sequence[Term]:
    params = op["params"]
    match op["op"]:
        case "ew_add" | "ew_mul":
            return (terms.apply({"ew_add": "Add", "ew_mul": "Mul"}[op["op"]], inputs),)
        case "matmul":
            return (terms.apply("MatMul", inputs),)
        case "relu":
            return (terms.apply("Relu", inputs),)
        case "concat":
            return (terms.apply("Concat", inputs, {"axis": params["axis"]}),)
        case "split":
            return _split(terms, inputs[0], params["axis"])
        case _:
            return (_conv(terms, inputs, params["acti"]),)


def _conv(terms: Terms, inputs: list[Term], activation: str) -> Term:
    x, w = inputs
    group = x.shape[1] // w.shape[1]
    result = terms.apply("Conv", inputs, {"group": group, "pads": (KERNEL // 2,) * 4})
    return terms.apply("Relu", [result]) if activation == "relu" else result


def _split(terms: Terms, x: Term, axis: int) -> Sequence[Term]:
    middle = _middle(x, axis)
    bounds = ((0, middle), (middle, x.shape[axis]))
    return [terms.apply("Slice", [x], {"axis": axis, "start": a, "stop": b}) for a, b in bounds]


def _middle(x: Term, axis: int) -> int:
    """Where the first Concat below an operator along an axis ends its first part."""
    pending = [x]
    while pending:
        term = pending.pop(0)
        if term.node.type == "Concat":
            first, _ = term.operands
            return first.shape[int(str(term.node.attributes["axis"]))]
        pending += term.operands
    raise AssertionError(f"{x} has no parts along axis {axis}")


def graphs(terms: Terms, rule: TasoRule, shapes: Mapping[int, Shape]) -> tuple[Graph, Graph]:
    """Both sides as graphs of equal types."""
    return (
        _results(terms, rule, "source", rule.source, shapes),
        _results(terms, rule, "target", rule.target, shapes),
    )


def _results(
    terms: Terms,
    rule: TasoRule,
    name: str,
    operators: Sequence[Operator],
    shapes: Mapping[int, Shape],
) -> Graph:
    results: list[Sequence[Term]] = []
    for op in operators:
        inputs = [leaf(terms, i, shapes[i]) if i < 0 else results[i][o] for i, o in op["inputs"]]
        results.append(_terms(terms, op, inputs))
    return tuple(results[i][o] for i, o in (output[name] for output in rule.outputs))
