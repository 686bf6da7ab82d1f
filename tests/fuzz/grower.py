"""A model while it grows: generators pick or make tensors and emit nodes, all of them evaluated."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tests.fuzz.differences import Incomparable
from tests.fuzz.draw import Draw, Shape
from tests.fuzz.oracle import Oracle, Refused, Value

Array = NDArray[Any]
IR_VERSION = 10
LARGEST = 1e4
MOST_ELEMENTS = 4096


class Unsuitable(Exception):
    """What was drawn does not suit: nothing of the attempt is kept."""


def proto(opset: int, functions: Sequence[onnx.FunctionProto] = ()) -> onnx.ModelProto:
    """An empty model."""
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    imports.append(helper.make_opsetid("com.microsoft", 1))
    graph = helper.make_graph([], "fuzz", [], [])
    return helper.make_model(
        graph, opset_imports=imports, functions=list(functions), ir_version=IR_VERSION
    )


class Grower:
    """Collects nodes; `constants` is the share of new tensors that are constants."""

    oracle: type[Oracle] = Oracle

    def __init__(self, draw: Draw, opset: int, constants: float = 0.4, reuse: float = 0.8) -> None:
        self.draw, self.opset, self.constants, self.reuse = draw, opset, constants, reuse
        self.model = proto(opset)
        self.values: dict[str, Value] = {}
        self.feeds: dict[str, Array] = {}
        self.most_inputs = 4
        self.semantics = "onnx"
        self._count = 0

    def name(self, stem: str = "t") -> str:
        """A name that is not used yet."""
        self._count += 1
        return f"{stem}{self._count}"

    def attempt(self, generator: Callable[["Grower"], None]) -> bool:
        """Run a generator; whatever it did is undone unless all of it is accepted."""
        model, values, feeds = onnx.ModelProto(), dict(self.values), dict(self.feeds)
        model.CopyFrom(self.model)
        try:
            generator(self)
        except Unsuitable:
            self.model, self.values, self.feeds = model, values, feeds
            return False
        return True

    def require(self, condition: bool) -> None:
        """Give the attempt up unless the condition holds."""
        if not condition:
            raise Unsuitable

    def tensor(
        self,
        dtypes: Sequence[str],
        shape: Callable[[Shape], bool] | None = None,
        make: Callable[[], Shape] | None = None,
        values: tuple[float, float] = (-2.0, 2.0),
        within: bool = False,
    ) -> str:
        """A tensor of a dtype that suits: one that is there, or a new one of the made shape.

        With `within`, all its values lie between the bounds.
        """
        if self.draw.chance(self.reuse):
            found = [
                name
                for name, value in self._arrays().items()
                if value.dtype.name in dtypes
                and (shape is None or shape(value.shape))
                and (not within or inside(value, *values))
            ]
            if found:
                return self.draw.choice(found[-3:] if self.draw.chance(0.5) else found)
        made = make() if make else self.draw.shape()
        self.require(shape is None or shape(made))
        return self.new(self.draw.array(made, self.draw.dtype(dtypes), *values))

    def _arrays(self) -> dict[str, Array]:
        return {name: value for name, value in self.values.items() if not isinstance(value, list)}

    def like(self, name: str, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> str:
        """A tensor of the same dtype and another shape."""
        shape, dtype = tuple(shape), self.values[name].dtype.name
        return self.tensor([dtype], lambda s: s == shape, lambda: shape, (low, high))

    def new(self, array: Array) -> str:
        """A new tensor: an input of the model or a constant."""
        if len(self.feeds) >= self.most_inputs or self.draw.chance(self.constants):
            return self.constant(array)
        name = self.name("x")
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        info = helper.make_tensor_value_info(name, element, array.shape)
        self.model.graph.input.append(info)
        self.values[name] = self.feeds[name] = array
        return name

    def constant(self, array: Array) -> str:
        """An initializer, or a node that gives the same."""
        name = self.name("c")
        tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        if self.draw.chance(0.1):
            self.model.graph.node.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.model.graph.initializer.append(tensor)
        self.values[name] = array
        return name

    def ints(self, values: Sequence[int]) -> str:
        """A constant vector of int64."""
        return self.constant(np.array(list(values), np.int64))

    def emit(
        self, op: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **attributes: Any
    ) -> list[str]:
        """A node and its outputs; attributes that are None are left out."""
        self.require(bool(domain) or onnx.defs.has(op, self.opset, ""))
        given = {name: value for name, value in attributes.items() if value is not None}
        names = [self.name() for _ in range(outputs)]
        kept = list(inputs)
        while kept and not kept[-1]:
            kept.pop()
        named = "ai.onnx" if not domain and self.draw.chance(0.02) else domain  # the default one
        node = helper.make_node(op, kept, names, domain=named, **given)
        self.add(node)
        return names

    def add(self, node: onnx.NodeProto) -> None:
        """A node of one's own making; raises Unsuitable if it is refused or its values explode."""
        try:
            results = self.oracle(self.model, self.semantics).step(node, self.values)
        except (Refused, Incomparable) as error:
            raise Unsuitable(str(error)) from error
        for value in results.values():
            self.require(self._tame(value))
        self.values.update(results)
        self.model.graph.node.append(node)

    def _tame(self, value: Value) -> bool:
        if isinstance(value, list):
            return all(self._tame(item) for item in cast(list[Array], value))
        if value.dtype.kind not in "fiubV" or value.size > MOST_ELEMENTS:
            return False
        if value.dtype.kind not in "fV" or self.draw.specials:
            return True
        wide = value.astype(np.float64)
        return bool(np.isfinite(wide).all() and (np.abs(wide) < LARGEST).all())


def inside(array: Array, low: float, high: float) -> bool:
    """Whether all values lie between bounds."""
    return bool(((array >= low) & (array <= high)).all())
