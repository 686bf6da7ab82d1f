"""Every public function names the argument that has a wrong type; they are found by inspection."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, cast

import numpy as np
import onnx
import pytest

import compiler
from compiler import ArgumentError, FlowloomError, OrtValue
from compiler.artifact.artifact import Artifact
from tests.test_hostile_arguments import DYNAMIC, STATIC, X

NUMBERS = re.compile(r"\b(int|float|bool|Array|ndarray)\b")
"""Words of annotations that take a number; what is an array may be one of no axes."""


class Parameter(NamedTuple):
    """A parameter of a public function: `owner` is the class of a method."""

    owner: type[Any] | None
    function: str
    name: str
    annotation: str

    def __str__(self) -> str:
        return f"{self.owner.__name__ if self.owner else 'compiler'}.{self.function}-{self.name}"


def classes() -> list[type[Any]]:
    """The public classes whose methods users call, and those of ONNX's backend."""
    public: list[Any] = [getattr(compiler, name) for name in compiler.__all__]
    public += cast(Any, vars(compiler.backend)).values()
    made_here = [one for one in public if inspect.isclass(one) and _is_ours(one)]
    return [*dict.fromkeys(one for one in made_here if not issubclass(one, Exception | Enum))]


def _is_ours(one: Any) -> bool:
    return one.__module__.startswith("compiler")


def functions() -> Iterator[tuple[type[Any] | None, str, Callable[..., Any]]]:
    """All public functions and methods: of records that calls return, no constructor."""
    for name in compiler.__all__:
        if isinstance(one := getattr(compiler, name), FunctionType):
            yield None, name, one
    for owner in classes():
        record = is_dataclass(owner) and cast(Any, owner).__dataclass_params__.frozen
        for name, member in vars(owner).items():
            function = getattr(member, "__func__", member)
            constructor = name == "__init__" and not record
            if isinstance(function, FunctionType) and (constructor or not name.startswith("_")):
                yield owner, name, function


def parameters() -> Iterator[Parameter]:
    """The parameters whose annotation refuses something."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for owner, name, function in functions():
        for parameter in inspect.signature(function).parameters.values():
            text = inspect.formatannotation(parameter.annotation).strip("\"'")
            free = parameter.name in ("self", "cls") or parameter.kind in variable or text == "Any"
            if not free:
                yield Parameter(owner, name, parameter.name, text)


@cache
def _module(model: bytes) -> Any:
    return compiler.compile(model)


@cache
def _session() -> compiler.InferenceSession:
    return compiler.InferenceSession(STATIC)


def _content() -> Artifact:
    module = _module(STATIC)
    return Artifact(module.target, module.schedule, module.kernels, module.weights)


def _read_model(_: Path) -> Any:
    return cast(Any, vars(_module(DYNAMIC)))["_model"]


RIGHT: dict[str, Callable[[Path], Any]] = {
    **{name: lambda _: STATIC for name in ("model", "path_or_bytes")},
    "directory": lambda folder: folder / "nothing",
    "key": lambda folder: folder / "key",
    "target": lambda _: "cpu",
    "content": lambda _: _content(),
    "compiler": lambda _: _module(DYNAMIC).compiler,
    "built": lambda _: _module(STATIC),
    "options": lambda _: {},
    **{name: lambda _: {"x": X} for name in ("inputs", "input_feed", "input_dict_ort_values")},
    "outputs": lambda _: [],
    "output_names": lambda _: None,
    "callback": lambda _: print,
    "user_data": lambda _: None,
    "iobinding": lambda _: _session().io_binding(),
    "name": lambda _: "x",
    "denotation": lambda _: "DATA_BATCH",
    "size": lambda _: 3,
    "path": lambda _: "library.so",
    "names": lambda _: list[str](),
    "values": lambda _: list[Any](),
    "example_inputs": lambda _: (),
    "adapter": lambda _: None,
    "value": lambda _: "value",
    "array": lambda _: X.copy(),
    "data": lambda _: X,
    "device": lambda _: "CPU",
    "device_type": lambda _: "cpu",
    "device_id": lambda _: 0,
    "element_type": lambda _: np.float32,
    "onnx_element_type": lambda _: 1,
    "shape": lambda _: [2, 3],
    "buffer_ptr": lambda _: X.ctypes.data,
    "ortvalue": lambda _: OrtValue(X.copy()),
    "severity": lambda _: 2,
    "node": lambda _: onnx.helper.make_node("Relu", ["x"], ["y"]),
    "module": lambda _: abs,
    "results": lambda _: {},
    "IOBinding.inputs": lambda _: [],
    "DynamicModule.model": _read_model,
    "Schedule.kind": lambda _: "arena",
}
"""A right argument for each parameter without a default, by its name, perhaps after a class."""


def _right(owner: type[Any] | None, name: str) -> Callable[[Path], Any]:
    own = f"{owner.__name__ if owner else ''}.{name}"
    return RIGHT[own if own in RIGHT else name]


OBJECTS: dict[str, Callable[[], Any]] = {
    "Module": lambda: _module(STATIC),
    "DynamicModule": lambda: _module(DYNAMIC),
    "Schedule": lambda: _module(STATIC).schedule,
    "InferenceSession": _session,
    "IOBinding": lambda: _session().io_binding(),
    "OrtValue": lambda: OrtValue(X.copy()),
    "FlowloomRep": lambda: compiler.backend.prepare(STATIC),
}
"""An object of each class whose constructor takes arguments."""


def called(parameter: Parameter, wrong: object, folder: Path) -> Any:
    """The result of a call with a wrong argument and right others."""
    owner, function = parameter.owner, parameter.function
    if owner is None:
        call = getattr(compiler, function)
    elif function == "__init__":
        call = owner
    elif isinstance(inspect.getattr_static(owner, function), classmethod):
        call = getattr(owner, function)
    else:
        call = getattr(OBJECTS.get(owner.__name__, owner)(), function)
    needed = [
        one.name
        for one in inspect.signature(call).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    return call(**{**{name: _right(owner, name)(folder) for name in needed}, parameter.name: wrong})


def wrong_values(annotation: str) -> list[object]:
    """Values that no parameter of an annotation takes; a bool may be a number or None."""
    values: list[object] = [object()]
    if not NUMBERS.search(annotation):
        values.append(5)
    if "None" not in annotation and annotation != "bool":
        values.append(None)
    return values


@pytest.mark.filterwarnings("ignore:Specified provider")
@pytest.mark.parametrize("parameter", [*parameters()], ids=str)
def test_a_wrong_argument_is_named(
    parameter: Parameter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for wrong in wrong_values(parameter.annotation):
        with pytest.raises(FlowloomError, match=rf"\b{parameter.name}\b") as caught:
            called(parameter, wrong, tmp_path)
        assert "cannot take its arguments" not in str(caught.value), wrong


def test_the_walk_reaches_what_users_call():
    reached = {(owner.__name__ if owner else "", name) for owner, name, _ in functions()}
    for owner, name in (
        *(("", "compile"), ("", "load"), ("", "sign"), ("InferenceSession", "run_async")),
        *(("Module", "__init__"), ("DynamicModule", "prepare"), ("IOBinding", "bind_input")),
        *(("OrtValue", "from_dlpack"), ("SessionOptions", "__init__")),
    ):
        assert (owner, name) in reached


def test_sizes_beyond_any_tensor_are_refused():
    calls: list[Callable[[], Any]] = [
        lambda: compiler.compile(DYNAMIC, input_shapes={"x": [10**12, 3]}),
        lambda: compiler.compile(open_model(), input_shapes={"x": [10**12, 3]}),
    ]
    for call, name in zip(calls, ("'x'", "'x'"), strict=True):
        with pytest.raises(FlowloomError, match=rf"{name}.*at most 2147483647"):
            call()


def open_model() -> onnx.ModelProto:
    """A model of two inputs, of which one stays open where the other's shape is given."""
    infos = [onnx.helper.make_tensor_value_info(n, 1, [n + "s", 3]) for n in ("x", "z")]
    result = onnx.helper.make_tensor_value_info("y", 1, None)
    node = onnx.helper.make_node("Concat", ["x", "z"], ["y"], axis=0)
    graph = onnx.helper.make_graph([node], "g", infos, [result])
    imports = [onnx.helper.make_opsetid("", 21)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_an_empty_path_is_no_model():
    for model in ("", b""):
        with pytest.raises(compiler.ModelError):
            compiler.InferenceSession(model)


def test_callbacks_are_checked_before_the_run():
    with pytest.raises(ArgumentError, match="callback"):
        _session().run_async(None, {"x": X}, cast(Any, None), None)


def test_values_are_arrays_for_values():
    tensor = OrtValue(np.zeros((2, 3), np.float32))
    tensor.update_inplace(OrtValue(X))
    np.testing.assert_array_equal(tensor.numpy(), X)


@pytest.mark.parametrize("given", [((), {}), ((1,) * 15, {}), ((), {"surplus": 1})], ids=str)
def test_missing_and_surplus_arguments_are_told_of_a_public_function(given: Any):
    """By Python's own TypeError, or by an ArgumentError; either names the function."""
    positional, named = given
    for owner, name, function in functions():
        call: Any = function if owner is None else partial(function, object.__new__(owner))
        message = name
        try:
            call(*positional, **named)
        except (FlowloomError, AttributeError):  # the object is empty, if it takes what was given
            continue
        except TypeError as error:
            message = str(error)
        assert name in message, (owner, name)
