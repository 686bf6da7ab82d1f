"""Random models whose tensors are in files, or sparse, wherever ONNX's format has tensors."""

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
from onnx import numpy_helper

from tests.externals import files_of, sparse
from tests.fuzz.case import Case
from tests.fuzz.draw import Draw
from tests.fuzz.graphs import NAMES, OPSETS, generate, make_case
from tests.fuzz.grower import Grower
from tests.fuzz.pipelines import pipeline

MODEL = "outside.onnx"
"""The model of a case's files: that of the case with its tensors elsewhere."""

WITH_TENSORS = ("If", "Loop", "Scan", "ConstantOfShape", "Function")
"""Operators whose bodies and attributes have tensors."""


def random_outside(seed: int, target: str) -> Case | None:
    """A few nodes, among them control flow, and the same model with tensors in files."""
    draw = Draw(seed)
    grower = Grower(draw, draw.choice([v for v in OPSETS if v >= 11]), constants=0.7)
    for _ in range(draw.randint(2, 5)):
        name = draw.choice(WITH_TENSORS) if draw.chance(0.6) else draw.choice(NAMES)
        grower.attempt(partial(generate, name))
    case = make_case("outside", seed, draw, grower, target, pipeline(draw))
    if case is None:
        return None
    share = draw.choice([0.5, 1.0])
    model = _sparse(case.proto, lambda: draw.chance(0.3))
    model, files = files_of(model, lambda: draw.chance(share))
    return case.changed(files={MODEL: model.SerializeToString(), **files})


def _sparse(model: onnx.ModelProto, chosen: Callable[[], bool]) -> onnx.ModelProto:
    """The model with the chosen dense initializers as sparse ones."""
    graph = model.graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    names = [n for n, a in arrays.items() if a.ndim and a.size and a.dtype.kind in "fiu"]
    names = [name for name in names if chosen()]
    graph.sparse_initializer.extend(sparse(name, np.asarray(arrays[name])) for name in names)
    kept = [tensor for tensor in graph.initializer if tensor.name not in names]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return model
