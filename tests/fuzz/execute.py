"""Compiles and runs a case in this process, twice, with fresh memory poisoned."""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import compiler
from compiler.backends.emu.device import device
from compiler.target.target import parse_target
from tests.fuzz.case import Case, Failure
from tests.guard import run_guarded

Array = NDArray[Any]
_M_PERTURB = -6


def poison(byte: int) -> None:
    """Fill what malloc returns from now on with a byte, where the C library can do that."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, byte)


def compiled(case: Case, path: Path | None = None) -> compiler.Module:
    """The module of the case, or of a model at a path.

    One core compiles, so that workers do not disturb each other.
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})
    try:
        options: dict[str, Any] = {"threads": case.threads} if case.target == "cpu" else {}
        if parse_target(case.target).backend == "emu":
            _set_emulator(case)
        return compiler.compile(
            case.model if path is None else path,
            target=case.target,
            pipeline=case.pipeline,
            input_shapes=case.input_shapes,
            semantics=case.semantics,
            check_indices=case.check_indices,
            **options,
        )
    finally:
        os.sched_setaffinity(0, cores)


def _set_emulator(case: Case) -> None:
    """Set the device as the case needs it, whatever ran before: wavefronts have 64 lanes."""
    device().configure(case.seed % 2**64, 64 if ":gfx" in case.target else 32)


def executed(case: Case, path: Path | None = None) -> tuple[dict[str, Array], Failure | None]:
    """The outputs of two runs, and whether any bit of them differs; see `compiled`."""
    module = compiled(case, path)
    try:
        poison(0x5A)
        first = _run(module, case)
        poison(0xA5)
        second = _delayed(module, case).run(case.feeds)
        shared = parse_target(case.target).backend == "cpu" and case.threads != 1
        return first, unlike(first, second, shared=shared)
    finally:
        poison(0)
        module.close()


def _run(module: compiler.Module, case: Case) -> dict[str, Array]:
    """The outputs of a run, which raises GuardError if a guarded operand is left.

    On the CPU only plain schedules are guarded: the guard runs no bodies.
    """
    side: Any = case.guard
    emulated = parse_target(case.target).backend == "emu"
    guarded = side and _is_whole(module)
    if guarded and not emulated:
        guarded = not any(task.control for task in module.schedule.tasks)
    results = run_guarded(module, case.feeds, side) if guarded else module.run(case.feeds)
    return {name: np.array(array) for name, array in results.items()}


def _delayed(module: compiler.Module, case: Case) -> Any:
    """An executor that holds tasks up at random, where the backend has one."""
    emulated = parse_target(case.target).backend == "emu"
    delayed = emulated and _is_whole(module)
    return module.executor(delays=case.seed % 1000) if delayed else module


def _is_whole(module: object) -> bool:
    """Whether a model is one schedule."""
    return isinstance(module, compiler.Module)


def unlike(
    first: Mapping[str, Array], second: Mapping[str, Array], *, shared: bool = False
) -> Failure | None:
    """The first output with a bit that differs between two runs.

    Where threads `shared` loops, all NaNs are alike: a sum of two NaNs has the sign of the one that
    an instruction names first, which is another one in a vector than in the rest of a loop, and the
    rest begins where the threads' shares end.
    """
    for name, array in first.items():
        other = np.asarray(second[name])
        if shared and array.dtype.kind == other.dtype.kind == "f":
            array, other = (np.where(np.isnan(a), a.dtype.type(np.nan), a) for a in (array, other))
        if array.tobytes() != other.tobytes():
            return Failure("unstable", f"output {name!r} differs from run to run")
    return None
