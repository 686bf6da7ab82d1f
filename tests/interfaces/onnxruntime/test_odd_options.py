"""Odd arguments of sessions get onnxruntime's errors where it has them, else ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import compiler
from compiler.errors import ArgumentError, FlowloomError
from compiler.interfaces.onnxruntime import options
from tests.test_hostile_arguments import DYNAMIC, STATIC

CPU = "CPUExecutionProvider"
X = np.ones((2, 3), np.float32)
ORT: Any = onnxruntime


def error_of(call: Callable[[], Any]) -> Exception | None:
    """The error of a call."""
    try:
        call()
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(
    "value",
    [5, True, 0, "x", b"x", [], {}, object(), [5], {"intra_op_num_threads": 1}, ORT.RunOptions()],
)
def test_session_options_are_of_their_class(value: Any):
    with pytest.raises(
        ArgumentError, match=r"sess_options is .*: it must be flowloom.SessionOptions\(\)"
    ):
        compiler.InferenceSession(STATIC, value)
    session = compiler.InferenceSession(STATIC)
    with pytest.raises(ArgumentError, match=r"run_options is .*: it must be flowloom\."):
        session.run(None, {"x": X}, value)


EMPTY: Any = {}
NONE: Any = []
PROVIDERS: list[tuple[Any, Any]] = [
    *((value, None) for value in list[Any](({CPU}, {CPU: EMPTY}, iter([CPU]), CPU, CPU.encode()))),
    *(
        ([value], None)
        for value in list[Any]((5, None, (CPU,), (CPU, 5), (CPU, EMPTY, 1), [CPU, EMPTY]))
    ),
    *(([value], None) for value in ((5, EMPTY), EMPTY, (CPU, None), (CPU, NONE))),
    *(
        ([CPU], value)
        for value in (5, EMPTY, "x", {0: EMPTY}, iter([EMPTY]), NONE, [EMPTY, EMPTY], [5], [None])
    ),
    (NONE, [EMPTY]),
    ([(CPU, {"device_id": "0"})], [EMPTY]),
]


@pytest.mark.filterwarnings("ignore:Specified provider", "ignore:Duplicate provider")
@pytest.mark.parametrize(("providers", "provider_options"), PROVIDERS)
def test_providers_are_lists(providers: Any, provider_options: Any):
    """Its sessions print the error and fall back to the CPU; `set_providers` raises it."""
    theirs = ORT.InferenceSession(STATIC, providers=[CPU])
    expected = error_of(lambda: theirs.set_providers(providers, provider_options))
    assert isinstance(expected, ValueError | RuntimeError)
    with pytest.raises(FlowloomError) as caught:
        compiler.InferenceSession(STATIC, None, providers, provider_options)
    assert isinstance(caught.value, ValueError | TypeError)
    assert "provider" in str(caught.value)
    assert "cannot take its arguments" not in str(caught.value)


@pytest.mark.parametrize("value", [5, True, 1.5, object()])
def test_what_cannot_be_iterated_is_a_type_error(value: Any):
    theirs = error_of(lambda: ORT.InferenceSession(STATIC, providers=value))
    ours = error_of(lambda: compiler.InferenceSession(STATIC, providers=value))
    assert isinstance(theirs, TypeError)
    assert isinstance(ours, TypeError)


def test_an_unknown_option_gets_the_nearest():
    for name, right in (("device_ids", "device_id"), ("flowloom_precison", "flowloom_precision")):
        with pytest.raises(ArgumentError, match=f"no option '{name}' .did you mean '{right}'"):
            compiler.InferenceSession(STATIC, providers=[(CPU, {name: "0"})])
    with pytest.raises(ArgumentError, match="no option '1'"):
        compiler.InferenceSession(STATIC, providers=[(CPU, {1: 2})])
    with pytest.raises(ArgumentError, match="no argument 'provider': did you mean 'providers'"):
        compiler.InferenceSession(STATIC, provider=[CPU])


@pytest.mark.parametrize("model", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "options",
    [{"precision": "tf32"}, {"arch": "zz"}, {"budget": "-1"}, {"pipeline": "zz"}, {"budget": "x"}],
)
def test_options_of_the_compiler_are_checked_at_once(model: bytes, options: dict[str, str]):
    given = {f"flowloom_{name}": text for name, text in options.items()}
    with pytest.raises(FlowloomError):
        compiler.InferenceSession(model, providers=[(CPU, given)])


ODD: list[Any] = [
    *(None, -1, 0, 1, 5, 2**31, 2**40, True, 1.5, "x", "", b"x", [], {}, object(), int),
    *(np.ones((2, 4), np.float32), np.ones((2, 4), np.int64)),
]
FIELDS = {
    options.SessionOptions: [
        *("intra_op_num_threads", "inter_op_num_threads", "enable_profiling"),
        *("profile_file_prefix", "optimized_model_filepath", "log_severity_level"),
        *("log_verbosity_level", "logid", "graph_optimization_level", "execution_mode"),
        *("execution_order", "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse"),
        *("use_deterministic_compute", "use_per_session_threads"),
    ],
    options.RunOptions: [
        *("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"),
        "terminate",
    ],
}
LENIENT = ("graph_optimization_level", "execution_mode", "execution_order")
"""Fields that take the number of a member of their enumeration, too."""


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, fields in FIELDS.items() for field in fields]
)
def test_fields_take_what_onnxruntime_takes(kind: Any, field: str):
    theirs, ours = getattr(ORT, kind.__name__)(), kind()
    for value in ODD:
        expected = error_of(lambda v=value: setattr(theirs, field, v))
        found = error_of(lambda v=value: setattr(ours, field, v))
        if field in LENIENT and found is None:
            assert value in [*options.ENUMERATIONS[field]]
            continue
        assert (found is None) == (expected is None), value
        if found is None:
            assert getattr(ours, field) == getattr(theirs, field)
        else:
            assert isinstance(found, TypeError)
            assert isinstance(found, FlowloomError)
            assert field in str(found)


CALLS = [
    *(("add_session_config_entry", a) for a in (("k", "v"), (5, "v"), ("k", 5))),
    *(("add_session_config_entry", a) for a in ((b"k", "v"), ("", "v"), ("k" * 1025, "v"))),
    *(("add_free_dimension_override_by_name", ("n", v)) for v in (2, True, 1.5, 2.0, "2", 2**70)),
    *(("add_free_dimension_override_by_denotation", ("n", v)) for v in (2, 1.5, None)),
    ("add_free_dimension_override_by_name", (5, 2)),
    *(("get_session_config_entry", (v,)) for v in (5, "unknown")),
]


@pytest.mark.parametrize(("method", "arguments"), CALLS)
def test_methods_take_what_onnxruntime_takes(method: str, arguments: tuple[Any, ...]):
    theirs = error_of(lambda: getattr(ORT.SessionOptions(), method)(*arguments))
    ours = error_of(lambda: getattr(compiler.SessionOptions(), method)(*arguments))
    assert (theirs is None) == (ours is None)
    if theirs is not None:
        assert isinstance(ours, FlowloomError)
        assert isinstance(ours, TypeError if isinstance(theirs, TypeError) else RuntimeError)


@pytest.mark.parametrize("names", ["y", 5, [5]])
def test_output_names_are_a_list(names: Any):
    """A text of one letter is no list of one name."""
    theirs, ours = ORT.InferenceSession(STATIC, providers=[CPU]), compiler.InferenceSession(STATIC)
    assert isinstance(error_of(lambda: theirs.run(names, {"x": X})), TypeError)
    assert isinstance(error_of(lambda: ours.run(names, {"x": X})), FlowloomError)


@pytest.mark.parametrize("count", [-1, 0, 2])
def test_fewer_threads_than_one_are_all(count: int):
    given = compiler.SessionOptions()
    given.intra_op_num_threads = count
    found = compiler.InferenceSession(STATIC, given).run(None, {"x": X})
    np.testing.assert_array_equal(found[0], X)


def test_a_path_is_a_text(tmp_path: Path):
    given: Any = compiler.SessionOptions()
    given.optimized_model_filepath = tmp_path / "saved"
    compiler.InferenceSession(STATIC, given)
    again = compiler.InferenceSession(tmp_path / "saved")
    np.testing.assert_array_equal(again.run(None, {"x": X})[0], X)


class Failing:
    """An object whose methods fail, as a caller's own may."""

    def _fail(self, *_: object) -> Any:
        raise OSError("a method of the caller's")

    __repr__ = __str__ = __bool__ = __index__ = __fspath__ = __eq__ = _fail
    __hash__ = object.__hash__


@pytest.mark.parametrize("options", [compiler.SessionOptions, compiler.RunOptions])
def test_methods_of_values_that_fail_end_in_errors_of_our_own(options: type[Any]):
    made = options()
    for name in options.__annotations__:
        with pytest.raises(FlowloomError, match=name):
            setattr(made, name, Failing())
    with pytest.raises(FlowloomError, match="severity"):
        compiler.set_default_logger_severity(Failing())
