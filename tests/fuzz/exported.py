"""PyTorch's operator database: an operator with a sample of its inputs, exported to ONNX.

The seed is a number in the database: of N operators, the first N seeds have the first sample of
each, the next N the second, and so on: `python -m tests.fuzz exported --seed 0 --cases N`. It needs
the extra `torch` and the package `expecttest`, which PyTorch's database imports. `--log` names what
became of each sample, of which `tests.fuzz.exported_page` makes a page.
"""

import io
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import compiler
from compiler.frontend.importing.unknown import RANDOM
from tests.fuzz.case import Array, Case, Failure
from tests.fuzz.oracle import Refused, run_model

RESULTS = "results.npz"
"""The file of a case that has PyTorch's results, as arrays by the names of the model's outputs."""

TOLERANCE = 2e-4
"""The largest difference of floats, as a part of the largest value."""

MOST = 400
"""How many samples of an operator are exported; a few operators have more."""

MOST_LETTERS = 200
"""How long the reason may be for which an operator is not exported."""

NEEDS = ("torch", "onnxscript", "expecttest")


def what_is_missing() -> str:
    """A package that is not installed, and how to install it; "" if there is none."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    return f"{missing[0]} is not installed: pip install '.[torch]' expecttest" if missing else ""


class NotExported(Exception):
    """Nothing came of an operator; the reason is counted."""

    def __init__(self, reason: str, operator: str = "") -> None:
        super().__init__(reason)
        self.operator = operator


def root_cause(error: BaseException) -> str:
    """The type and the first line of the error that others were raised from."""
    while error.__cause__ is not None:
        error = error.__cause__
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first.partition('. Failure message')[0]}"[:MOST_LETTERS]


@cache
def operator_database() -> Sequence[Any]:
    """PyTorch's operators with samples of their inputs."""
    module: Any = import_module("torch.testing._internal.common_methods_invocations")
    return module.op_db


def random_exported(seed: int, target: str) -> Case | None:
    """The case of an operator's sample; None beyond the last sample.

    A seed beyond `MOST` samples of each, as a fresh search draws it, has one of those again.
    Raises NotExported for what PyTorch cannot export, or draws at random.
    """
    if reason := what_is_missing():
        raise NotExported(reason)
    torch: Any = import_module("torch")
    database = operator_database()
    number, index = divmod(seed, len(database))
    operator = database[index]
    name = f"{operator.name} {operator.variant_test_name}".strip()
    dtype = torch.float32 if torch.float32 in operator.dtypes else torch.int64
    torch.manual_seed(seed)
    try:
        samples: list[Any] = [*islice(operator.sample_inputs("cpu", dtype), MOST)]
    except Exception as error:  # of operators that need other devices or libraries
        raise NotExported(f"no sample: {root_cause(error)}", name) from error
    if not samples:
        raise NotExported("no sample", name)
    if len(samples) <= number < MOST:
        return None
    sample = samples[number % len(samples)]
    arguments = sample.input, tuple(sample.args), dict(sample.kwargs)
    case = Case("exported", seed, target=target, note=name)
    return _exported(operator, arguments, case)


def _exported(operator: Any, arguments: Any, case: Case) -> Case:
    """The case with the model and the results of an operator called with some arguments."""
    torch: Any = import_module("torch")
    pytree: Any = import_module("torch.utils._pytree")
    leaves: list[Any]
    leaves, spec = pytree.tree_flatten(arguments)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[i].detach().clone() for i in places]

    def forward(_: Any, *given: Any) -> Any:
        """The operator as a function of its tensors."""
        filled = [*leaves]
        for place, tensor in zip(places, given, strict=True):
            filled[place] = tensor
        first, others, named = pytree.tree_unflatten(filled, spec)
        return operator(first, *others, **named)

    module: Any = type("Sampled", (torch.nn.Module,), {"forward": forward})()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = _arrays(module(*(tensor.clone() for tensor in tensors)))
            program: Any = torch.onnx.export(module, tuple(tensors), dynamo=True, verbose=False)
    except Exception as error:  # the exporter raises errors of many kinds
        raise NotExported(f"not exported: {root_cause(error)}", case.note) from error
    proto: onnx.ModelProto = program.model_proto
    if any(_is_random(node, proto.graph) for node in proto.graph.node):
        raise NotExported("its results are random", case.note)
    inputs, outputs = [i.name for i in proto.graph.input], [o.name for o in proto.graph.output]
    if len(inputs) != len(tensors) or len(outputs) != len(results):
        raise NotExported("the exported model has other inputs or outputs", case.note)
    content = io.BytesIO()
    named: dict[str, Any] = dict(zip(outputs, results, strict=True))
    np.savez(content, **named)
    return case.changed(
        model=proto.SerializeToString(),
        feeds=dict(zip(inputs, map(_array, tensors), strict=True)),
        files={RESULTS: content.getvalue()},
    )


def _is_random(node: onnx.NodeProto, graph: onnx.GraphProto) -> bool:
    """Whether a node draws numbers: a Dropout does in training, which is its third input."""
    if node.op_type != "Dropout":
        return node.op_type in RANDOM
    training = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return len(node.input) > 2 and bool(training.get(node.input[2], False))


def _arrays(results: Any) -> list[Array]:
    """The tensors of what an operator returns."""
    torch: Any = import_module("torch")
    pytree: Any = import_module("torch.utils._pytree")
    tensors: list[Any] = [x for x in pytree.tree_leaves(results) if isinstance(x, torch.Tensor)]
    return [_array(tensor) for tensor in tensors]


def _array(tensor: Any) -> Array:
    """A tensor's numbers; the exporter keeps the parts of complex ones along a last axis."""
    torch: Any = import_module("torch")
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return np.array((torch.view_as_real(tensor) if tensor.is_complex() else tensor).numpy())


def check_exported(case: Case) -> Failure | None:
    """An exported model computes what PyTorch does.

    Raises Skipped where the file says something else to onnxruntime and to ONNX's reference, too.
    """
    from tests.fuzz.checks import Skipped, raised

    with np.load(io.BytesIO(case.files[RESULTS])) as stored:
        wanted: dict[str, Array] = {name: stored[name] for name in stored.files}
    try:
        module = compiler.compile(case.model, target=case.target, threads=1)
        results = module.run(case.feeds)
    except Exception as error:  # FlowloomError too: what PyTorch exports should be compiled
        theirs = _by_onnxruntime(case)
        if isinstance(theirs, Refused):
            why = f"{root_cause(error)}; onnxruntime: {root_cause(theirs)}"
            raise Skipped(f"not valid: {why}") from error
        if wrong := unlike(theirs, wanted):
            why = f"{wrong} of PyTorch, by onnxruntime; we refuse it: {root_cause(error)}"
            raise Skipped(f"exported as something else: {why}") from error
        return raised(error)
    wrong = unlike(results, wanted)
    if not wrong:
        return None
    for name, judge in (("onnxruntime", _by_onnxruntime), ("the reference", _by_reference)):
        theirs = judge(case)
        if not isinstance(theirs, Exception) and not unlike(results, theirs):
            raise Skipped(f"exported as something else: {wrong} of PyTorch; {name} agrees with us")
    return Failure("wrong", f"{case.note}: {wrong}")


def _by_onnxruntime(case: Case) -> Mapping[str, Array] | Refused:
    try:
        return run_model(case.model, case.feeds)
    except Refused as error:
        return error


def _by_reference(case: Case) -> Mapping[str, Array] | Exception:
    try:
        evaluator: Any = ReferenceEvaluator(case.proto)
        values: list[Any] = evaluator.run(None, {**case.feeds})
    except Exception as error:  # it raises errors of many kinds
        return error
    return dict(zip((o.name for o in case.proto.graph.output), values, strict=True))


def unlike(results: Mapping[str, Any], wanted: Mapping[str, Array]) -> str:
    """How results differ from what is wanted by more than rounding; "" if they do not."""
    for name, array in wanted.items():
        result = np.asarray(results[name])
        if (result.dtype, result.shape) != (array.dtype, array.shape):
            types = (f"{each.dtype}{list(each.shape)}" for each in (result, array))
            return f"{name!r} is {', not '.join(types)}"
        if array.dtype.kind not in "fc":
            same = result == array
        else:
            largest = float(np.abs(array[np.isfinite(array)]).max(initial=0))
            same = np.isclose(result, array, TOLERANCE, TOLERANCE * largest, equal_nan=True)
        if not np.all(same):
            place = tuple(int(i) for i in np.argwhere(~np.asarray(same))[0])
            return f"{name!r} at {list(place)}: {result[place]!r}, not {array[place]!r}"
    return ""
