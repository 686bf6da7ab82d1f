"""If, Loop and Scan that stay control flow in one schedule, against onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from compiler.artifact.module import Module
from compiler.backends.cuda.device import device
from compiler.errors import DeviceError, InputDataError, UnsupportedOperatorError
from compiler.program.model import DynamicModule
from compiler.target.target import parse_target
from tests.frontend.control.checks import check, kinds, model_of, reference, static

RANDOM = np.random.default_rng(3)


@pytest.fixture(scope="module", params=["cpu", "emu", pytest.param("cuda", marks=pytest.mark.gpu)])
def target(request: pytest.FixtureRequest) -> str:
    """The targets whose schedules have control tasks, as far as they run here."""
    if request.param == "cuda":
        try:
            device()
        except DeviceError as error:
            pytest.skip(str(error))
    return "cpu" if request.param == "cpu" else f"{request.param}::fp32"


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("f4")


BRANCHES = """g (bool c, float[9, 16] x, float[9, 16] w) => (float[9, 16] y, int64 n) {
    a = Relu(x)
    y, n = If (c) <
        then_branch = small () => (float[9, 16] t, int64 k) {
            t = Mul(a, w)
            k = Constant<value = int64 {3}>()
        },
        else_branch = large () => (float[9, 16] e, int64 m) {
            b = Add(x, a)
            e = Softmax(b)
            m = Constant<value = int64 {-4}>()
        }
    >
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_a_run_chooses_the_branch(condition: bool, target: str):
    model = model_of(BRANCHES)
    module = static(model, target=target)
    assert kinds(module) == ["if"]
    check(module, model, {"c": condition, "x": floats(9, 16), "w": floats(9, 16)})


PASSED = """g (bool c, bool d, float[4] x, float[4] z) => (float[4] y, float[4] u) {
    y, u = If (c) <
        then_branch = one () => (float[4] t, float[4] s) {
            t = If (d) <
                then_branch = three () => (float[4] p) { p = Identity(z) },
                else_branch = four () => (float[4] q) { q = Sub(x, z) }
            >
            s = Identity(x)
        },
        else_branch = two () => (float[4] e, float[4] f) {
            e = Identity(x)
            f = Identity(x)
        }
    >
}"""


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("d", [True, False])
def test_branches_nest_and_pass_captured_values_on(c: bool, d: bool, target: str):
    model = model_of(PASSED)
    module = static(model, target=target)
    assert kinds(module) == ["if", "if"]
    check(module, model, {"c": c, "d": d, "x": floats(4), "z": floats(4)})


COUNTED = """g (int64 trips, bool go, float[16] x, float[16] w) => (float[16] last, int64 n) {
    zero = Constant<value = int64 {0}>()
    last, n = Loop (trips, go, x, zero) <
        body = step (int64 i, bool c, float[16] v, int64 k) => (bool d, float[16] u, int64 j) {
            d = Identity(c)
            a = Mul(v, w)
            u = Tanh(a)
            j = Add(k, i)
        }
    >
}"""


@pytest.fixture(scope="module")
def counted(target: str) -> Module:
    return static(model_of(COUNTED), target=target)


@pytest.mark.parametrize("trips", [-5, 0, 1, 5, 2000])
@pytest.mark.parametrize("go", [True, False])
def test_a_trip_count_is_data(trips: int, go: bool, counted: Module):
    feeds = {"trips": trips, "go": go, "x": floats(16), "w": 2 * floats(16)}
    assert kinds(counted) == ["loop"]
    check(counted, model_of(COUNTED), feeds)


WHILE = """g (float x, float limit) => (float y, int64 steps) {
    yes = Constant<value = bool {1}>()
    zero = Constant<value = int64 {0}>()
    y, steps = Loop (, yes, x, zero) <
        body = step (int64 i, bool c, float v, int64 k) => (bool d, float w, int64 j) {
            w = Add(v, v)
            d = Less(w, limit)
            one = Constant<value = int64 {1}>()
            j = Add(i, one)
        }
    >
}"""


@pytest.mark.parametrize("limit", [0.5, 3.0, 1e30])
def test_a_body_computes_the_condition(limit: float, target: str):
    model = model_of(WHILE)
    module = static(model, target=target)
    assert kinds(module) == ["loop"]
    check(module, model, {"x": np.float32(1), "limit": np.float32(limit)})


NESTED = """g (int64 n, int64[4] x) => (int64[4] y, int64 count) {
    yes = Constant<value = bool {1}>()
    zero = Constant<value = int64 {0}>()
    y, count = Loop (n, yes, x, zero) <
        body = outer (int64 i, bool c, int64[4] v, int64 k) => (bool d, int64[4] w, int64 m) {
            d = Identity(c)
            w, m = Loop (i, c, v, k) <
                body = inner (int64 j, bool e, int64[4] p, int64 q)
                    => (bool f, int64[4] r, int64 s) {
                    one = Constant<value = int64 {1}>()
                    s = Add(q, one)
                    t = Add(p, x)
                    r = Add(t, i)
                    two = Constant<value = int64 {2}>()
                    f = Less(j, two)
                }
            >
        }
    >
}"""


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_loops_nest(n: int, target: str):
    model = model_of(NESTED)
    module = static(model, target=target)
    assert kinds(module) == ["loop", "loop"]
    check(module, model, {"n": n, "x": np.arange(4)})


SCAN = """g (float[4] start, int64 first, float[5, 100] x, float[100, 2] z)
    => (float[4] last, int64 n, float[4, 100] all, float[100, 5] rows) {
    last, n, all, rows = Scan <num_scan_inputs = 2, scan_input_axes = [1, -2],
        scan_input_directions = [1, 0], scan_output_axes = [1, 0], scan_output_directions = [0, 1],
        body = step (float[4] s, int64 k, float[5] v, float[2] u)
            => (float[4] t, int64 m, float[4] o, float[5] r) {
            sum = ReduceSum<keepdims = 0>(v)
            t0 = Add(s, sum)
            half = Constant<value = float {0.5}>()
            t = Mul(t0, half)
            one = Constant<value = int64 {1}>()
            m = Add(k, one)
            most = ReduceMax<keepdims = 0>(u)
            o = Mul(t, most)
            r = Relu(v)
        }
    > (start, first, x, z)
}"""


def test_a_long_scan_has_states_and_directions(target: str):
    model = model_of(SCAN)
    module = static(model, target=target)
    assert kinds(module) == ["loop"]
    feeds = {"start": floats(4), "first": 5, "x": floats(5, 100), "z": floats(100, 2)}
    check(module, model, feeds)


STACKS = """g (float[3] x) => (float[3] last, float[90, 3] all, int64[90] numbers) {
    trips = Constant<value = int64 {90}>()
    yes = Constant<value = bool {1}>()
    last, all, numbers = Loop (trips, yes, x) <
        body = step (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] s, int64 n) {
            d = Identity(c)
            w = Cos(v)
            s = Mul(v, v)
            n = Mul(i, i)
        }
    >
}"""


def test_a_long_loop_of_known_length_stacks_its_results(target: str):
    model = model_of(STACKS)
    module = static(model, target=target)
    assert kinds(module) == ["loop"]
    check(module, model, {"x": floats(3)})


LSTM = """g (float[120, 2, 8] x, float[2, 16] h0, float[2, 16] c0)
    => (float[2, 16] h, float[2, 16] c, float[120, 2, 16] all) {
    h, c, all = Scan <num_scan_inputs = 1,
        body = step (float[2, 16] hp, float[2, 16] cp, float[2, 8] v)
            => (float[2, 16] hn, float[2, 16] cn, float[2, 16] row) {
            a = MatMul(v, wx)
            b = MatMul(hp, wh)
            gates = Add(a, b)
            i0, o0, f0, g0 = Split<axis = 1, num_outputs = 4>(gates)
            i = Sigmoid(i0)
            o = Sigmoid(o0)
            f = Sigmoid(f0)
            gg = Tanh(g0)
            kept = Mul(f, cp)
            new = Mul(i, gg)
            cn = Add(kept, new)
            shown = Tanh(cn)
            hn = Mul(o, shown)
            row = Identity(hn)
        }
    > (h0, c0, x)
}"""


Lstm = tuple[onnx.ModelProto, Module]


@pytest.fixture(scope="module")
def lstm(target: str) -> Lstm:
    model = model_of(LSTM, {"wx": floats(8, 64), "wh": floats(16, 64)})
    return model, static(model, target=target)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_lstm_as_a_scan_saves_and_loads(threads: int, target: str, lstm: Lstm, tmp_path: Path):
    model, module = lstm
    assert kinds(module) == ["loop"]
    feeds = {"x": floats(120, 2, 8), "h0": floats(2, 16), "c0": floats(2, 16)}
    check(module, model, feeds)
    module.save(tmp_path / "saved")
    options: dict[str, Any] = {} if parse_target(target).backend == "cuda" else {"threads": threads}
    loaded = compiler.load(tmp_path / "saved", **options)
    assert loaded.schedule == module.schedule
    check(loaded, model, feeds)


MIXED = """g (float[n] x, int64 trips) => (float[2] y, float[2] z) {
    two = Constant<value = int64[1] {2}>()
    zero = Constant<value = int64[1] {0}>()
    yes = Constant<value = bool {1}>()
    v = Slice(x, zero, two)
    y = Loop (trips, yes, v) <
        body = step (int64 i, bool c, float[2] p) => (bool d, float[2] q) {
            d = Identity(c)
            q = Sin(p)
        }
    >
    all = Exp(x)
    sum = ReduceSum<keepdims = 0>(all)
    z = Mul(y, sum)
}"""


def test_a_segment_of_a_dynamic_model_holds_a_loop(target: str):
    model = model_of(MIXED)
    module = compiler.compile(model, target=target)
    assert isinstance(module, DynamicModule)
    for length in (2, 5):
        for trips in (0, 3):
            feeds = {"x": floats(length), "trips": np.array(trips)}
            for found, wanted in zip(
                module.run(feeds).values(), reference(model, feeds), strict=True
            ):
                np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert all(kinds(inner) == ["loop"] for inner in module.compiler.modules.values())
    assert len(module.compiler.modules) == 2


GROWS = """g (int64 trips, float[3] x) => (float[k] y) {
    yes = Constant<value = bool {1}>()
    y = Loop (trips, yes, x) <
        body = step (int64 i, bool c, float[p] v) => (bool d, float[q] w) {
            d = Identity(c)
            w = Concat<axis = 0>(v, x)
        }
    >
}"""
ROWS = """g (int64 trips, float[3] x) => (float[3] y, float[k, 3] rows) {
    yes = Constant<value = bool {1}>()
    y, rows = Loop (trips, yes, x) <
        body = step (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] r) {
            d = Identity(c)
            w = Relu(v)
            r = Relu(v)
        }
    >
}"""
SHAPES = """g (bool c, float[3] x) => (float[k] y) {
    y = If (c) <
        then_branch = a () => (float[k] t) { t = Relu(x) },
        else_branch = b () => (float[k] e) { e = Concat<axis = 0>(x, x) }
    >
}"""


@pytest.mark.parametrize("text", [GROWS, ROWS, SHAPES])
def test_other_models_are_programs_as_before(text: str):
    model = model_of(text)
    with pytest.raises(UnsupportedOperatorError, match=r"run time|run decides|carries|branches"):
        compiler.compile(model, dynamic=False)
    module = compiler.compile(model)
    assert isinstance(module, DynamicModule)
    first = model.graph.input[0].name
    feeds = {first: np.array(1) if first == "trips" else np.array(True), "x": floats(3)}
    for found, wanted in zip(module.run(feeds).values(), reference(model, feeds), strict=True):
        np.testing.assert_allclose(found, wanted)


GATHERS = """g (bool c, float[3] x, int64[2] at) => (float[2] y) {
    y = If (c) <
        then_branch = a () => (float[2] t) { t = Gather(x, at) },
        else_branch = b () => (float[2] e) { e = Cast<to = 1>(at) }
    >
}"""


def test_indices_in_a_branch_are_checked_by_a_program():
    model = model_of(GATHERS)
    feeds = {"c": np.array(True), "x": floats(3), "at": np.array([0, 7])}
    assert kinds(static(model)) == ["if"]
    with pytest.raises(UnsupportedOperatorError, match="at indices that shall be checked"):
        static(model, check_indices=True)
    module = compiler.compile(model, check_indices=True)
    with pytest.raises(InputDataError, match="Gather"):
        module.run(feeds)
    module.run({**feeds, "c": np.array(False)})


@pytest.mark.parametrize("arch", ["hip:gfx90a", "emu:gfx90a"])
def test_amd_gpus_take_the_way_of_programs(arch: str):
    with pytest.raises(UnsupportedOperatorError, match="condition is computed at run time"):
        compiler.compile(model_of(BRANCHES), target=arch, dynamic=False)
