"""Random models whose operators share weights and inputs, with If, Loop and Scan between them.

What passes regroup is there: tied MatMuls and Gemms of few rows and more, siblings, attention,
squeeze-and-excitation, ranges, scatters of one index, look-ups, and Concats; bodies have the same
operators and read tensors and weights from around them. Tensors are float32 of `WIDTH` columns and
stay within a few units, so that results may be compared with small tolerances.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

WIDTH = 8
"""Columns of all tensors."""

ROWS = (2, 3, 16, 17)
"""Rows of all tensors of a model: up to 16 GEMMs of one weight are batched."""

LONG = 66
"""Iterations of a loop that is not unrolled."""


@dataclass
class _Model:
    """What the graphs of a model have in common."""

    random: Random
    rows: int
    initializers: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    shared: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    count: int = 0

    def name(self, stem: str) -> str:
        """A name that no other value has."""
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value: Any, dtype: str = "float32") -> str:
        """A new initializer."""
        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def weight(self, *shape: int, stem: str = "w") -> str:
        """A weight of a shape: most often one that others read, too."""
        kind = f"{stem}{shape}"
        known = self.shared.setdefault(kind, [])
        if not known or (len(known) < 3 and self.random.random() < 0.3):
            numbers = np.random.default_rng(self.random.randrange(1 << 30))
            known.append(self.constant(numbers.uniform(-0.5, 0.5, shape)))
        return self.random.choice(known)

    def indices(self) -> str:
        """An index of each row, which scatters and look-ups share."""
        known = self.shared.setdefault("indices", [])
        if len(known) < 2:
            numbers = [self.random.randrange(self.rows) for _ in range(self.rows)]
            known.append(self.constant(numbers, "int64"))
        return self.random.choice(known)


@dataclass
class _Graph:
    """A graph while it is drawn, and the tensors that it may read, also from around it."""

    model: _Model
    tensors: list[str]
    depth: int = 0
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])

    @property
    def random(self) -> Random:
        return self.model.random

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """The outputs of a new node."""
        names = [self.model.name("v") for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The only output of a new node."""
        return self.add(kind, *inputs, **attributes)[0]

    def pick(self) -> str:
        """A tensor: most often a recent one, so that operators follow each other."""
        recent = self.random.random() < 0.5
        return self.random.choice(self.tensors[-2:] if recent else self.tensors)

    def keep(self, name: str) -> None:
        """A new tensor, which is kept small."""
        self.tensors.append(self.one("Tanh", name))

    def fill(self, most: int) -> None:
        """Draw a few operators."""
        steps = [self.product, self.product, self.product, self.siblings, self.attention]
        steps += [self.excited, self.ranged, self.scattered, self.looked_up, self.concatenated]
        steps += [self.combined] + [self.control, self.control, self.control] * (self.depth < 2)
        for _ in range(self.random.randint(1, most)):
            self.random.choice(steps)()

    def matmul(self, x: str) -> str:
        """A MatMul or a Gemm by a shared weight."""
        if self.random.random() < 0.5:
            return self.one("MatMul", x, self.model.weight(WIDTH, WIDTH))
        bias = [self.model.weight(WIDTH, stem="b")] * self.random.randint(0, 1)
        turned = self.random.randint(0, 1)
        return self.one("Gemm", x, self.model.weight(WIDTH, WIDTH), *bias, transB=turned)

    def product(self) -> None:
        """One GEMM."""
        self.keep(self.matmul(self.pick()))

    def combined(self) -> None:
        """An operator on two tensors."""
        self.keep(self.one(self.random.choice(["Add", "Sub", "Mul"]), self.pick(), self.pick()))

    def siblings(self) -> None:
        """GEMMs of one tensor."""
        x = self.pick()
        for _ in range(2):
            self.keep(self.matmul(x))

    def attention(self) -> None:
        """Softmax(Q K^T) V, all three of one tensor or of several."""
        x, y = self.pick(), self.pick()
        keys = self.one("Transpose", self.matmul(y), perm=[1, 0])
        scores = self.one("MatMul", self.matmul(x), keys)
        scaled = self.one("Mul", scores, self.model.constant(0.25))
        self.keep(self.one("MatMul", self.one("Softmax", scaled, axis=-1), self.matmul(y)))

    def excited(self) -> None:
        """Columns as the channels of an image, which a gate scales."""
        rows, weight = self.model.rows, self.model.weight(WIDTH, WIDTH, 1, 1, stem="k")
        shape = self.model.constant([1, WIDTH, rows, 1], "int64")
        back = self.model.constant([rows, WIDTH], "int64")
        image = self.one("Reshape", self.pick(), shape)
        mean = self.one("GlobalAveragePool", image)
        hidden = self.one("Relu", self.one("Conv", mean, weight))
        gate = self.one("Sigmoid", self.one("Conv", hidden, weight))
        self.keep(self.one("Reshape", self.one("Mul", image, gate), back))

    def ranged(self) -> None:
        """A tensor by its range."""
        x = self.pick()
        low, high = (self.one(f"Reduce{kind}", x, keepdims=0) for kind in ("Min", "Max"))
        size = self.one("Add", self.one("Sub", high, low), self.model.constant(0.5))
        self.keep(self.one("Div", self.one("Sub", x, low), size))

    def scattered(self) -> None:
        """Rows that are added at shared indices, to zeros or to a tensor."""
        zeros = self.model.constant(np.zeros((self.model.rows, WIDTH)))
        data = self.random.choice([zeros, self.pick()])
        at = self.one("Unsqueeze", self.model.indices(), self.model.constant([1], "int64"))
        self.keep(self.one("ScatterND", data, at, self.pick(), reduction="add"))

    def looked_up(self) -> None:
        """Rows at shared indices."""
        self.keep(self.one("Gather", self.pick(), self.model.indices()))

    def concatenated(self) -> None:
        """Columns of two tensors next to each other, and a GEMM of them or a part."""
        both = self.one("Concat", self.pick(), self.pick(), axis=1)
        if self.random.random() < 0.5:
            self.keep(self.one("MatMul", both, self.model.weight(2 * WIDTH, WIDTH)))
            return
        for part in self.add("Split", both, outputs=2, axis=1, num_outputs=2):
            self.keep(part)

    def condition(self) -> str:
        """A truth value of the data."""
        total = self.one("ReduceSum", self.pick(), keepdims=0)
        return self.one("Less", total, self.model.constant(self.random.uniform(-1, 1)))

    def inner(self, more: Sequence[str] = ()) -> "_Graph":
        """The graph of a body; at least one of its nodes reads a tensor from around it."""
        body = _Graph(self.model, [*self.tensors, *more], self.depth + 1)
        body.fill(2)
        return body

    def control(self) -> None:
        """An If, a Loop or a Scan."""
        self.random.choice([self.branches, self.loop, self.scan])()

    def branches(self) -> None:
        """An If on the data."""
        bodies = {
            branch: helper.make_graph(body.nodes, branch, [], [_info(body.tensors[-1])])
            for branch, body in (("then_branch", self.inner()), ("else_branch", self.inner()))
        }
        self.keep(self.one("If", self.condition(), **bodies))

    def loop(self) -> None:
        """A Loop of a trip count that is known, short or long, or that data decide."""
        names = [self.model.name(stem) for stem in ("step", "going", "state")]
        body = self.inner([names[2]])
        going = body.condition() if self.random.random() < 0.3 else body.one("Identity", names[1])
        graph = helper.make_graph(
            body.nodes,
            "body",
            [
                helper.make_tensor_value_info(names[0], TensorProto.INT64, []),
                helper.make_tensor_value_info(names[1], TensorProto.BOOL, []),
                _info(names[2]),
            ],
            [helper.make_tensor_value_info(going, TensorProto.BOOL, []), _info(body.tensors[-1])],
        )
        start = self.model.constant(True, "bool")
        self.keep(self.one("Loop", self.trips(), start, self.pick(), body=graph))

    def trips(self) -> str:
        """A trip count."""
        if self.random.random() < 0.3:
            return self.model.constant(self.random.choice([0, 2, LONG, LONG]), "int64")
        total = self.one("ReduceSum", self.pick(), keepdims=0)
        number = self.one("Abs", self.one("Cast", total, to=TensorProto.INT64))
        return self.one("Mod", number, self.model.constant(3, "int64"))

    def scan(self) -> None:
        """A Scan over few rows, which is unrolled, or many; its state is a tensor."""
        names, shape = (
            [self.model.name(stem) for stem in ("state", "row")],
            [self.model.rows, WIDTH],
        )
        body = self.inner([names[0]])
        carried = body.one("Tanh", body.one("Add", body.tensors[-1], names[1]))
        graph = helper.make_graph(
            body.nodes,
            "body",
            [_info(names[0], shape), _info(names[1], [WIDTH])],
            [_info(carried, shape)],
        )
        rows = self.pick()
        if self.random.random() < 0.7:
            rows = self.one("Gather", rows, self.model.constant([0] * LONG, "int64"))
        self.keep(self.one("Scan", self.pick(), rows, body=graph, num_scan_inputs=1))


def _info(name: str, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def shared_model(random: Random) -> onnx.ModelProto:
    """A model of inputs `x` and `y`, with control flow between two uses of a weight."""
    model = _Model(random, random.choice(ROWS))
    graph = _Graph(model, ["x", "y"])
    for part in (graph.product, graph.control, graph.product):
        graph.fill(2)
        part()
    names = dict.fromkeys([graph.tensors[-1], graph.tensors[-2], graph.pick()])
    outputs = [graph.one("Identity", name) for name in names]
    shape = [model.rows, WIDTH]
    made = helper.make_graph(
        graph.nodes,
        "shared",
        [_info(name, shape) for name in "xy"],
        [_info(name, shape) for name in outputs],
        model.initializers,
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


@st.composite
def shared_models(draw: st.DrawFn) -> onnx.ModelProto:
    """Models of inputs `x` and `y` of a few rows; see `shared_model`."""
    return shared_model(draw(st.randoms(use_true_random=False)))


def feeds(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Inputs of a model."""
    random = np.random.default_rng(seed)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return {name: random.uniform(-1, 1, shape).astype("float32") for name in "xy"}
