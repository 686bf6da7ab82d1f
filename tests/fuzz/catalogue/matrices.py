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


@generates("Attention")
def attention(g: Grower, op: str) -> None:
    """Heads that share keys, past ones, masks of both kinds, and the scores of each stage."""
    draw = g.draw
    batch, heads, shared, queries, keys, width, values = (draw.randint(1, 3) for _ in range(7))

    def floats(*shape: int) -> str:
        return g.tensor(["float32"], lambda s: s == shape, lambda: shape, (-2, 2))

    sizes = [(heads * shared, queries, width), (heads, keys, width), (heads, keys, values)]
    attributes: dict[str, Any] = {}
    if draw.chance(0.4):  # the heads side by side
        attributes |= {"q_num_heads": heads * shared, "kv_num_heads": heads}
        inputs = [floats(batch, length, count * size) for count, length, size in sizes]
    else:
        inputs = [floats(batch, *size) for size in sizes]
    past = draw.randint(0, 2) if draw.chance(0.4) else None
    if draw.chance(0.5):
        seen = keys + (past or 0)
        shape = draw.choice([(queries, seen), (1, 1, queries, seen), (batch, 1, queries, seen)])
        mask = draw.numpy.random(shape) < 0.7
        inputs.append(g.new(mask) if draw.chance(0.5) else floats(*shape))
    for name, value in (("scale", 0.5), ("softcap", 2.0), ("is_causal", 1)):
        if draw.chance(0.3):
            attributes[name] = value
    outputs = draw.choice([1 if past is None else 3, 4])
    if past is not None:
        inputs += [""] * (4 - len(inputs))
        inputs += [floats(batch, heads, past, size) for size in (width, values)]
    if outputs == 4:
        attributes["qk_matmul_output_mode"] = draw.randint(0, 3)
    g.emit(op, inputs, outputs, **attributes)
