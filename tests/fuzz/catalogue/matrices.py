"""Matrix products."""

from typing import Any

from tests.fuzz.catalogue.registry import generates
from tests.fuzz.draw import Shape
from tests.fuzz.grower import Grower

DTYPES = ("float32", "float32", "float64", "int32", "float16", "int64")


@generates("MatMul")
def matmul(g: Grower, op: str) -> None:
    """Vectors, matrices and batches that broadcast."""
    x = g.tensor(DTYPES, lambda s: len(s) >= 1 and 0 not in s, lambda: g.draw.shape(1, 4))
    *batch, inner = g.values[x].shape
    n = g.draw.size()
    kept: Shape = tuple(1 if g.draw.chance(0.3) else size for size in batch[:-1])
    shapes: list[Shape] = [(inner, n), (inner, n), (inner,), (*kept, inner, n)]
    g.emit(op, [x, g.like(x, g.draw.choice(shapes))])


@generates("Gemm")
def gemm(g: Grower, op: str) -> None:
    """Transpositions, factors, and C that broadcasts."""
    x = g.tensor(DTYPES, lambda s: len(s) == 2 and 0 not in s, lambda: g.draw.shape(2, 2))
    left, right = g.draw.randint(0, 1), g.draw.randint(0, 1)
    rows, inner = g.values[x].shape[:: -1 if left else 1]
    n = g.draw.size()
    y = g.like(x, (n, inner) if right else (inner, n))
    shapes: list[Shape] = [(rows, n), (1, n), (n,), (rows, 1), (1,), ()]
    c = [g.like(x, g.draw.choice(shapes))] if g.draw.chance(0.6) or g.opset < 11 else []
    names = g.draw.some(["alpha", "beta"], 0.3)
    factors: dict[str, Any] = {name: g.draw.choice([0.5, 2.0, 0.0]) for name in names}
    g.emit(op, [x, y, *c], transA=left or None, transB=right or None, **factors)


_EQUATIONS = {
    "ij->": 1, "ij->i": 1, "ij->ji": 1, "ii->i": 0, "...i->...": 1, "ij,jk->ik": 2,
    "bij,bjk->bik": 2, "ij,kj": 2, "i,j->ij": 2, "bhid,bhjd->bhij": 2, "ij,ij->": 2,
    "...ij,...jk->...ik": 2, "ij,j->i": 2, "abc,cd->abd": 2,
}  # fmt: skip


@generates("Einsum")
def einsum(g: Grower, op: str) -> None:
    """One or two operands."""
    equation = g.draw.choice(list(_EQUATIONS))
    sizes = {letter: g.draw.randint(1, 6) for letter in "abcdhijk"}
    terms = equation.split("->")[0].split(",")
    shapes = [
        tuple(1 if flat or g.draw.chance(0.1) else sizes[c] for c in term.replace("...", "ab"))
        for term in terms
        for flat in [g.draw.chance(0.05)]
    ]
    dtype = g.draw.dtype(("float32", "float64", "int32"))
    operands = [
        g.tensor([dtype], lambda s, shape=shape: s == shape, lambda shape=shape: shape)
        for shape in shapes
    ]
    g.emit(op, operands, equation=equation)
