"""Entries of the operator table, and the checks of one node against its entry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any, Literal, TypeVar

import numpy as np

from compiler.net.attributes import Attribute, Mismatch, Shape, Shapes
from compiler.net.facts import Facts
from compiler.net.maps import Maps, moved_elements
from compiler.net.node import Array, Evaluation, Node, OperatorInput, ShapeMismatch, TypedNode
from compiler.support.memory import require
from compiler.tensors.dtypes import ELEMENT_BYTES, numpy_name
from compiler.tensors.extents import Undecided
from compiler.tensors.substitution import is_symbolic

MOST_AXES = 64
"""The most axes of a tensor, as numpy has them."""

LARGEST_TENSOR = 2**31 - 2**20
"""Elements of the largest tensor: kernels index with 32-bit integers, and tiles may reach past the
end of a tensor."""


class Kind(Enum):
    """How an operator computes, on which fusion depends."""

    ELEMENTWISE = "elementwise"  # one output element from the same element of each input
    INJECTIVE = "injective"  # one output element from one input element somewhere else
    REDUCTION = "reduction"  # one output element from many input elements
    CONTRACTION = "contraction"  # a reduction of multiplications: convolutions, GEMMs
    VIEW = "view"  # the same bytes in another shape
    OPAQUE = "opaque"  # never fused: sorts, scatters, scans


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A tensor's type, and its value if that is known."""

    dtype: str
    shape: Shape
    array: Array | None = None

    def __str__(self) -> str:
        return type_text(self.dtype, self.shape)


InputT = TypeVar("InputT", bound=OperatorInput)


def type_text(dtype: str, shape: Sequence[int]) -> str:
    """A tensor type as messages write it: `float32[2, 3]`."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def to_infer(outputs: int) -> Sequence[Any]:
    """The outputs of a node, of which nothing but their number is known."""
    return (None,) * outputs


Rule = Callable[[TypedNode], Sequence[Shape]]
"""The shape of every result that an operator has or may have; raises Mismatch."""

MapRule = Callable[[TypedNode, Sequence[Shape]], Maps]
"""The maps of each result of an operator, by the shapes of its results."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or output: the dtype or the name of a type variable, and how often it occurs."""

    type: str
    option: Literal["", "?", "*"] = ""


def _slots(text: str) -> tuple[Slot, ...]:
    return tuple(
        Slot(word.rstrip("?*"), "?" if word[-1] == "?" else "*" if word[-1] == "*" else "")
        for word in text.split()
    )


@dataclass(frozen=True, slots=True)
class OnnxForm:
    """How ONNX writes an operator of which inputs decide shapes, in place of attributes.

    `decides_shape` names these inputs, by position. `attributes` are all that ONNX has.
    `normalise` gives the attributes of the table's entry that stand for the inputs, of a node in
    this form, and raises Mismatch; `write` gives inputs and other attributes back, by ONNX's names,
    of a node in the canonical form.
    """

    inputs: tuple[Slot, ...]
    decides_shape: Mapping[int, str]
    attributes: Mapping[str, Attribute]
    normalise: Callable[[TypedNode], Mapping[str, Any]]
    write: Callable[[TypedNode], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """An entry of the table.

    `types` has the dtypes of each type variable. `structural` inputs must be constants, for which
    kernels are made; those that decide shapes are attributes, and inputs in the `onnx` form alone.
    `result` names the attribute that gives variable U's dtype, by `dtypes`.
    `maps` says of an operator that only moves elements where each of its results' is from; results
    by numpy, the lowering, views, windows, the bytes read and carried numbers derive from it.
    `evaluate` is what it computes: constants are folded by it, small graphs run by it, and tests
    compare kernels with it. `domain` is empty for operators of ONNX and of this package.
    """

    kind: Kind
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    types: Mapping[str, frozenset[str]]
    rule: Rule
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    structural: tuple[int, ...] = ()
    result: Callable[[TypedNode], str] | None = None
    maps: MapRule | None = None
    evaluate: Evaluation | None = None
    domain: str = ""
    facts: Facts = field(default_factory=Facts)
    onnx: OnnxForm | None = None

    def moves(self, index: int) -> bool:
        """Whether the elements of an input are moved to the results."""
        return self.maps is not None and self._slot(index).type == self.outputs[0].type

    def _slot(self, index: int) -> Slot:
        return self.inputs[min(index, len(self.inputs) - 1)]

    def dtypes(self, index: int) -> frozenset[str]:
        """The dtypes that an input may have."""
        name = self._slot(index).type
        return self.types[name] if name in self.types else frozenset({name})

    def node(
        self,
        type: str,
        inputs: Sequence[InputT | None],
        attributes: Mapping[str, Any],
        outputs: int = 1,
    ) -> Node[InputT]:
        """A node of the operator, by its name in the table, with all attributes."""
        shapes = [None if value is None else value.shape for value in inputs]
        return Node(type, self.complete(attributes, shapes), inputs, to_infer(outputs))

    def complete(self, attributes: Mapping[str, Any], shapes: Shapes) -> dict[str, Any]:
        """Attributes with the defaults of those that are left out, for inputs of these shapes."""
        full = dict(attributes)
        for name, attribute in self.attributes.items():
            if name not in full and (default := attribute.default_for(shapes)) is not None:
                full[name] = default
        return full

    def written(self, node: TypedNode) -> dict[str, Any]:
        """The attributes of a node without those that have their defaults."""
        shapes = [None if value is None else value.shape for value in node.inputs]
        return {
            name: value
            for name, value in node.attributes.items()
            if repr(value) != repr(self.attributes[name].default_for(shapes))  # -0.0 is not 0.0
        }

    def from_front(self, attributes: Mapping[str, Any], shapes: Shapes) -> dict[str, Any]:
        """Attributes whose axes count from the front; those that are out of range stay."""
        known = self.attributes
        return {
            name: known[name].from_front(value, shapes) if name in known else value
            for name, value in attributes.items()
        }

    @property
    def least_inputs(self) -> int:
        """How many inputs must be there."""
        return sum(slot.option != "?" for slot in self.inputs)

    @property
    def most_inputs(self) -> int | None:
        """How many inputs there may be; None for any number."""
        return None if self.inputs[-1].option == "*" else len(self.inputs)

    @property
    def decided(self) -> frozenset[str]:
        """The attributes in place of the inputs that decide shapes in ONNX's form."""
        named = (n for n, attribute in self.attributes.items() if attribute.required)
        return frozenset(named if self.onnx is not None else ())

    @property
    def picks(self) -> bool:
        """Whether each element of the results is one of operand 0."""
        moved = [i for i in range(len(self.inputs)) if self.moves(i)]
        return moved == [0] and self.most_inputs is not None and self.facts.keeps_codes is not False

    @property
    def keeps_codes(self) -> bool:
        """Whether integers instead of the numbers that they stand for give those of the result."""
        if self.facts.keeps_codes is not None:
            return self.facts.keeps_codes
        return self.picks and not self.facts.repeats


def operator(
    kind: Kind,
    signature: str,
    rule: Rule,
    attributes: Mapping[str, Attribute] | None = None,
    structural: tuple[int, ...] = (),
    result: Callable[[TypedNode], str] | None = None,
    maps: MapRule | None = None,
    evaluate: Evaluation | None = None,
    domain: str = "",
    facts: Facts | None = None,
    onnx: OnnxForm | None = None,
    **types: frozenset[str],
) -> OpSpec:
    """An entry with a signature such as `T T? int64 -> T`: `?` is optional, `*` any number.

    What is computed by maps needs no `evaluate`.
    """
    inputs, _, outputs = signature.partition("->")
    return OpSpec(
        kind=kind,
        inputs=_slots(inputs),
        outputs=_slots(outputs),
        types=types,
        rule=rule,
        attributes=attributes or {},
        structural=structural,
        result=result,
        maps=maps,
        evaluate=_by_maps(rule, maps) if evaluate is None and maps else evaluate,
        domain=domain,
        facts=facts or Facts(),
        onnx=onnx,
    )


def onnx_form(
    inputs: str,
    decides_shape: Mapping[int, str],
    normalise: Callable[[TypedNode], Mapping[str, Any]],
    attributes: Mapping[str, Attribute] | None = None,
    write: Callable[[TypedNode], Mapping[str, Any]] | None = None,
) -> OnnxForm:
    """ONNX's form with the inputs of a signature such as `T int64? -> T`.

    Attributes are written as the inputs of the same names unless `write` says otherwise.
    """

    def same_names(node: TypedNode) -> Mapping[str, Any]:
        named = {name: node[name] for name in decides_shape.values()}
        return {name: value for name, value in named.items() if value is not None}

    return OnnxForm(
        inputs=_slots(inputs),
        decides_shape=decides_shape,
        attributes=attributes or {},
        normalise=normalise,
        write=write or same_names,
    )


def _by_maps(rule: Rule, maps: MapRule) -> Evaluation:
    def evaluate(node: TypedNode) -> list[Array]:
        shapes = rule(node)[: len(node.outputs)]
        arrays = [None if value is None else value.array for value in node.inputs]
        pairs = zip(maps(node, shapes), shapes, strict=True)
        return [moved_elements(own, shape, arrays) for own, shape in pairs]

    return evaluate


def check_attributes(entry: OpSpec, attributes: Mapping[str, Any]) -> None:
    """Raise Mismatch for an attribute that is unknown, missing, or has a wrong value."""
    for name, value in attributes.items():
        if name not in entry.attributes:
            raise Mismatch(f"it has no attribute {name!r}")
        entry.attributes[name].check(name, value)
    for name, attribute in entry.attributes.items():
        if attribute.required and name not in attributes:
            raise Mismatch(f"its attribute {name!r} is missing")


def check_count(entry: OpSpec, inputs: Sequence[OperatorInput | None], outputs: int) -> None:
    """Raise Mismatch for a number of inputs or outputs that an operator cannot have."""
    least, most = entry.least_inputs, entry.most_inputs
    if len(inputs) < least or (most is not None and len(inputs) > most):
        wanted = f"{least}" if least == most else f"{least} to {most or 'any number'}"
        raise Mismatch(f"it has {len(inputs)} inputs instead of {wanted}")
    if outputs < 1 or (outputs > len(entry.outputs) and entry.outputs[-1].option != "*"):
        raise Mismatch(f"it has {outputs} outputs instead of 1 to {len(entry.outputs)}")


def bind_types(entry: OpSpec, inputs: Sequence[OperatorInput | None]) -> dict[str, str]:
    """The dtype of each type variable; raises Mismatch for a dtype that does not fit."""
    bound: dict[str, str] = {}
    last = len(entry.inputs) - 1
    for i, value in enumerate(inputs):
        slot = entry.inputs[min(i, last)]
        if value is None:
            if slot.option != "?":
                raise Mismatch(f"its input {i} is left out")
            continue
        allowed = entry.types.get(slot.type)
        if allowed is None:
            if value.dtype != slot.type:
                raise Mismatch(f"its input {i} is {value.dtype}, it must be {slot.type}")
        elif value.dtype not in allowed:
            known = ", ".join(sorted(allowed))
            raise Mismatch(f"its input {i} is {value.dtype}; it can be {known}")
        elif bound.setdefault(slot.type, value.dtype) != value.dtype:
            raise Mismatch(f"its input {i} is {value.dtype}, another is {bound[slot.type]}")
    return bound


def check_size(dtype: str, shape: Shape) -> None:
    """Raise ShapeMismatch for a tensor with more elements or axes than can be indexed.

    Sizes besides a 0 count, as strides are computed from them. Of a tensor that has so many at
    some sizes only, whoever assumes nothing checks it at another time.
    """
    if len(shape) > MOST_AXES:
        raise ShapeMismatch(f"{dtype} of {len(shape)} axes: a tensor has at most {MOST_AXES}")
    count = prod(shape)
    numbers: Sequence[int] = shape
    if is_symbolic(count) or count == 0:
        numbers = [size for size in shape if not is_symbolic(size)]
        symbolic = [size for size in shape if is_symbolic(size)]
        count = prod(symbolic) * prod([size for size in numbers if size != 0])
    if min(numbers, default=0) < 0:
        raise ShapeMismatch(f"{type_text(dtype, shape)} has a size below 0")
    try:
        exceeds = count > LARGEST_TENSOR
    except Undecided:
        return
    if exceeds:
        raise ShapeMismatch(
            f"{type_text(dtype, shape)} has {count} elements,"
            f" kernels index at most {LARGEST_TENSOR}"
        )


def check_room(dtype: np.dtype[Any], shape: Shape) -> None:
    """As `check_size` for a tensor that is made now; DeviceError where the host has no room."""
    check_size(dtype.name, shape)
    require(dtype.itemsize * prod(shape), type_text(dtype.name, shape))


def known_tensors(arrays: Sequence[Array | None]) -> list[KnownTensor | None]:
    """The types of arrays, with their values."""
    return [None if a is None else KnownTensor(numpy_name(a.dtype), a.shape, a) for a in arrays]


def evaluate_known(node: TypedNode, entry: OpSpec) -> list[Array | None]:
    """The first results of a node whose entry has `evaluate`, and whose inputs are known.

    Raises ValueError or IndexError for inputs that do not fit.
    """
    assert entry.evaluate is not None, node.type
    try:
        with np.errstate(all="ignore"):
            results = entry.evaluate(node)
    except ZeroDivisionError as error:
        raise ValueError(f"an attribute of {node.type} is 0 ({error})") from error
    except Mismatch as error:
        raise ValueError(str(error)) from error
    if isinstance(results, np.ndarray | np.generic | str):
        results = [results]
    count = len(node.outputs)
    arrays = [None if array is None else _as_array(array) for array in results[:count]]
    return arrays + [None] * (count - len(arrays))


def _as_array(result: Array | str) -> Array:
    """A result as an array; an element of texts is one, too."""
    return np.array(result, object) if isinstance(result, str) else np.asarray(result)


def infer_results(node: TypedNode, entry: OpSpec) -> list[KnownTensor]:
    """The types of a node's results by its entry; see `infer`."""
    check_count(entry, node.inputs, len(node.outputs))
    bound = bind_types(entry, node.inputs)
    for value in node.inputs:
        if value is not None:
            check_size(value.dtype, value.shape)
    if entry.result is not None:
        bound["U"] = entry.result(node)
    shapes = entry.rule(node)
    last = len(entry.outputs) - 1
    results: list[KnownTensor] = []
    for i, shape in enumerate(shapes[: len(node.outputs)]):
        name = entry.outputs[min(i, last)].type
        dtype = name if name in ELEMENT_BYTES else bound[name]
        check_size(dtype, shape)
        results.append(KnownTensor(dtype, shape))
    return results
