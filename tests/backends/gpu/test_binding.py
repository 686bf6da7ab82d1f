"""Device buffers are bound without copies, moved buffers by updates; wrong arrays are refused."""

import random
import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from compiler.backends.gpu.arrays import DeviceArray
from compiler.backends.gpu.binding import STAYING
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.executor import GpuExecutor
from compiler.backends.gpu.graph import SETTLED
from compiler.errors import ArgumentError, DeviceError, ShapeError
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.scheduling import graph_plan
from tests.backends.gpu.cases import Case, Mix, case
from tests.backends.gpu.recording import RecordingDriver
from tests.backends.gpu.test_graph import load

FOUND = case(21, tasks=12, streams=3)


def elsewhere(driver: RecordingDriver, executor: GpuExecutor, kind: Any) -> dict[str, DeviceArray]:
    """Device arrays like an executor's own, in memory of their own."""
    return {
        name: DeviceArray(driver, own.allocation, driver.allocate(own.nbytes), None)
        for name, own in executor.in_place(kind).items()
    }


def put(driver: RecordingDriver, arrays: dict[str, DeviceArray], values: dict[str, Any]) -> None:
    for name, array in arrays.items():
        driver.bytes_from(array.address)[: array.nbytes] = values[name].view(np.uint8)


def start(found: Case = FOUND, **options: Any) -> tuple[RecordingDriver, GpuExecutor]:
    driver = RecordingDriver({}, seed=3)
    return driver, load(found, driver, **options).executor()


def test_a_run_on_the_same_device_buffers_is_one_graph_launch():
    driver, executor = start()
    inputs, outputs = (elsewhere(driver, executor, kind) for kind in ("input", "output"))
    for _ in range(2):
        executor.run(inputs, outputs=outputs)
    driver.log.clear()
    executor.submit(inputs, outputs=outputs)
    assert driver.log == ["make_current", "launch_graph", "record"]


def test_what_a_run_costs_the_host_grows_by_two_calls_an_array():
    """Counted, not timed: a decoder's step has 60 arrays, each looked at in each run."""

    def calls(arrays: int) -> int:
        allocations = tuple(Allocation("input", f"x{i}", "uint32", (32,)) for i in range(arrays))
        output = Allocation("output", "y", "uint32", (32,))
        task = Task(
            "mix", 0, (), (View(0, 0, "uint32", (32,)),), (View(arrays, 0, "uint32", (32,)),)
        )
        schedule = Schedule("inputs", (*allocations, output), (task,))
        _, executor = start(Case(schedule, {"mix": (Mix("mix", (32,), (32,), 5),)}, {}))
        buffers = executor.in_place("input"), executor.in_place("output")
        executor.run(buffers[0], outputs=buffers[1])
        events: list[str] = []
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            executor.run(buffers[0], outputs=buffers[1])
        finally:
            sys.setprofile(None)
        return sum(event in ("call", "c_call") for event in events)

    assert calls(61) - calls(1) <= 60 * 2


def test_host_inputs_are_copied_in_each_run_of_a_known_placement():
    driver, executor = start()
    values = FOUND.inputs(0)
    for run in range(STAYING + 3):
        values = FOUND.inputs(run)
        driver.log.clear()
        for name, expected in executor.run(values).items():
            np.testing.assert_array_equal(expected, FOUND.expected(values)[name])
        assert ("instantiate" in driver.log) == (run == 0)
    name = next(iter(values))
    wrong = {**values, name: values[name].astype(np.float64)}
    with pytest.raises(ShapeError, match=f"input '{name}' must be uint32"):
        executor.run(wrong)
    device = elsewhere(driver, executor, "input")
    mixed = {**values, name: device[name]}
    put(driver, {name: device[name]}, FOUND.inputs(1))
    expected = FOUND.expected({**values, name: FOUND.inputs(1)[name]})
    for found in (executor.run(mixed), executor.run(mixed)):
        np.testing.assert_array_equal(found[next(iter(found))], expected[next(iter(found))])


@pytest.mark.parametrize("binding", ["update", "copy", "indirection"])
def test_moved_buffers_are_followed(binding: str):
    names = [a.name for a in FOUND.schedule.allocations if a.kind in ("input", "output")]
    driver, executor = start(bindings=dict.fromkeys(names, binding))
    for run in range(6):
        values = FOUND.inputs(run)
        inputs, outputs = (elsewhere(driver, executor, kind) for kind in ("input", "output"))
        put(driver, inputs, values)
        driver.log.clear()
        executor.run(inputs, outputs=outputs)
        assert ("update_call" in driver.log) == (binding == "update" and run > 0)
        assert ("write" in driver.log) == (binding == "indirection")
        for name, expected in FOUND.expected(values).items():
            np.testing.assert_array_equal(outputs[name].numpy(), expected)


@pytest.mark.parametrize("mode", ["graph", "subgraphs"])
@pytest.mark.parametrize("pdl", [True, False])
def test_settled_addresses_get_graphs_of_their_own(mode: str, pdl: bool):
    """Updated graphs run slowly where kernels start early, so those that stay are made anew."""
    names = [a.name for a in FOUND.schedule.allocations if a.kind in ("input", "output")]
    driver, executor = start(bindings=dict.fromkeys(names, "update"), mode=mode, pdl=pdl)
    given = [[elsewhere(driver, executor, kind) for kind in ("input", "output")] for _ in range(2)]
    for turn, (inputs, outputs) in enumerate(given):
        made: list[int] = []
        for run in range(SETTLED + 3):
            values = FOUND.inputs(run)
            put(driver, inputs, values)
            driver.log.clear()
            executor.run(inputs, outputs=outputs)
            assert ("update_call" in driver.log) == (turn > 0 and run == 0)
            made += [run] if "instantiate" in driver.log else []
            assert (
                driver.log.count("instantiate") == driver.log.count("destroy_executable") or not run
            )
            for name, expected in FOUND.expected(values).items():
                np.testing.assert_array_equal(outputs[name].numpy(), expected)
        assert made == ([0] if turn == 0 else [SETTLED] if pdl else [])


@pytest.mark.parametrize("children", [False, True])
def test_buffers_that_stay_are_no_longer_copied(children: bool):
    driver, executor = start(children=children, updates=0)
    every = [[elsewhere(driver, executor, kind) for kind in ("input", "output")] for _ in range(2)]
    for inputs, outputs in every:
        for run in range(STAYING + 3):
            values = FOUND.inputs(run)
            put(driver, inputs, values)
            driver.log.clear()
            executor.run(inputs, outputs=outputs)
            assert ("copy" in driver.log) == (children or run < STAYING)
            for name, expected in FOUND.expected(values).items():
                np.testing.assert_array_equal(outputs[name].numpy(), expected)


@pytest.mark.parametrize("binding", ["copy", "update", "indirection"])
@pytest.mark.parametrize("given", [False, True])
def test_an_input_may_lie_where_an_output_of_the_run_before_is(binding: str, given: bool):
    """As a state that is fed back: it is copied before the run overwrites it."""
    found = case(32, tasks=8, streams=2)
    names = [a.name for a in found.schedule.allocations if a.kind in ("input", "output")]
    driver, executor = start(found, bindings=dict.fromkeys(names, binding))
    inputs, own = elsewhere(driver, executor, "input"), executor.in_place("output")
    place = max(own.values(), key=lambda array: array.nbytes)
    moved = next(name for name, array in inputs.items() if array.nbytes <= place.nbytes)
    inputs[moved] = DeviceArray(driver, inputs[moved].allocation, place.address, None)
    for run in range(STAYING + 3):
        values = found.inputs(run)
        put(driver, inputs, values)
        results = executor.run(inputs, outputs=own if given else "device")
        for name, expected in found.expected(values).items():
            np.testing.assert_array_equal(results[name].numpy(), expected)


def somewhere(
    driver: RecordingDriver, executor: GpuExecutor, kind: Any, chance: random.Random
) -> dict[str, DeviceArray]:
    """Arrays for some inputs or outputs, most of them anywhere in the executor's own buffers."""
    places = [a for each in ("input", "output") for a in executor.in_place(each).values()]
    start, end = places[0].address, places[-1].address + places[-1].nbytes
    found = elsewhere(driver, executor, kind)
    for array in found.values():
        within = chance.choice((chance.choice(places).address, chance.randrange(start, end, 4)))
        if chance.random() < 0.8:
            array.address = min(within, end - array.nbytes)
    return {name: array for name, array in found.items() if chance.random() < 0.8}


def meet(arrays: dict[str, DeviceArray]) -> bool:
    """Whether two arrays share memory."""
    spans = sorted((each.address, each.nbytes) for each in arrays.values())
    return any(other < start + size for (start, size), (other, _) in pairwise(spans))


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("options", [{}, {"children": True}, {"mode": "streams"}])
@pytest.mark.parametrize("number", [11, 33])
def test_own_buffers_may_be_given_crosswise(number: int, options: dict[str, Any], poison: bool):
    """Whatever memory is shared, results are those of what inputs held when the run started."""
    found, chance = case(number, tasks=8, streams=2, words=200), random.Random(number)
    names = [a.name for a in found.schedule.allocations if a.kind in ("input", "output")]
    for _ in range(3 if options else 9):
        ways = {name: chance.choice(("copy", "update", "indirection")) for name in names}
        ways = {} if options else ways
        driver, executor = start(found, bindings=ways, poison=poison, **options)
        for run in range(12):
            given = [somewhere(driver, executor, kind, chance) for kind in ("input", "output")]
            values, inputs, outputs = found.inputs(run), *given
            values |= {name: array.numpy().view(np.uint32) for name, array in inputs.items()}
            if meet(outputs):
                with pytest.raises(ShapeError, match="share memory: give each its own"):
                    executor.run(values | inputs, outputs=outputs)
                continue
            results = executor.run(values | inputs, outputs=outputs)
            driver.drain()
            for name, expected in found.expected(values).items():
                array = outputs[name].numpy() if name in outputs else results[name]
                np.testing.assert_array_equal(array, expected)


def test_only_inputs_that_the_caller_holds_are_not_poisoned():
    """A task that misses its edge behind the copy of an input from the host reads NaN."""
    driver, executor = start(poison=True)
    own, values = executor.in_place("input"), FOUND.inputs(1)
    put(driver, own, values)
    for name, expected in FOUND.expected(values).items():
        np.testing.assert_array_equal(executor.run(own)[name], expected)
    driver.fills.clear()
    executor.run(values)
    filled = [(start, start + nbytes) for start, _, nbytes in driver.fills]
    for array in (*own.values(), *executor.in_place("output").values()):
        assert any(a <= array.address < array.address + array.nbytes <= b for a, b in filled)


def test_schedules_with_a_crowd_have_kernels_of_their_own(monkeypatch: pytest.MonkeyPatch):
    """Only their functions wish for a division of processors' memory."""
    monkeypatch.setattr(graph_plan, "CROWDED", 1.05)
    found = case(29, tasks=14, streams=4)
    one = replace(
        found.schedule, tasks=tuple(replace(t, stream=0, after=()) for t in found.schedule.tasks)
    )
    driver = RecordingDriver({})
    alone = load(replace(found, schedule=one), driver)
    assert not any("set_smem_carveout" in line for line in driver.log)
    others = [alone.alternative(found.schedule) for _ in range(2)]
    wishes = [line for line in driver.log if "set_smem_carveout" in line]
    assert wishes
    assert len(wishes) == len(set(wishes))
    values = found.inputs(1)
    for executable in (alone, *others):
        for name, expected in found.expected(values).items():
            np.testing.assert_array_equal(executable.run(values)[name], expected)


def test_ways_to_bind_can_be_mixed_and_changed():
    driver, executor = start()
    chance = random.Random(5)
    for run in range(30):
        for name in executor.bindings:
            if chance.random() < 0.3:
                executor.bind_by(name, chance.choice(("copy", "update", "indirection")))
        values = FOUND.inputs(run)
        inputs, outputs = (elsewhere(driver, executor, kind) for kind in ("input", "output"))
        put(driver, inputs, values)
        on_host = chance.random() < 0.3
        results = executor.run(values if on_host else inputs, outputs=outputs)
        for name, expected in FOUND.expected(values).items():
            np.testing.assert_array_equal(results[name].numpy(), expected)


def test_indirection_needs_second_entry_points():
    driver = RecordingDriver(FOUND.functions)
    specs = {
        name: replace(spec, launches=tuple(replace(x, indirect="") for x in spec.launches))
        for name, spec in FOUND.specs(lambda _: b"\x7fELF").items()
    }
    executor = GpuExecutable.load(driver, FOUND.schedule, specs, FOUND.weights).executor()
    assert executor.ways("x0") == ("update", "copy")
    with pytest.raises(DeviceError, match="'x0' cannot be bound by 'indirection', only by update"):
        executor.bind_by("x0", "indirection")


def test_without_indirection_moved_buffers_are_updated_or_copied():
    _, executor = start(indirection=False)
    assert executor.ways("x0") == ("update", "copy")
    with pytest.raises(DeviceError, match="'x0' cannot be bound by 'indirection', only by update"):
        executor.bind_by("x0", "indirection")
    assert "indirection" in start()[1].ways("x0")


def test_the_rule_copies_what_many_nodes_touch():
    _, executor = start(updates=0)
    assert set(executor.bindings.values()) == {"copy"}
    assert set(start(mode="streams", updates=0)[1].bindings.values()) == {"update"}
    assert set(start(children=True)[1].bindings.values()) == {"copy"}


def test_outputs_go_into_given_arrays():
    _, executor = start()
    values = FOUND.inputs(4)
    expected = FOUND.expected(values)
    arrays = {name: np.zeros_like(array) for name, array in expected.items()}
    results = executor.run(values, outputs=arrays)
    for name, array in arrays.items():
        assert results[name] is array
        np.testing.assert_array_equal(array, expected[name])


def test_each_run_may_fill_other_arrays_on_the_host():
    """Equal placements are told by the arrays' identity: numpy compares arrays by elements."""
    _, executor = start()
    values = FOUND.inputs(0)
    expected = executor.run(values)
    for _ in range(3):
        arrays = {name: np.empty_like(array) for name, array in expected.items()}
        executor.run(values, outputs=arrays)
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array)


def test_arrays_on_the_host_that_share_memory_are_refused():
    _, executor = start()
    values = FOUND.inputs(4)
    shapes = {name: array.shape for name, array in FOUND.expected(values).items()}
    both = np.zeros(max(shapes.values())[0] * 2, np.uint32)
    arrays = {name: both[: size[0]] for name, size in shapes.items()}
    with pytest.raises(ShapeError, match="'y0' and 'y1' share memory: give each its own"):
        executor.run(values, outputs=arrays)
    arrays = {name: both[i::2][: size[0]] for i, (name, size) in enumerate(shapes.items())}
    results = executor.run(values, outputs=arrays)
    for name, expected in FOUND.expected(values).items():
        np.testing.assert_array_equal(results[name], expected)


def test_results_outlive_later_runs():
    _, executor = start()
    first = executor.submit(FOUND.inputs(1))
    second = executor.submit(FOUND.inputs(2))
    for run, number in ((second, 2), (first, 1)):
        for name, expected in FOUND.expected(FOUND.inputs(number)).items():
            np.testing.assert_array_equal(run.wait()[name], expected)


def test_another_stream_waits_for_the_run_before():
    driver, executor = start()
    other = driver.create_stream()
    for run in range(6):
        values = FOUND.inputs(run)
        inputs = elsewhere(driver, executor, "input")
        put(driver, inputs, values)
        stream = driver.handle_address(other) if run % 2 else None
        queued = executor.submit(inputs, outputs="device", stream=stream)
        if run == 5:
            for name, expected in FOUND.expected(values).items():
                queued.wait()
                np.testing.assert_array_equal(queued.wait()[name].numpy(), expected)


VALUES = FOUND.inputs(0)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "missing inputs"),
        ({**VALUES, "zzz": VALUES["x0"]}, r"unknown inputs \['zzz'\]"),
        ({**VALUES, "x0": VALUES["x0"].astype(np.float32)}, "'x0' must be uint32"),
        ({**VALUES, "x0": VALUES["x0"][None]}, "'x0' must be uint32"),
    ],
)
def test_wrong_inputs_are_refused(inputs: dict[str, Any], message: str):
    _, executor = start()
    with pytest.raises(ShapeError, match=message):
        executor.run(inputs)


@pytest.mark.parametrize("inputs", [[1, 2], None])
def test_inputs_and_outputs_without_names_are_refused(inputs: Any):
    _, executor = start()
    with pytest.raises(ShapeError, match="pass arrays by name; the model takes 'x0' uint32"):
        executor.run(inputs)
    for outputs in ("torch", [VALUES["x0"]]):
        with pytest.raises(ArgumentError, match="'numpy' or 'device', or arrays by name"):
            executor.run(VALUES, outputs=outputs)


@dataclass
class Strided:
    """Device memory that is not contiguous."""

    __cuda_array_interface__: dict[str, Any]


def test_strided_device_memory_is_refused():
    _, executor = start()
    shape, data = VALUES["x0"].shape, (1 << 56, False)
    array = Strided({"shape": shape, "strides": (8,), "typestr": "<u4", "data": data})
    with pytest.raises(ShapeError, match="make it contiguous"):
        executor.run({**VALUES, "x0": array})


def test_read_only_outputs_and_unknown_options_are_refused():
    _, executor = start()
    array = np.zeros(FOUND.expected(FOUND.inputs(0))["y0"].shape, np.uint32)
    array.flags.writeable = False
    with pytest.raises(ShapeError, match="read-only"):
        executor.run(FOUND.inputs(0), outputs={"y0": array})
    with pytest.raises(DeviceError, match="stream= takes"):
        executor.run(FOUND.inputs(0), stream="main")
    with pytest.raises(ArgumentError, match="mode is str 'warp': it must be 'graph' or 'sub"):
        start(mode="warp")
    with pytest.raises(ArgumentError, match="has no option 'speed'"):
        start(speed=9)


def test_a_closed_executor_says_so_and_all_memory_is_back():
    driver = RecordingDriver({}, memory=1 << 24)
    free = driver.free_memory()
    executable = load(FOUND, driver)
    executor = executable.executor()
    executor.run(FOUND.inputs(0))
    executor.close()
    with pytest.raises(DeviceError, match="closed"):
        executor.run(FOUND.inputs(0))
    del executable, executor
    assert driver.free_memory() == free


def test_a_closed_executable_runs_again():
    driver = RecordingDriver({}, memory=1 << 24)
    executable, values = load(FOUND, driver), FOUND.inputs(0)
    free = driver.free_memory()
    for _ in range(2):
        for name, expected in FOUND.expected(values).items():
            np.testing.assert_array_equal(executable.run(values)[name], expected)
        executable.close()
        executable.close()
        assert driver.free_memory() == free


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "bool", "float8_e4m3fn", "float8_e5m2"])
def test_capsules_of_our_arrays_can_be_read(dtype: str):
    from compiler.backends.gpu import dlpack

    driver = RecordingDriver({})
    allocation = Allocation("output", "y", dtype, (2, 3))
    array = DeviceArray(driver, allocation, driver.allocate(24), None)
    capsule = array.__dlpack__()
    assert dlpack.read(capsule) == (array.address, dtype, (2, 3), None)
    assert dlpack.place_of(capsule) == driver.dlpack_device
    assert dlpack.alive() == 1
    del capsule
    assert dlpack.alive() == 0


def test_a_consumed_capsule_is_freed_by_its_consumer():
    from compiler.backends.gpu import dlpack

    data = np.arange(6, dtype=np.float32)

    class Host:
        def __dlpack__(self, **_: Any) -> Any:
            return dlpack.make(data.ctypes.data, "float32", (2, 3), (1, 0), data)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    array = np.from_dlpack(Host())  # type: ignore[arg-type]
    np.testing.assert_array_equal(array, data.reshape(2, 3))
    assert dlpack.alive() == 1
    del array
    assert dlpack.alive() == 0
