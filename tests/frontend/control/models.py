"""Random models of nested If, Loop and Scan on int64, where every bit is right or wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

WIDTH, LENGTH = 3, 70
VECTOR, NUMBER, FLAG = [WIDTH], list[int](), list[int]()


def _info(name: str, shape: Sequence[int], element: int = TensorProto.INT64) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


@dataclass
class _Model:
    """A model while it is drawn."""

    random: Random
    count: int = 0
    initializers: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value: object, dtype: str = "int64") -> str:
        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name


@dataclass
class _Body:
    """Nodes of a graph, and the vectors that they may read, also from around it."""

    model: _Model
    vectors: list[str]
    depth: int
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [self.model.name("v") for _ in range(outputs)]
        label = self.model.name(op_type)
        self.nodes.append(helper.make_node(op_type, inputs, names, name=label, **attributes))
        return names

    def pick(self) -> str:
        return self.model.random.choice(self.vectors)

    def sum(self) -> str:
        # onnxruntime adds int64 in doubles, which repeated multiplication outgrows.
        small = self.add("Mod", self.pick(), self.model.constant(1000), fmod=1)[0]
        return self.add("ReduceSum", small, self.model.constant([0]), keepdims=0)[0]

    def condition(self) -> str:
        return self.add("Less", self.sum(), self.model.constant(self.model.random.randint(-9, 9)))[
            0
        ]

    def graph(self, name: str, inputs: list[onnx.ValueInfoProto], outputs: list[str],
              flags: int = 0) -> onnx.GraphProto:  # fmt: skip
        infos = [
            _info(o, FLAG, TensorProto.BOOL) if i < flags else _info(o, VECTOR)
            for i, o in enumerate(outputs)
        ]
        return helper.make_graph(self.nodes, name, inputs, infos)

    def inner(self, more: list[str]) -> "_Body":
        return _Body(self.model, [*self.vectors, *more], self.depth + 1)

    def fill(self) -> None:
        """Draw nodes."""
        random = self.model.random
        for _ in range(random.randint(1, 3)):
            kinds = ["binary", "binary", "if", "loop", "rows"][: 5 if self.depth < 2 else 2]
            self.vectors += getattr(self, random.choice(kinds))()

    def binary(self) -> list[str]:
        return self.add(self.model.random.choice(["Add", "Sub", "Mul", "Max"]), self.pick(),
                        self.pick())  # fmt: skip

    def results(self, count: int) -> list[str]:
        """Vectors that a body returns: computed, passed on or constant."""
        choices = [*self.vectors, self.model.constant([1, -2, 3])]
        return [self.add("Identity", name)[0] if self.model.random.random() < 0.5 else name
                for name in (self.model.random.choice(choices) for _ in range(count))]  # fmt: skip

    def branch(self, count: int) -> onnx.GraphProto:
        body = self.inner([])
        body.fill()
        outputs = [body.add("Identity", name)[0] for name in body.results(count)]
        return body.graph(self.model.name("branch"), [], outputs)

    def if_(self) -> list[str]:
        count = self.model.random.randint(1, 2)
        branches = {f"{name}_branch": self.branch(count) for name in ("then", "else")}
        return self.add("If", self.condition(), outputs=count, **branches)

    def loop(self) -> list[str]:
        random, carried = self.model.random, self.model.random.randint(1, 2)
        names = [self.model.name("s") for _ in range(carried)]
        step, going = self.model.name("i"), self.model.name("go")
        body = self.inner(names)
        wide = body.add("Expand", step, self.model.constant(VECTOR))[0]
        body.vectors.append(wide)
        body.fill()
        goes_on = body.condition() if random.random() < 0.5 else body.add("Identity", going)[0]
        outputs = [body.add("Identity", name)[0] for name in body.results(carried)]
        inputs = [_info(step, NUMBER), _info(going, FLAG, TensorProto.BOOL)]
        inputs += [_info(name, VECTOR) for name in names]
        graph = body.graph(self.model.name("body"), inputs, [goes_on, *outputs], flags=1)
        trips = self.add("Mod", self.sum(), self.model.constant(4))[0]
        start = self.condition() if random.random() < 0.3 else self.model.constant(True, "bool")
        first = [self.pick() for _ in range(carried)]
        return self.add("Loop", trips, start, *first, outputs=carried, body=graph)

    def rows(self) -> list[str]:
        random, state, row = self.model.random, self.model.name("s"), self.model.name("r")
        axis, back = random.randint(0, 1), random.randint(0, 1)
        body = self.inner([state, row])
        body.fill()
        outputs = [body.add("Identity", name)[0] for name in body.results(2)]
        inputs = [_info(state, VECTOR), _info(row, VECTOR)]
        graph = body.graph(self.model.name("body"), inputs, outputs)
        sequence = "rows" if axis == 0 else self.add("Transpose", "rows", perm=[1, 0])[0]
        options = {"scan_input_axes": [axis], "scan_input_directions": [back]}
        options |= {"scan_output_directions": [random.randint(0, 1)]}
        last, all_rows = self.add("Scan", self.pick(), sequence, outputs=2, body=graph,
                                  num_scan_inputs=1, **options)  # fmt: skip
        index = self.model.constant(random.randrange(LENGTH))
        return [last, *self.add("Gather", all_rows, index, axis=0)]


setattr(_Body, "if", _Body.if_)


@st.composite
def control_models(draw: st.DrawFn) -> onnx.ModelProto:
    """Models of inputs `x` and `y` int64[3] and `rows` int64[70, 3], with one or two outputs."""
    model = _Model(draw(st.randoms(use_true_random=False)))
    body = _Body(model, ["x", "y"], 0)
    body.fill()
    body.vectors += getattr(body, model.random.choice(["if", "loop", "rows"]))()
    names = [*dict.fromkeys([body.vectors[-1], body.pick()])]
    outputs = [body.add("Identity", name)[0] for name in names]
    inputs = [_info("x", VECTOR), _info("y", VECTOR), _info("rows", [LENGTH, WIDTH])]
    graph = body.graph("main", inputs, outputs)
    graph.initializer.extend(model.initializers)
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
