"""Modules can be pickled, copied and sent to other processes."""

import copy
import pickle
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import numpy
import pytest

from compiler.artifact.artifact import Artifact
from compiler.artifact.module import Module
from compiler.backends.memory import address
from compiler.errors import KernelError
from compiler.verify.certificate import certified
from tests.backends.objects import chain, kernels, values

COPIES: list[Callable[[Module], Module]] = [
    lambda module: pickle.loads(pickle.dumps(module)),
    copy.deepcopy,
    copy.copy,
]


def module(length: int = 3) -> Module:
    return Module(Artifact("cpu", chain(length), kernels(), {"w": values(1)}), threads=2)


def run(given: Module) -> Any:
    return given.run({"x": values(2)})["y"]


@pytest.mark.parametrize("state", ["new", "run", "closed"])
@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_computes_the_same(copied: Callable[[Module], Module], state: str):
    original = module()
    expected = run(module())
    if state != "new":
        run(original)
    if state == "closed":
        original.close()
    other = copied(original)
    original.close()
    numpy.testing.assert_array_equal(run(other), expected)
    assert other.threads == 2
    assert (other.schedule, other.kernels) == (original.schedule, original.kernels)
    assert other.requirements == original.requirements
    numpy.testing.assert_array_equal(run(original), expected)


def test_unpickled_weights_are_aligned():
    loaded: Any = pickle.loads(pickle.dumps(module()))
    for array in loaded.weights.values():
        assert address(array) % 64 == 0


def test_the_weights_of_a_deep_copy_are_its_own():
    original: Any = module()
    other: Any = copy.deepcopy(original)
    original.weights["w"][:] = 0
    numpy.testing.assert_array_equal(run(other), run(module()))


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_a_module_runs_in_other_processes(start: str):
    given = module()
    expected = run(given)
    with get_context(start).Pool(1) as pool:
        numpy.testing.assert_array_equal(pool.apply(run, (given,)), expected)


def test_a_module_for_a_missing_device_can_be_copied():
    given = Module(Artifact("cuda:sm_90:tf32", chain(), kernels(), {"w": values(1)}))
    other = pickle.loads(pickle.dumps(given))
    assert other.target == "cuda:sm_90:tf32"


def test_an_edited_pickle_is_checked_again():
    schedule, known = chain(), kernels()
    checked = certified(schedule, known)
    given = Module(Artifact("cpu", schedule, known, {"w": values(1)}, certificate=checked))
    data = pickle.dumps(given)
    code = next(iter(known.values())).code
    middle = len(code) // 2
    edited = code[:middle] + bytes([code[middle] ^ 1]) + code[middle + 1 :]
    assert data.count(code) == 1
    assert run(pickle.loads(data)).shape
    with pytest.raises(KernelError):
        pickle.loads(data.replace(code, edited))
