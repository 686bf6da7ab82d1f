"""Random models: a grower that runs generators of the catalogue, then chooses outputs."""

from collections.abc import Sequence
from functools import partial

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from compiler.target.target import parse_target
from tests.fuzz.case import Case
from tests.fuzz.catalogue import FAMILIES
from tests.fuzz.draw import Draw
from tests.fuzz.grower import Grower
from tests.fuzz.oracle import Value, is_narrow
from tests.fuzz.pipelines import pipeline
from tests.fuzz.precise import Either

NEWEST = onnx.defs.onnx_opset_version()
"""The newest opset of the installed onnx, which may be ahead of a release of onnxruntime."""
OPSETS = [*range(7, 18), *range(18, NEWEST + 1), *range(18, NEWEST + 1), 21, 21]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SEMANTICS = ("onnx", "onnxruntime")
NAMES = sorted(FAMILIES)
EMULATED = ("emu:sm_90:fp32", "emu:sm_90:fp32", "emu:sm_80:fp32", "emu:gfx90a:fp32")
"""What is emulated, in the precision that onnxruntime has."""


def grow(draw: Draw, grower: Grower, count: int, tries: int = 6) -> None:
    """Add about `count` nodes."""
    for _ in range(count * tries):
        if len(grower.model.graph.node) >= count:
            return
        name = draw.choice(NAMES)
        grower.attempt(partial(generate, name))


def generate(name: str, grower: Grower) -> None:
    """Let the generator of an operator add nodes; raises Unsuitable."""
    FAMILIES[name](grower, name)


def finish(draw: Draw, grower: Grower, most: int = 4) -> onnx.ModelProto:
    """The model with outputs: results that nothing uses first, then others."""
    graph = grower.model.graph
    made = [name for node in graph.node if node.op_type != "Constant" for name in node.output]
    made = [name for name in made if name and _may_leave(grower.values[name])]
    used = {name for node in graph.node for name in node.input}
    leaves = [name for name in made if name not in used]
    draw.shuffle(leaves)
    chosen = leaves[:most]
    chosen += draw.sample(made, min(len(made), max(0, draw.randint(0, most) - len(chosen))))
    for name in dict.fromkeys(chosen):
        array = grower.values[name]
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.output.append(helper.make_tensor_value_info(name, element, array.shape))
    return grower.model


def _may_leave(value: Value) -> bool:
    """Whether a value may be an output: no sequence, nor of a type for constants only."""
    if isinstance(value, list):
        return False
    return not is_narrow(value) or value.dtype == BFLOAT16


def random_graph(seed: int, target: str, largest: int = 40) -> Case | None:
    """A model of 5 to 40 nodes (few on the emulator), or None where nothing grew."""
    draw = Draw(seed)
    draw.extremes()
    grower = Grower(draw, draw.choice(OPSETS))
    grower.semantics = draw.choice(SEMANTICS)
    most = min(largest, 6 if parse_target(target).backend == "emu" else 40)
    count = min(most, draw.choice([5, 5, 6, 8, 10, 12, 20, 40]))
    grow(draw, grower, count)
    return make_case("graphs", seed, draw, grower, target, pipeline(draw))


def random_node(
    seed: int, target: str, constants: float, kind: str, names: Sequence[str] = NAMES
) -> Case | None:
    """One generated node, its inputs all constants, or none, or some of them.

    Where onnxruntime has no kernel for its types the interpreter says what it gives; not of a node
    that will be broken, as onnxruntime judges that.
    """
    draw = Draw(seed)
    draw.extremes()
    grower = Grower(draw, draw.choice(OPSETS), constants)
    if kind != "invalid":
        grower.oracle = Either
    grower.semantics = draw.choice(SEMANTICS)
    grower.most_inputs = 16
    name = draw.choice(names)
    if not any(grower.attempt(partial(generate, name)) for _ in range(8)):
        return None
    return make_case(kind, seed, draw, grower, target, None)


def random_constants(seed: int, target: str) -> Case | None:
    """Up to eight nodes whose inputs are all constants: what they compute is folded."""
    draw = Draw(seed)
    draw.extremes()
    grower = Grower(draw, draw.choice(OPSETS), 1.0, reuse=0.5)
    grower.semantics = draw.choice(SEMANTICS)
    grow(draw, grower, 8)
    return make_case("folding", seed, draw, grower, target, None, most=8)


def make_case(
    kind: str,
    seed: int,
    draw: Draw,
    grower: Grower,
    target: str,
    spec: str | None,
    most: int = 4,
) -> Case | None:
    """The case of what has grown, with outputs; None where nothing grew."""
    model = finish(draw, grower, most)
    if not model.graph.output:
        return None
    threads = draw.choice([1, 2, 3])
    if target == "emu":
        target = draw.choice(EMULATED)
    return Case(
        kind,
        seed,
        model.SerializeToString(),
        grower.feeds,
        target=target,
        pipeline=spec,
        threads=threads,
        semantics=grower.semantics,
        check_indices=seed % 4 == 0,
    )
