"""Kernels at the boundary are those that read inputs or write outputs, also through views."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend.importing import import_model
from compiler.graph.boundary import boundary_kernels
from compiler.ir.dataflow import GraphOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner


def test_views_lead_to_inputs_and_outputs():
    names, sizes = "abcd", (8, 7, 6, 5, 8)
    nodes = [helper.make_node("Reshape", ["x", "to"], ["flat"])]
    values = ["flat", *(f"t{name}" for name in names)]
    nodes += [
        helper.make_node("MatMul", [source, f"w{name}"], [f"t{name}"], name=name)
        for source, name in zip(values, names, strict=False)
    ]
    nodes.append(helper.make_node("Reshape", ["td", "back"], ["y"]))
    weights = [
        numpy_helper.from_array(np.ones(sizes[i : i + 2], np.float32), f"w{n}")
        for i, n in enumerate(names)
    ]
    weights += [
        numpy_helper.from_array(np.array(shape), name)
        for name, shape in (("to", [8, 8]), ("back", [4, 16]))
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 16]) for n in "xy"]
    graph = helper.make_graph(nodes, "line", info[:1], info[1:], weights)
    opset = helper.make_opsetid("", 18)
    module = import_model(helper.make_model(graph, opset_imports=[opset], ir_version=10)).module
    Runner().run(module, parse("canonicalize,fuse-operators"))
    (whole,) = module.ops
    assert isinstance(whole, GraphOp)
    by_node = {
        op.node_name: group.kernel.data
        for group in whole.groups
        for op in group.operators
        if group.kernel is not None
    }
    assert len(set(by_node.values())) == 4
    assert boundary_kernels(whole) == {by_node["a"], by_node["d"]}
