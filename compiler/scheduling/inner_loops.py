"""The inner loops of simulation and search, in C: `inner_loops.c` says how.

Arrays are contiguous; those of a schedule's state are
`order`, the tasks by place; `streams`, by task; and `fused`, by place: whether its task is in the
partition of the place before. A DAG is two arrays: task v's neighbours are
`items[first[v]:first[v + 1]]`.
"""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.ctypeslib import ndpointer

from compiler.scheduling.arrays import Booleans, Floats, Integers

CODE = Path(__file__).with_name("inner_loops.ll")

_State = tuple[Integers, Integers, Booleans]
_Edges = tuple[Integers, Integers]
_Tasks = tuple[Floats, Floats, Floats]
"""Each task's ns alone, its demand (slots, interference and traffic in rows), its delay in ns."""
_Latencies = tuple[float, float, float]
"""Nanoseconds of a graph's launch, between launches, and for each awaited stream."""

_INTEGERS, _FLOATS = (ndpointer(t, flags="C_CONTIGUOUS") for t in (np.int64, np.float64))
_INT64 = ctypes.c_int64
_REAL = ctypes.c_double
_ADDRESS = ctypes.c_void_p


class _CLists(ctypes.Structure):
    _fields_ = [("first", _ADDRESS), ("items", _ADDRESS)]


class _CState(ctypes.Structure):
    _fields_ = [("order", _ADDRESS), ("streams", _ADDRESS), ("fused", _ADDRESS)]


class _CWorkload(ctypes.Structure):
    _fields_ = [
        ("count", _INT64),
        *((name, _ADDRESS) for name in ("cost", "slots", "disturbance", "traffic")),
    ]


class _CDeviceRun(ctypes.Structure):
    _fields_ = [
        ("work", _CWorkload),
        ("delay", _ADDRESS),
        *((name, _REAL) for name in ("graph", "gap", "awaited")),
    ]


_STATE, _LISTS, _RUN = (ctypes.POINTER(kind) for kind in (_CState, _CLists, _CDeviceRun))

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "simulate": (
        None,
        *(ctypes.POINTER(_CWorkload), _INT64, _INTEGERS, _INTEGERS, _INTEGERS, _FLOATS, _FLOATS),
        *(_REAL, _REAL, _FLOATS, _FLOATS),
    ),
    "kept_edges": (_INT64, _INT64, _STATE, _LISTS, _INTEGERS),
    "makespan": (_REAL, _RUN, _STATE, _INT64, _INTEGERS),
    "change": (ctypes.c_int, _INT64, _INTEGERS, _INT64, _STATE, _LISTS, _LISTS),
    "improve": (_INT64, _RUN, _INT64, _INTEGERS, _INT64, _STATE, _LISTS, _LISTS),
}
"""The type of each function's result, and of its arguments; calls release Python's lock."""


def _function(name: str) -> Any:
    from compiler.support.native_code import native_function

    return native_function(CODE, name, *_SIGNATURES[name])


def compile_loops() -> None:
    """Compile the functions, which takes about half a second, once in a process."""
    _function("simulate")


def simulate(
    tasks: _Tasks,
    state: tuple[Integers, Integers],
    edges: Integers,
    release: Floats,
    rates: tuple[float, float],
) -> tuple[Floats, Floats]:
    """Start and end of every task in ns; infinite for tasks that wait for each other in a cycle.

    `state` is the order and the streams, `edges` an array of pairs, to which those of the streams
    are added. A task is queued at its `release`; `rates` are the last two of `_Latencies`.
    """
    costs, demands, delays = tasks
    order, streams = state
    count = len(costs)
    work = _workload(costs, demands)
    # The loop appends the streams' edges: each task follows one other at most on its stream.
    buffer = np.concatenate([edges, np.empty((count, 2), np.int64)])
    start, end = np.empty(count), np.empty(count)
    arrays = (buffer, order, streams, release, delays)
    _function("simulate")(work, len(edges), *arrays, *rates, start, end)
    return start, end


def kept_edges(state: _State, incoming: _Edges) -> Integers:
    """The waits that `elide-sync` leaves, as pairs of tasks: by vector clocks, in launch order."""
    edges = np.empty((len(incoming[1]), 2), np.int64)
    count = _function("kept_edges")(len(state[0]), _state(state), _lists(incoming), edges)
    return edges[:count]


def run_time(state: _State, edges: Integers, tasks: _Tasks, latencies: _Latencies) -> float:
    """The ns of one run as one graph; infinite for a cycle."""
    buffer = np.concatenate([edges, np.empty((len(state[0]), 2), np.int64)])
    return _function("makespan")(_run(tasks, latencies), _state(state), len(edges), buffer)


def change(dice: Integers, width: int, state: _State, incoming: _Edges, outgoing: _Edges) -> bool:
    """Change a schedule in place by one legal move that four numbers choose; False for none."""
    graph = _lists(incoming), _lists(outgoing)
    return bool(_function("change")(len(state[0]), dice, width, _state(state), *graph))


def improve(
    chances: Integers,
    width: int,
    state: _State,
    incoming: _Edges,
    outgoing: _Edges,
    tasks: _Tasks,
    latencies: _Latencies,
) -> int:
    """Try a move a row of `chances`, in place; those that do not shorten the run are undone.

    Of equally long runs, the one whose tasks end earlier on average is kept. Returns the number of
    moves kept.
    """
    run = _run(tasks, latencies)
    graph = (_lists(incoming), _lists(outgoing))
    return _function("improve")(run, len(chances), chances, width, _state(state), *graph)


def _address(array: Floats | Integers | Booleans) -> int:
    if not array.flags.c_contiguous:
        raise ValueError("an array of a schedule is not contiguous")
    return array.ctypes.data


def _lists(edges: _Edges) -> _CLists:
    return _CLists(*map(_address, edges))


def _state(state: _State) -> _CState:
    return _CState(*map(_address, state))


def _workload(costs: Floats, demands: Floats) -> _CWorkload:
    return _CWorkload(len(costs), _address(costs), *map(_address, demands))


def _run(tasks: _Tasks, latencies: _Latencies) -> _CDeviceRun:
    return _CDeviceRun(_workload(*tasks[:2]), _address(tasks[2]), *latencies)
