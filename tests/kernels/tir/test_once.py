"""Numbers that simplification finds to be constant, and whose bits are read."""

import numpy
import pytest
from onnx import TensorProto, helper, parser

import compiler

TYPES = {"int32": TensorProto.INT32, "int64": TensorProto.INT64, "uint64": TensorProto.UINT64}


@pytest.mark.parametrize("target", ["cpu", "emu"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("constant", [0, 5])
def test_an_integer_that_is_always_the_same_is_read_by_several(
    target: str, dtype: str, constant: int
):
    value = numpy.array(constant).astype(dtype)
    nodes = [
        helper.make_node("Sub", ["x", "x"], ["zero"]),
        helper.make_node("Add", ["zero", "constant"], ["same"]),
        helper.make_node("Less", ["same", "same"], ["less"]),
        helper.make_node("Add", ["same", "x"], ["sum"]),
    ]
    x, total = (helper.make_tensor_value_info(n, TYPES[dtype], [9]) for n in ("x", "sum"))
    less = helper.make_tensor_value_info("less", TensorProto.BOOL, [9])
    constants = [helper.make_tensor("constant", TYPES[dtype], [], [value.item()])]
    graph = helper.make_graph(nodes, "same", [x], [less, total], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    data = numpy.arange(9).astype(dtype)
    results = compiler.compile(model, target=target).run({"x": data})
    assert not results["less"].any()
    numpy.testing.assert_array_equal(results["sum"], data + value)


@pytest.mark.parametrize("target", ["cpu", "emu"])
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
def test_what_is_computed_from_such_integers_is_read_by_several(target: str, operator: str):
    text = f"""<ir_version: 10, opset_import: ["": 20]>
        same (int64[2,3] x, bool[2,3] c) => (int64[2,3] y) <int64 beyond = {{7}}> {{
            zero = Trilu (x, beyond)
            twice = {operator} (zero, zero)
            y = Where (c, twice, twice)
        }}"""
    inputs = {"x": numpy.ones((2, 3), numpy.int64), "c": numpy.eye(2, 3, dtype=bool)}
    outputs = compiler.compile(parser.parse_model(text), target=target).run(inputs)
    numpy.testing.assert_array_equal(outputs["y"], 0)


@pytest.mark.parametrize("target", ["cpu", "emu"])
@pytest.mark.parametrize("dtype", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_a_float_that_is_always_the_same_becomes_a_float8(target: str, dtype: str):
    text = f"""<ir_version: 10, opset_import: ["": 20]>
        same (bool[9] c) => (float[9] y) <float k = {{1.5}}> {{
            x = Where (c, k, k)
            byte = Cast <to = {TensorProto.DataType.Value(dtype)}> (x)
            y = Cast <to = 1> (byte)
        }}"""
    module = compiler.compile(parser.parse_model(text), target=target)
    numpy.testing.assert_array_equal(module.run({"c": numpy.eye(3, dtype=bool).ravel()})["y"], 1.5)
