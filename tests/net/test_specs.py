"""Every entry of the table, on uses that its generator draws.

Its shapes and types against its meaning in numpy and against ONNX's inference, its kernel against
its meaning, and the node that its dump is read back as. FLOWLOOM_SPEC_CASES asks for another number
of uses of each operator.
"""

import os
from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from compiler.errors import KernelError
from compiler.frontend.evaluate import infer_types
from compiler.frontend.export import export_model
from compiler.frontend.importing import import_model
from compiler.ir.dataflow import OperatorOp
from compiler.ir.values import attributes_of
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.group import Group, TensorInfo
from compiler.net.graph import constant
from compiler.net.operators import OPERATORS, KnownTensor
from compiler.net.operators.canonical import infer_onnx as infer
from compiler.net.operators.ranges import PARTIAL_RANGES
from compiler.target.target import parse_gpu
from compiler.tensors.dtypes import INTEGERS, numpy_dtype
from tests import movement_cases, operator_cases, own_cases
from tests.frontend.interpreter.comparison import differences, evaluate, model_of
from tests.kernels import harness
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.operator_cases import OPSET, Array, Case, Draw

CASES = int(os.environ.get("FLOWLOOM_SPEC_CASES", "8"))
KERNELS = max(1, CASES // 4)
"""Kernels take a thousand times as long as the other checks."""

SOME_ON_GPUS = "Recurrence"
"""The operator of which GPUs have kernels for some sizes alone, which have tests of their own."""

GENERATORS = {
    **operator_cases.FAMILIES,
    **movement_cases.FAMILIES,
    **own_cases.FAMILIES,
}
OF_ONNX = sorted(name for name, entry in OPERATORS.items() if onnx.defs.has(name, entry.domain))
KNOWS_LESS = {"GroupNormalization", "MeanVarianceNormalization", "OneHot"}
"""Operators whose shape onnx does not infer from all that decides it."""


@cache
def all_drawn() -> dict[str, list[list[Case]]]:
    """Every use that each generator of an operator draws, by seed."""
    found: dict[str, list[list[Case]]] = defaultdict(list)
    with np.errstate(all="ignore"):
        for generator in GENERATORS.values():
            own: dict[str, list[Case]] = defaultdict(list)
            for seed in range(40 * CASES):
                case = generator(Draw(seed))
                own[case.op_type].append(case)
            for name, cases in own.items():
                found[name].append(cases)
    return found


@cache
def drawn() -> dict[str, list[Case]]:
    """Uses of each operator, of which the first ones are those of the least seeds."""
    return {
        name: [case for cases in generators for case in cases[:CASES]]
        for name, generators in all_drawn().items()
    }


def numbers_of_integers(op_type: str) -> set[str]:
    """The attributes that are floats of an operator whose data may be integers."""
    entry = OPERATORS[op_type]
    if not entry.dtypes(0) & INTEGERS:
        return set()
    return {name for name, attribute in entry.attributes.items() if attribute.kind == "float"}


OF_INTEGERS = sorted(name for name in OPERATORS if numbers_of_integers(name))


def fractions_of_integers(op_type: str) -> dict[str, list[Case]]:
    """The uses in which integers meet a fraction, by the attribute."""
    uses: dict[str, list[Case]] = defaultdict(list)
    for case in (case for cases in all_drawn()[op_type] for case in cases):
        if case.inputs[0] is None or case.inputs[0].dtype.name not in INTEGERS:
            continue
        for name in numbers_of_integers(op_type):
            if not float(case.attributes.get(name, 0)).is_integer():
                uses[name].append(case)
    return uses


def operands(case: Case) -> list[KnownTensor | None]:
    """The inputs; those that decide shapes have their values."""
    return [
        None if a is None else KnownTensor(a.dtype.name, a.shape, a if i in case.fixed else None)
        for i, a in enumerate(case.inputs)
    ]


def results(case: Case) -> list[Array]:
    """What the operator computes."""
    with np.errstate(all="ignore"):
        return [np.asarray(array) for array in evaluate(case)]


def test_generators_draw_every_operator_of_the_table():
    assert drawn().keys() == OPERATORS.keys()


@pytest.mark.parametrize("op_type", sorted(OPERATORS))
def test_results_have_the_types_of_the_entry(op_type: str):
    for case in drawn()[op_type]:
        types = infer(op_type, operands(case), case.attributes, case.outputs)
        found = results(case)
        assert [(t.dtype, t.shape) for t in types] == [(a.dtype.name, a.shape) for a in found]


@pytest.mark.parametrize("op_type", sorted({*OF_ONNX} - KNOWS_LESS))
def test_onnx_infers_the_types_of_the_entry(op_type: str):
    for case in drawn()[op_type]:
        inputs = [None if a is None else constant("x", np.asarray(a)) for a in case.inputs]
        names = [f"o{i}" for i in range(case.outputs)]
        types = infer_types(op_type, inputs, case.attributes, names, OPSET)
        own = infer(op_type, operands(case), case.attributes, case.outputs)
        for type, wanted in zip(types, own, strict=True):
            tensor = type.tensor_type
            assert onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name == wanted.dtype
            assert tuple(d.dim_value for d in tensor.shape.dim) == wanted.shape


def _nodes(model: onnx.ModelProto) -> tuple[list[Any], onnx.ModelProto]:
    """The operators of a model as it is imported, and the dump of them."""
    imported = import_model(model)
    nodes = [
        (op.type_name, attributes_of(op), [*map(str, op.result_types)])
        for op in imported.module.walk()
        if isinstance(op, OperatorOp)
    ]
    return nodes, export_model(imported.module, imported.weights)


def fixed_model(case: Case) -> onnx.ModelProto:
    """A model of one use, in which inputs that decide shapes are constants."""
    model = model_of(case)
    types = infer(case.op_type, operands(case), case.attributes, case.outputs)
    for info, type in zip(model.graph.output, types, strict=True):
        element = onnx.helper.np_dtype_to_tensor_dtype(numpy_dtype(type.dtype))
        info.CopyFrom(onnx.helper.make_tensor_value_info(info.name, element, type.shape))
    for index in sorted(case.fixed):
        array = case.inputs[index] if index < len(case.inputs) else None
        if array is not None:
            initial = numpy_helper.from_array(np.ascontiguousarray(array), f"i{index}")
            model.graph.initializer.append(initial)
            (info,) = (i for i in model.graph.input if i.name == f"i{index}")
            model.graph.input.remove(info)
    return model


@pytest.mark.parametrize("op_type", OF_ONNX)
def test_a_dump_is_read_back_as_the_same_nodes(op_type: str):
    for case in drawn()[op_type][: CASES // 2]:
        first, dump = _nodes(fixed_model(case))
        second, _ = _nodes(dump)
        assert second == first


def grouped(case: Case) -> tuple[Group, list[Array]]:
    """A use as the group of a kernel, and the arrays that it reads."""
    infos = [TensorInfo(array.dtype.name, array.shape) for array in results(case)]
    own = case.canonical
    fixed = OPERATORS[case.op_type].structural
    return harness.single(case.op_type, own.inputs, infos, own.attributes, constants=fixed)


@pytest.mark.parametrize("op_type", sorted(OPERATORS.keys()))
def test_a_kernel_computes_what_the_entry_means(op_type: str):
    explicit = [c for c in drawn()[op_type] if c.attributes.get("auto_pad", "NOTSET") == "NOTSET"]
    for case in explicit[:KERNELS]:
        group, arrays = grouped(case)
        assert not differences(harness.evaluate_once(group, arrays), results(case)), case


@pytest.mark.parametrize("op_type", OF_INTEGERS)
def test_generators_draw_fractions_of_integers(op_type: str):
    assert fractions_of_integers(op_type).keys() == numbers_of_integers(op_type)


@pytest.mark.parametrize("op_type", OF_INTEGERS)
def test_a_kernel_computes_fractions_of_integers(op_type: str):
    for case in (c for cases in fractions_of_integers(op_type).values() for c in cases[:KERNELS]):
        group, arrays = grouped(case)
        assert not differences(harness.evaluate(group, arrays), results(case)), case


def bounds_of_integers(dtype: str) -> Array:
    """Numbers next to the bounds of all integers, and far beyond them, that a type holds."""
    near = [sign * 2.0**bits + step for bits in (7, 8, 15, 16, 31, 32, 63, 64) for sign in (1, -1)
            for step in (-1, -0.5, 0, 0.5, 1)]  # fmt: skip
    with np.errstate(all="ignore"):
        if dtype not in INTEGERS:
            odd = [np.inf, -np.inf, np.nan, 1e30, -1e30, -0.5, -1.5, -3]
            return np.array([*near, *odd]).astype(numpy_dtype(dtype))
        limits = np.iinfo(dtype)
        inside = [int(x) for x in near if limits.min <= x <= limits.max]
        return np.array([limits.min, limits.max, limits.max - 1, 1, 3, *inside], dtype)


THROUGH_FLOATS = sorted(
    {*OF_INTEGERS, "Cast", "Pow"}
    | {name for name, entry in OPERATORS.items() if entry.facts.through_floats}
)
"""Operators that make integers of floats, which these may not hold."""


def extreme_uses(op_type: str) -> list[Case]:
    """Uses of each type, with and without a fraction, with data next to the bounds of integers."""
    uses: dict[tuple[object, ...], Case] = {}
    names = {name for name, a in OPERATORS[op_type].attributes.items() if a.kind == "float"}
    for number, case in enumerate(c for cases in all_drawn()[op_type] for c in cases):
        generator = np.random.default_rng(number)
        inputs = [
            array
            if array is None or index in case.fixed or array.dtype.kind not in "iufV"
            else generator.choice(bounds_of_integers(array.dtype.name), array.shape)
            for index, array in enumerate(case.inputs)
        ]
        changed = replace(case, inputs=inputs)
        dtypes = [a.dtype.name for a in (*inputs[:1], *results(changed)[:1]) if a is not None]
        fraction = any(not float(case.attributes.get(name, 0)).is_integer() for name in names)
        if dtypes[-1] in INTEGERS and all(a is None or a.size for a in inputs):
            uses.setdefault((*dtypes, fraction), changed)
    return [*uses.values()]


@pytest.mark.parametrize("op_type", THROUGH_FLOATS)
def test_a_kernel_computes_integers_that_floats_do_not_hold(op_type: str):
    uses = extreme_uses(op_type)
    assert uses
    for case in uses:
        group, arrays = grouped(case)
        assert not differences(harness.evaluate_once(group, arrays), results(case)), case


def test_a_recurrence_without_a_kernel_is_refused_with_the_remedy():
    group, _ = grouped(drawn()[SOME_ON_GPUS][0])
    with pytest.raises(KernelError, match=r'no kernel for Recurrence "node": .*import the model'):
        generate(group, parse_gpu("cuda:sm_90:fp32"))


@pytest.mark.deep
@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("op_type", sorted(OPERATORS.keys() - {PARTIAL_RANGES, SOME_ON_GPUS}))
def test_a_kernel_of_gpus_computes_what_the_entry_means(op_type: str):
    (case, *_) = drawn()[op_type]
    group, arrays = grouped(case)
    assert not differences(
        run_twice(generate(group, parse_gpu("cuda:sm_90:fp32")), group, arrays), results(case)
    ), case
