"""Import of an ONNX model as a `dataflow.graph` and a weight store."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import ModelError, UnsupportedOperatorError
from compiler.frontend.builder import supported
from compiler.frontend.domains import opsets_of
from compiler.frontend.evaluate import dtype_name
from compiler.frontend.external import ModelFolder
from compiler.frontend.importing.chosen_functions import with_chosen_functions
from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.specialise import Problem, Scope, Specialiser, required
from compiler.frontend.indices import check_output_names
from compiler.frontend.load import check_model, folder_of, read_model
from compiler.frontend.semantics import ONNX, Semantics
from compiler.frontend.shapes import resolve_shapes
from compiler.frontend.sources.checking import check_declared, declared_types, shapes_are_declared
from compiler.frontend.unsupported import Unsupported
from compiler.graph.fusion.whole import Whole, no_kernels
from compiler.ir.emit import emit
from compiler.net.building.simplify import holds_codes, simplify_graph
from compiler.net.graph import Graph, Value
from compiler.support.collector import collector_paused

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Imported:
    """A module with one `dataflow.graph @main` of static shapes, and its weights by key."""

    module: ModuleOp
    weights: dict[str, np.ndarray]


def import_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    input_shapes: Shapes | None = None,
    check_indices: bool = False,
    regions: bool = False,
    has_kernel: Callable[[Whole], bool] = no_kernels,
    semantics: Semantics = ONNX,
    folder: ModelFolder | None = None,
) -> Imported:
    """Import an ONNX model; see `import_graph`."""
    options = check_indices, regions, has_kernel, semantics, folder
    return emitted(import_graph(model, input_shapes, *options))


@collector_paused()
def import_graph(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    input_shapes: Shapes | None = None,
    check_indices: bool = False,
    regions: bool = False,
    has_kernel: Callable[[Whole], bool] = no_kernels,
    semantics: Semantics = ONNX,
    folder: ModelFolder | None = None,
) -> Graph:
    """The graph of an ONNX model, with `input_shapes` for inputs whose dimensions are symbolic.

    With `check_indices` the graph has further outputs, whose names begin with `IN_RANGE`. With
    `regions` an If or a Loop that only a run decides, or a long one, stays one in the graph. A
    recurrence or transform that `has_kernel` stays one operator. `semantics` says where results are
    onnxruntime's, and warns where nobody chose. `folder` opens the files of the model's data,
    which stay mapped: who has computed with them asks whether they were written to.

    Raises ModelError (not ONNX, truncated, invalid, data missing), ShapeError (input shapes
    missing or contradicting) and UnsupportedOperatorError (with every such operator).
    """
    folder = folder or folder_of(model)
    proto = read_model(model, folder)
    check_model(proto)
    proto = with_chosen_functions(proto, semantics)
    context = ModelContext(
        opsets=opsets_of(proto.opset_import),
        functions=proto.functions,
        folder=folder,
        check_indices=check_indices,
        regions=regions,
        has_kernel=has_kernel,
        semantics=semantics,
    )
    return _specialised(proto.graph, input_shapes or {}, context)


@collector_paused()
def emitted(graph: Graph) -> Imported:
    """The module and the weights of a graph, which is simplified in place.

    One with quantised operators is when these are lowered.
    """
    if not holds_codes(graph):
        simplify_graph(graph)
    return Imported(*emit(graph))


def _specialised(model: onnx.GraphProto, shapes: Shapes, context: ModelContext) -> Graph:
    """The graph of a model for fixed input shapes."""
    scope = Scope(context.opsets)
    graph = Graph([])
    specialiser = Specialiser(context, graph, _remedy(shapes))
    specialiser.initialise(model, scope)
    infos = [info for info in model.input if info.name not in scope.values]
    resolved = resolve_shapes([i for i in infos if i.type.HasField("tensor_type")], shapes)
    for info in infos:
        value, error = _input(info, resolved)
        scope.values[info.name] = value
        graph.inputs.append(value)
        if error:
            specialiser.problems.append(Problem(info.name, "input", "of the model", error))
    specialiser.shapes_bind = shapes_are_declared(infos)
    scope.declared = declared_types(model, specialiser.shapes_bind)
    names = _output_names(model)
    specialiser.walk(model.node, scope, names)
    graph.outputs = [(name, required(scope[name])) for name in names]
    for name, value in graph.outputs:
        check_declared(name, value, scope.declared)
    check_output_names(graph)
    if context.check_indices:
        specialiser.watch.add_to(graph)
    _check_outputs(graph, specialiser.problems)
    _raise_all(specialiser.problems)
    return graph


def _remedy(shapes: Shapes) -> str:
    """The remedy in errors about nodes whose inputs do not fit."""
    if not shapes:
        return "correct the model, or export it again"
    given = ", ".join(f"{name}={list(shape)}" for name, shape in shapes.items())
    return (
        f"check the given shapes {given} (input_shapes, or --input-shape on the command line),"
        " or export the model again"
    )


def _input(
    info: onnx.ValueInfoProto, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Value, Unsupported | None]:
    """The value of a model's input: unknown, with the reason, if its type cannot be compiled."""
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        reason = f"inputs of {str(kind).replace('_type', '')} type cannot be compiled"
        return Value(info.name), Unsupported(reason, "make it a tensor")
    dtype = dtype_name(info.type.tensor_type.elem_type)
    value = Value(info.name, dtype, shapes[info.name])
    try:
        supported(value)
    except Unsupported as error:
        return Value(info.name), error
    return value, None


def _output_names(graph: onnx.GraphProto) -> list[str]:
    """The names of a graph's outputs; one listed twice is a single output, as in onnxruntime."""
    declared: dict[str, onnx.TypeProto] = {}
    for output in graph.output:
        if declared.setdefault(output.name, output.type) != output.type:
            raise ModelError(
                f"the output {output.name!r} is listed twice, with different types: "
                "give each output a name that no other has"
            )
    return list(declared)


def _check_outputs(graph: Graph, problems: list[Problem]) -> None:
    for name, value in graph.outputs:
        try:
            if not value.unknown:
                supported(value)
        except Unsupported as error:
            problems.append(Problem(name, "output", "of the model", error))


def _raise_all(problems: Sequence[Problem]) -> None:
    if problems:
        count = f"{len(problems)} operators" if len(problems) > 1 else "1 operator"
        lines = "\n".join(str(problem) for problem in problems)
        raise UnsupportedOperatorError(f"{count} cannot be compiled:\n{lines}")
