"""Functions of a model that have the names of operators."""

import onnx

from compiler.frontend.domains import all_nodes_of, domain_of, opsets_of
from compiler.frontend.evaluate import schema_of
from compiler.frontend.rules.contrib.registry import CONTRIB
from compiler.frontend.semantics.choice import Semantics
from compiler.frontend.semantics.table import FUNCTION_NAMED_AS_OPERATOR


def with_chosen_functions(model: onnx.ModelProto, semantics: Semantics) -> onnx.ModelProto:
    """The model, or a copy without the functions in whose place onnxruntime computes an operator.

    Warns of the nodes that call such a function, if nobody chose.
    """
    opsets = opsets_of(model.opset_import)
    shadowing = [f for f in model.functions if _has_operator(f, opsets.get(domain_of(f), 0))]
    keys = {(domain_of(f), f.name, f.overload) for f in shadowing}
    way = semantics.way(FUNCTION_NAMED_AS_OPERATOR)
    if way == "onnxruntime" and shadowing:
        kept = [function for function in model.functions if function not in shadowing]
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.functions[:]
        copy.functions.extend(kept)
        return copy
    if way is None and shadowing:
        for node in all_nodes_of(model):
            if (domain_of(node), node.op_type, node.overload) in keys:
                name = node.name or f"{node.op_type}_{node.output[0]}"
                semantics.warn(name, node.op_type, FUNCTION_NAMED_AS_OPERATOR)
    return model


def _has_operator(function: onnx.FunctionProto, opset: int) -> bool:
    """Whether onnxruntime knows an operator with the name of a function; it refuses old ones."""
    schema = schema_of(function.name, opset, domain_of(function))
    contributed = (domain_of(function), function.name) in CONTRIB
    return contributed or (schema is not None and not schema.deprecated)
