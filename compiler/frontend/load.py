"""Reading and checking ONNX models, without their tensors."""

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import onnx
from google.protobuf.json_format import ParseError as JsonError
from google.protobuf.message import DecodeError
from google.protobuf.message import Error as MessageError
from google.protobuf.text_format import ParseError as TextError
from onnx import helper

from compiler.errors import ModelError
from compiler.frontend.domains import domain_of, opsets_of, with_one_default_domain
from compiler.frontend.external import ModelFolder
from compiler.frontend.hoisting import with_hoisted_tensors
from compiler.frontend.node_order import in_order
from compiler.frontend.tensors import bring_inside, initializers_of, inner_tensors
from compiler.support.caches import check_regular

NEWEST_OPSET = onnx.defs.onnx_opset_version()

FIRST_OVERRIDABLE = 4
"""The first version of ONNX's format in which an initializer may be overridden."""

_MOST_CHECKED_BYTES = 1 << 20
"""The bytes of a tensor above which onnx's checker, which copies the model, is not given them."""


_NAMING_TYPES = ("dtype", "output_datatype", "output_dtype", "to")
"""The attributes of ONNX's operators that are numbers of element types."""


def read_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, folder: ModelFolder | None = None
) -> onnx.ModelProto:
    """The model's protobuf, its nodes in order; raises ModelError.

    The initializers of the main graph, which may be larger than a protobuf, stay in their files,
    and so do large tensors of bodies.
    `folder` opens the files of other tensors, and keeps them; without it they are opened anew.
    """
    try:
        loaded = with_hoisted_tensors(_loaded(model))
        bring_inside(inner_tensors(loaded), folder or folder_of(model))
        return in_order(with_one_default_domain(loaded))
    except (ValueError, TypeError, MessageError, RecursionError) as error:
        raise ModelError(f"the model is damaged ({error}): export or download it again") from error


def folder_of(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
) -> ModelFolder | None:
    """The folder of a model's external data; None if the model is not a path."""
    return ModelFolder.of(model) if isinstance(model, str | os.PathLike) else None


def _loaded(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    try:
        if isinstance(model, bytes):
            return onnx.load_model_from_string(model)
        check_regular(model)
        return onnx.load(os.fspath(model), load_external_data=False)
    except OSError as error:
        raise ModelError(f"cannot read {os.fspath(model)!r}: {error.strerror or error}") from error
    except (DecodeError, JsonError, TextError, UnicodeDecodeError, onnx.parser.ParseError) as error:
        what = "the given bytes" if isinstance(model, bytes) else repr(os.fspath(model))
        raise ModelError(
            f"{what} is not an ONNX model, or is truncated: export or download it again"
        ) from error


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model without the dense initializers of its main graph."""
    light = onnx.ModelProto()
    _copy_fields(model, light, "graph")
    _copy_fields(model.graph, light.graph, "initializer")
    return light


def _copy_fields(message: Any, target: Any, *left_out: str) -> None:
    """Copy all fields of a message but some to an empty one."""
    for field, value in message.ListFields():
        if field.name in left_out:
            continue
        if field.is_repeated:
            getattr(target, field.name).extend(value)
        elif isinstance(value, str | bytes | int):
            setattr(target, field.name, value)
        else:
            getattr(target, field.name).CopyFrom(value)


def _without_tensors(graph: onnx.GraphProto) -> onnx.GraphProto:
    """The graph with its initializers turned into inputs, which is small."""
    light = onnx.GraphProto()
    _copy_fields(graph, light, "initializer", "sparse_initializer")
    for info in (*light.input, *light.output):
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.shape.SetInParent()  # the checker insists on some shape
    present = {i.name for i in graph.input}
    for name, (data_type, dims) in initializers_of(graph).items():
        if name not in present:
            light.input.append(helper.make_tensor_value_info(name, data_type, dims))
    return light


def _check_graph_names(graph: onnx.GraphProto) -> None:
    """Raise TypeError for a name that is not a str, ValueError for no type, also in bodies."""
    named = (*graph.input, *graph.output, *graph.value_info)
    _check_texts((graph.name, *(value.name for value in named)))
    _check_texts(dim.dim_param for value in named for dim in value.type.tensor_type.shape.dim)
    for value in named:
        _check_element_type(value.name, value.type)
    _check_names(graph.node)


def _check_element_type(name: str, type: onnx.TypeProto) -> None:
    """Raise ValueError for a declared element type that is not ONNX's; 0 leaves it open."""
    match type.WhichOneof("value"):
        case "sequence_type":
            _check_element_type(name, type.sequence_type.elem_type)
        case "optional_type":
            _check_element_type(name, type.optional_type.elem_type)
        case "map_type":
            _check_element_type(name, type.map_type.value_type)
        case _:
            element = type.tensor_type.elem_type
            if element not in onnx.TensorProto.DataType.values():
                raise ValueError(
                    f"the type of {name!r} has the number {element}, which onnx"
                    f" {onnx.__version__} does not know"
                )


def _check_names(nodes: Iterable[onnx.NodeProto]) -> None:
    """Raise TypeError for a name that is not a str, ModelError for no type, also in bodies."""
    for node in nodes:
        _check_texts((node.name, node.op_type, node.domain, *node.input, *node.output))
        _check_texts(attribute.name for attribute in node.attribute)
        for attribute in node.attribute:
            _check_named_type(node, attribute)
            for body in (attribute.g, *attribute.graphs):
                _check_graph_names(body)


def _check_named_type(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
    """Raise ModelError for an attribute that names an element type, and none of ONNX's.

    Where the default of an output's type is 0, it means that of another input.
    """
    is_number = attribute.type == onnx.AttributeProto.INT and not attribute.ref_attr_name
    if domain_of(node) or attribute.name not in _NAMING_TYPES or not is_number:
        return
    least = 0 if attribute.name == "output_dtype" else 1
    if attribute.i not in onnx.TensorProto.DataType.values()[least:]:
        raise ModelError(
            f"{node.op_type} {node.name or ''.join(node.output[:1])!r}: its attribute"
            f" {attribute.name!r} is {attribute.i}, which is not an element type; export the model"
            " again"
        )


def _check_texts(names: Iterable[str | bytes]) -> None:
    # protobuf returns a name that is not UTF-8 as its bytes
    if any(isinstance(name, bytes) for name in names):
        raise TypeError("a name is not text")


def _checkable(node: onnx.NodeProto, opsets: dict[str, int]) -> bool:
    """Whether the checker accepts the operator; it rejects deprecated ones too."""
    version = opsets.get("", NEWEST_OPSET)
    if not onnx.defs.has(node.op_type, version, ""):
        return False
    schema = onnx.defs.get_schema(node.op_type, version, "")
    if schema.deprecated:
        types = {name: str(a.type).rpartition(".")[2] for name, a in schema.attributes.items()}
        for attribute in node.attribute:
            found = onnx.AttributeProto.AttributeType.Name(attribute.type)
            if types.get(attribute.name, found) != found:
                raise ModelError(
                    f"{node.op_type} {node.name!r} has an attribute {attribute.name!r} of type "
                    f"{found}, not {types[attribute.name]}: export it again"
                )
    return not schema.deprecated


def _hide_unknown(nodes: Iterable[onnx.NodeProto], opsets: dict[str, int], hidden: str) -> None:
    """Move nodes that the checker rejects to another domain: import reports them all at once."""
    for node in nodes:
        if not domain_of(node) and not _checkable(node, opsets):
            node.domain = hidden
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                _hide_unknown(body.node, opsets, hidden)


def _check_opsets(opsets: dict[str, int], what: str = "the model") -> None:
    version = opsets.get("", NEWEST_OPSET)  # a model of other domains need not import it
    if version < 1:
        raise ModelError(f"{what} uses opset {version}, the first is 1: export it again")
    if version > NEWEST_OPSET:
        raise ModelError(
            f"{what} uses opset {version}; onnx {onnx.__version__} knows up to {NEWEST_OPSET}: "
            "upgrade the onnx package, or export the model with an older opset"
        )


def check_model(model: onnx.ModelProto) -> None:
    """Raise ModelError unless the model is valid ONNX of an opset that can be compiled."""
    if not model.HasField("graph"):
        raise ModelError("the model holds no graph: it is not an ONNX model, or is truncated")
    opsets = opsets_of(model.opset_import)
    _check_opsets(opsets)
    try:
        _check_texts((*opsets, model.domain, model.doc_string))
        _check_texts((model.producer_name, model.producer_version))
        light = _checkable_model(model, opsets)
        for part in (light, *_functions_of_other_opsets(light)):
            onnx.checker.check_model(part)
    except onnx.checker.ValidationError as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"the model is not valid ONNX: {reason}; export it again") from error
    except (ValueError, TypeError, MessageError, RecursionError) as error:
        # names that are not text, or bodies nested deeper than protobuf reads
        raise ModelError(f"the model is damaged ({error}): export or download it again") from error


def _checkable_model(model: onnx.ModelProto, opsets: dict[str, int]) -> onnx.ModelProto:
    """The model without its tensors and operators that import reports instead of the checker."""
    light = onnx.ModelProto(ir_version=model.ir_version, functions=model.functions)
    light.opset_import.extend(model.opset_import)
    light.graph.CopyFrom(_without_tensors(model.graph))
    for tensor in inner_tensors(light):
        if len(tensor.raw_data) > _MOST_CHECKED_BYTES:
            tensor.CopyFrom(
                onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0])
            )
    _check_graph_names(light.graph)
    hidden = "unknown.operators"
    light.opset_import.append(helper.make_opsetid(hidden, 1))
    _hide_unknown(light.graph.node, opsets, hidden)
    for function in light.functions:
        _check_texts((function.name, function.domain, *function.input, *function.output))
        _check_texts((*function.attribute, *(one.domain for one in function.opset_import)))
        _check_names(function.node)
        _hide_unknown(function.node, opsets_of(function.opset_import), hidden)
        function.opset_import.append(helper.make_opsetid(hidden, 1))
    return light


def _functions_of_other_opsets(light: onnx.ModelProto) -> list[onnx.ModelProto]:
    """The functions that import other versions than the model, each moved to a separate model.

    ONNX's checker wants the schemas of both versions to be one, which inlining needs and runtimes
    do not.
    """
    opsets = opsets_of(light.opset_import)
    others = list[onnx.ModelProto]()
    graph = helper.make_graph([], "functions", [], [])
    for function in light.functions:
        imports = opsets_of(function.opset_import)
        if any(opsets.get(domain, version) != version for domain, version in imports.items()):
            _check_opsets(imports, f"the function {function.name!r}")
            model = onnx.ModelProto(ir_version=light.ir_version, graph=graph, functions=[function])
            model.opset_import.extend(function.opset_import)
            others.append(model)
    moved = [model.functions[0] for model in others]
    same = [function for function in light.functions if function not in moved]
    del light.functions[:]
    light.functions.extend(same)
    return others


def overridable(model: onnx.ModelProto) -> Sequence[onnx.ValueInfoProto]:
    """The inputs whose default is an initializer; before IR version 4 none may be overridden."""
    if model.ir_version < FIRST_OVERRIDABLE:
        return []
    initial = initializers_of(model.graph)
    return [info for info in model.graph.input if info.name in initial]


def whole_copy(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, proto: onnx.ModelProto
) -> onnx.ModelProto:
    """A copy of a model's protobuf that holds the data of its files, too."""
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    bring_inside(whole.graph.initializer, folder_of(model))
    return whole


def without_defaults(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, names: Collection[str]
) -> str | os.PathLike[str] | bytes | onnx.ModelProto:
    """The model in which the named initializers are inputs alone, which each run gives.

    Raises ModelError for a name that no input with a default has.
    """
    if not names:
        return model
    proto = read_model(model)
    known = [info.name for info in overridable(proto)]
    wanted = {*names}
    if unknown := sorted(wanted - {*known}):
        raise ModelError(
            f"the model has no initializer {unknown[0]!r} that is an input too; such are"
            f" {', '.join(known) or 'none'}: export it with keep_initializers_as_inputs, in IR"
            f" version {FIRST_OVERRIDABLE} or later"
        )
    whole = whole_copy(model, proto)
    kept = [tensor for tensor in whole.graph.initializer if tensor.name not in wanted]
    del whole.graph.initializer[:]
    whole.graph.initializer.extend(kept)
    sparse = [s for s in whole.graph.sparse_initializer if s.values.name not in wanted]
    del whole.graph.sparse_initializer[:]
    whole.graph.sparse_initializer.extend(sparse)
    return whole
