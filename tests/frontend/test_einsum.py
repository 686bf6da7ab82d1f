"""Einsums of several operands, as a few that multiply less."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.frontend.export import export_model
from compiler.frontend.importing import Imported, import_model
from compiler.frontend.interpreter import interpret
from compiler.graph.cost import flops_of
from tests.frontend.checks import operators, run

LARGE = 64
"""The extent of letters where the order of the number of multiplications is read off."""


def model(
    equation: str, shapes: Sequence[Sequence[int]], dtype: str = "float32"
) -> onnx.ModelProto:
    """A model of one Einsum."""
    element_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    large = LARGE in arrays[0].shape
    result = None if large else np.einsum(equation, *arrays).shape
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [
        helper.make_tensor_value_info(name, element_type, shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    output = helper.make_tensor_value_info("y", element_type, result)
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    graph = helper.make_graph([node], "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def multiplications(imported: Imported) -> int:
    """The multiplications of all contractions of a model, each of which is added to a sum."""
    names = ("Einsum", "MatMul", "Mul")
    return sum(flops_of(op) for op in operators(imported) if op.type_name in names) // 2


@pytest.mark.parametrize(
    ("equation", "order"),
    [
        ("ab,cd->", 2),
        ("abcd,ef->", 4),
        ("a,b,c,d->", 1),
        ("a,b,c,d->ad", 2),
        ("ab,c,d->a", 2),
        ("ab,bc,cd,de->ae", 3),
        ("ab,cb,dc,ed->ae", 3),
        ("abc,cd->b", 3),
        ("aab,bc->a", 3),
        ("ij,jk->ik", 3),
        ("a,b,c->abc", 3),
        ("...ab,...bc,cd->...ad", 3),
    ],
)
def test_multiplications_are_of_the_least_order(equation: str, order: int):
    """No more than five times the extent to the power of the order."""
    terms = equation.partition("->")[0].split(",")
    shapes = [[LARGE] * len(term.replace("...", "")) for term in terms]
    assert multiplications(import_model(model(equation, shapes))) <= 5 * LARGE**order


@pytest.mark.parametrize(
    ("equation", "names"),
    [
        ("ij,jk->ik", {"MatMul"}),
        ("bqhd,bkhd->bhqk", {"MatMul"}),
        ("bhqk,bkhd->bqhd", {"MatMul"}),
        ("btd,dhk->bthk", {"MatMul"}),
        ("td,tec->ecd", {"MatMul"}),
        ("bhwc,hkc->bhwk", {"MatMul"}),
        ("...qd,...kd->...qk", {"MatMul"}),
        ("bcln,bhcl,bclhp->bchpn", {"MatMul", "Mul"}),
        ("bcln,bcsn,bhcls,bcshp->bclhp", {"MatMul", "Mul"}),
        ("i,j->ij", {"Mul"}),
        ("abc,ca->acb", {"Mul"}),
        ("td,tkdh->tkh", {"Einsum"}),
        ("ab,ab->b", {"Einsum"}),
        ("aab,bc->ac", {"Einsum"}),
    ],
)
def test_pairs_become_operators_that_templates_take(equation: str, names: set[str]):
    extents = dict(zip("abcdehiklnpqstw", range(2, 17), strict=True))
    terms = equation.partition("->")[0].split(",")
    shapes = [[extents.get(x, 7) for x in term.replace("...", "..")] for term in terms]
    imported = import_model(model(equation, shapes))
    assert {op.type_name for op in operators(imported)} - {"Reshape", "Transpose"} == names


def drawn_equation(generator: np.random.Generator) -> tuple[str, list[list[int]]]:
    """An equation of up to four operands with ellipses, diagonals and axes that are broadcast."""
    letters = "abcde"[: generator.integers(1, 6)]
    extents = {letter: int(generator.integers(1, 5)) for letter in letters}
    between = [int(n) for n in generator.integers(1, 4, 2)]
    dots = generator.random() < 0.3
    terms: list[str] = []
    shapes: list[list[int]] = []
    for _ in range(generator.integers(1, 5)):
        own = [x for x in map(str, generator.permutation([*letters])) if generator.random() < 0.6]
        if own and generator.random() < 0.2:
            own.insert(0, own[-1])
        single = [own.count(x) == 1 and generator.random() < 0.1 for x in own]
        shape = [1 if one else extents[x] for x, one in zip(own, single, strict=True)]
        term = "".join(own)
        if dots and generator.random() < 0.7:
            term = f"...{term}"
            shape = [n if generator.random() > 0.2 else 1 for n in between] + shape
        terms.append(term)
        shapes.append(shape)
    used = sorted({x for term in terms for x in term if x != "."})
    kept = [x for x in map(str, generator.permutation(used)) if generator.random() < 0.4]
    equation = ",".join(terms)
    if generator.random() < 0.8:
        equation += "->" + ("..." if "..." in equation else "") + "".join(kept)
    return equation, shapes


@pytest.mark.parametrize("seed", range(120))
def test_results_of_drawn_equations(seed: int):
    """Small whole numbers, so that every order of the sums has the same result."""
    generator = np.random.default_rng(seed)
    equation, shapes = drawn_equation(generator)
    dtype = ("float32", "int32", "float16", "float64")[seed % 4]
    inputs = {
        f"x{i}": generator.integers(-2, 3, shape).astype(dtype) for i, shape in enumerate(shapes)
    }
    imported = import_model(model(equation, shapes, dtype))
    imported.module.verify()
    exact = np.einsum(equation, *[x.astype(np.float64) for x in inputs.values()])
    (result,) = interpret(imported.module, imported.weights, inputs).values()
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype(np.float64), exact)


@pytest.mark.parametrize("equation", ["a,b,c,d->", "a,b,c,d->ad", "ab,c,d->a", "ab,bc,cd->ad"])
def test_the_model_stays_onnx(equation: str):
    shapes = [[3] * len(term) for term in equation.partition("->")[0].split(",")]
    generator = np.random.default_rng(1)
    inputs = {f"x{i}": generator.random(shape).astype(np.float32) for i, shape in enumerate(shapes)}
    imported = import_model(model(equation, shapes))
    (result,) = run(export_model(imported.module, imported.weights), inputs)
    np.testing.assert_allclose(result, np.einsum(equation, *inputs.values()), rtol=1e-5)
