"""Values that no kernel holds: sequences, optionals, and what control flow carries of any type."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from tests.fuzz.catalogue.hosts import HOST_FAMILIES as HOST_FAMILIES
from tests.fuzz.catalogue.hosts import few, fresh, hosts, place, small, text
from tests.fuzz.draw import NUMBERS, Shape
from tests.fuzz.grower import Grower


def _items(g: Grower, least: int = 0, shape: Shape | None = None) -> list[np.ndarray]:
    """Tensors of one type."""
    dtype = g.draw.choice([*NUMBERS, "bool", "text"])
    rank = g.draw.randint(1, 3)
    shapes = [shape or small(g, rank, rank) for _ in range(g.draw.randint(least, 4))]
    return [few(g, shape, [dtype]) for shape in shapes]


@hosts("SequenceConstruct")
def construct(g: Grower, op: str) -> None:
    """Tensors of several shapes."""
    g.require(g.opset >= 11)
    place(g, op, [fresh(g, item) for item in _items(g, 1)])


@hosts("SequenceLength SequenceAt SequenceErase SequenceInsert")
def sequence(g: Grower, op: str) -> None:
    """Every position, from both ends, or the default one."""
    g.require(g.opset >= 11)
    items = _items(g, 1)
    count, names = len(items), [fresh(g, items)]
    if op == "SequenceInsert":
        names.append(fresh(g, few(g, small(g), [_kind(items[0])])))
    if op == "SequenceAt" or (op != "SequenceLength" and g.draw.chance(0.7)):
        last = count if op == "SequenceInsert" else count - 1
        place_of = g.draw.randint(-count, last)
        names.append(fresh(g, np.array(place_of, g.draw.choice(["int32", "int64"]))))
    place(g, op, names)


def _kind(array: np.ndarray) -> str:
    return "text" if array.dtype == object else array.dtype.name


@hosts("ConcatFromSequence")
def joined(g: Grower, op: str) -> None:
    """Along an axis, or along a new one."""
    g.require(g.opset >= 11)
    shape, new = small(g, 1), g.draw.choice([None, 0, 1])
    items = _items(g, 1, shape)
    rank = len(shape) + (new or 0)
    place(g, op, [fresh(g, items)], axis=g.draw.randint(-rank, rank - 1), new_axis=new)


@hosts("SplitToSequence")
def parted(g: Grower, op: str) -> None:
    """Parts of given sizes, of one size, or single slices."""
    g.require(g.opset >= 11)
    x = few(g, small(g, 1))
    axis = g.draw.randint(-x.ndim, x.ndim - 1)
    size, kind = x.shape[axis], g.draw.choice(["none", "scalar", "sizes"])
    g.require(size > 0)
    names = [fresh(g, x)]
    if kind == "scalar":
        names.append(fresh(g, np.array(g.draw.randint(1, size), np.int64)))
    elif kind == "sizes":
        first = g.draw.randint(0, size)
        names.append(fresh(g, np.array([first, size - first], np.int64)))
    keep = g.draw.choice([None, 0, 1]) if kind == "none" else None
    place(g, op, names, axis=axis, keepdims=keep)


@hosts("Identity")
def itself(g: Grower, op: str) -> None:
    """Tensors and sequences."""
    g.require(g.opset >= 16)
    items = _items(g, 1)
    place(g, op, [fresh(g, items if g.draw.chance(0.5) else items[0])])


@hosts("OptionalGetElement OptionalHasElement")
def optional(g: Grower, op: str) -> None:
    """Tensors and sequences, which since opset 18 need not be optional."""
    g.require(g.opset >= 18)
    items = _items(g, 1)
    place(g, op, [fresh(g, items if g.draw.chance(0.5) else items[0])])


@hosts("Optional")
def made_optional(g: Grower, op: str) -> None:
    """Of a tensor."""
    g.require(g.opset >= 15)
    place(g, op, [fresh(g, _items(g, 1)[0])])


_CARRIED = {
    "complex64": np.dtype(np.complex64),
    "float": np.dtype(np.float32),
    "float8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "int4": np.dtype(ml_dtypes.int4),
}
"""Element types by the names that onnx's parser has for them."""


def _body(text: str, element: str) -> Any:
    """A graph, written with T for an element type."""
    return onnx.parser.parse_graph(text.replace("T", element))


def _elements(
    g: Grower, shape: Shape, kinds: Sequence[str] = ("complex64", "float")
) -> tuple[str, np.ndarray]:
    """A type, and a tensor of it; not all types have a Concat."""
    kind = g.draw.choice(["string", *kinds])
    if kind == "string":
        return kind, text(g, shape)
    return kind, few(g, shape, ["int8"]).astype(np.float32).astype(_CARRIED[kind])


@hosts("If")
def branch(g: Grower, op: str) -> None:
    """Branches of other shapes, which read from around them."""
    kind, x = _elements(g, small(g, 1, 2))
    g.values["captured"] = x
    nodes = ("Identity(captured)", "Concat<axis = 0>(captured, captured)")
    bodies = [_body(f"branch () => (T y) {{ y = {node} }}", kind) for node in nodes]
    condition = fresh(g, np.array(g.draw.chance(0.5)))
    place(g, op, [condition], then_branch=bodies[0], else_branch=bodies[1])


@hosts("Loop")
def loop(g: Grower, op: str) -> None:
    """A tensor that grows, and rows that are stacked."""
    kind, x = _elements(g, (g.draw.randint(1, 3),))
    g.values["captured"] = x
    body = _body(
        """body (int64 i, bool c, T[n] before) => (bool go, T[m] after, T[k] row) {
            go = Identity(c)
            after = Concat<axis = 0>(before, captured)
            row = Identity(captured)
        }""",
        kind,
    )
    count, going = np.array(g.draw.randint(1, 4), np.int64), np.array(True)
    place(g, op, [fresh(g, value) for value in (count, going, x)], 2, body=body)


@hosts("Scan")
def scan(g: Grower, op: str) -> None:
    """The last row, and the row before each, back to front or not."""
    g.require(g.opset >= 9)
    types = onnx.defs.get_schema("Identity", g.opset, "").inputs[0].types
    kinds = [kind for kind in _CARRIED if f"tensor({kind})" in types]
    kind, x = _elements(g, (g.draw.randint(1, 4), 2), kinds)
    body = _body(
        "body (T[2] s, T[2] r) => (T[2] last, T[2] same) { last = Identity(r) same = Identity(s) }",
        kind,
    )
    names, back = [fresh(g, x[0]), fresh(g, x)], [g.draw.randint(0, 1)]
    place(g, op, names, 2, body=body, num_scan_inputs=1, scan_output_directions=back)
