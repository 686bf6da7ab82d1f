"""ONNX's node cases, run in processes that a case may end.

python -m tests.pages.onnx_nodes TARGET    # reads cases with their operators, writes results
"""

import json
import pickle
import signal
import subprocess
import sys
import warnings
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, cast

import onnx
from onnx import numpy_helper

from compiler.backend import FlowloomBackend
from compiler.errors import FlowloomError
from compiler.support.caches import compiled_once, package_version
from compiler.target.target import parse_target

Outcome = Literal["right", "refused", "wrong", "crashed"]

SECONDS = 60
"""The longest that a case may take."""

MATRIX_OPTIONS = {"precision": "fp32", "budget": 0}
"""Options of targets with several precisions, whose schedules are measured by default."""

NodeCase = Any
"""onnx's TestCase, whose fields have no types."""


@dataclass(frozen=True)
class CaseResult:
    """One case: its name, the operator that it is about, and what became of it."""

    name: str
    operator: str
    outcome: Outcome
    reason: str = ""
    on_host: bool = False
    """Whether a node ran on the host instead of as a kernel."""
    opset: int = 0
    """The version of the first node's operator."""


def node_cases(only: Sequence[str] = ()) -> dict[str, NodeCase]:
    """The node cases of the installed onnx by name, those of some operators if any are named."""
    every = _every_case()
    return {
        name: case for name, case in every.items() if not only or operator_of(name, every) in only
    }


@cache
def _every_case() -> dict[str, NodeCase]:
    """Each case by name: kept between runs of the tests, as onnx computes results in Python."""
    versions = [f"{name} {package_version(name)}" for name in ("onnx", "numpy", "ml_dtypes")]
    cases = compiled_once(lambda: pickle.dumps(_collected()), (_collected,), "nodes", *versions)
    return pickle.loads(cases)


def _collected() -> dict[str, NodeCase]:
    """The cases, whose inputs onnx draws from a fixed seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: Any = import_module("onnx.backend.test.case.node")
        return {case.name: case for case in cast(list[NodeCase], module.collect_testcases(None))}


def operator_of(name: str, cases: Mapping[str, NodeCase]) -> str:
    """The operator that a case is about: of an expanded one, that whose function's body it is."""
    case = cases.get(name.partition("_expanded")[0], cases[name])
    nodes = case.model.graph.node
    node = nodes[-1 if name.startswith("test_sequence") else 0]
    return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


def version_of(case: NodeCase) -> int:
    """The opset that gave a case's first node its present form; 0 for an unknown operator."""
    node = case.model.graph.node[0]
    opsets = {entry.domain: entry.version for entry in case.model.opset_import}
    if not onnx.defs.has(node.op_type, opsets.get(node.domain, 0), node.domain):
        return 0
    return onnx.defs.get_schema(node.op_type, opsets[node.domain], node.domain).since_version


def options_for(target: str) -> dict[str, Any]:
    """The options of a target that the cases' tolerances ask for; nothing is measured."""
    return {} if parse_target(target).backend in ("cpu", "hip") else MATRIX_OPTIONS


def run_case(case: NodeCase, operator: str, target: str = "cpu") -> CaseResult:
    """Compile a case, run its data, and compare."""
    from onnx.backend.test.runner import Runner

    result = partial(CaseResult, case.name, operator, opset=version_of(case))
    try:
        compiled = FlowloomBackend.prepare(case.model, target=target, **options_for(target))
        for inputs, expected in case.data_sets:
            outputs = compiled.run(_arrays(inputs))
            pairs = [*_flat(_arrays(expected))], [*_flat(outputs)]
            Runner.assert_similar_outputs(*pairs, case.rtol, case.atol)
    except FlowloomError as error:
        return result("refused", str(error))
    except AssertionError as error:
        return result("wrong", " ".join(str(error).split()))
    except Exception as error:  # any other one is a defect
        return result("crashed", f"{type(error).__name__}: {error}")
    return result("right", on_host=compiled.runs_on_host)


def _arrays(values: Iterable[Any]) -> list[Any]:
    """Values of a case; those of types that NumPy has not come as protobufs."""
    return [
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        for value in values
    ]


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """The tensors of values and of the sequences among them."""
    for value in values:
        if isinstance(value, list):
            yield from _flat(cast(list[Any], value))
        else:
            yield value


def serve_cases(target: str) -> None:
    """Run the cases that come by line, one JSON line each; an alarm ends the process."""
    for line in sys.stdin:
        case, operator = pickle.loads(b64decode(line))
        signal.alarm(SECONDS)
        found = run_case(case, operator, target)
        signal.alarm(0)
        print(json.dumps(asdict(found)), flush=True)


class CaseServer:
    """A process that runs cases, and is started again after a case that ends it."""

    def __init__(self, target: str, cases: Mapping[str, NodeCase]):
        self._target, self._cases = target, cases
        self._process: subprocess.Popen[str] | None = None

    def run(self, name: str) -> CaseResult:
        """The result of a case."""
        operator = operator_of(name, self._cases)
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            sent = pickle.dumps((self._cases[name], operator))
            process.stdin.write(f"{b64encode(sent).decode()}\n")
            process.stdin.flush()
        if line := process.stdout.readline():
            return CaseResult(**json.loads(line))
        self.close()
        why = f"took over {SECONDS} s" if process.returncode == -signal.SIGALRM else "ended"
        return CaseResult(name, operator, "crashed", f"it {why}")

    def _started(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", __spec__.name, self._target]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


def results(names: Sequence[str], jobs: int, target: str = "cpu") -> Iterator[CaseResult]:
    """The results of cases as they come, by several processes."""
    cases = node_cases()
    waiting, found = deque(names), SimpleQueue[CaseResult]()
    with ThreadPoolExecutor(jobs) as pool:
        for _ in range(jobs):
            pool.submit(_work, CaseServer(target, cases), waiting, found)
        for _ in names:
            yield found.get()


def _work(server: CaseServer, waiting: "deque[str]", found: "SimpleQueue[CaseResult]") -> None:
    """Run what waits until nothing does."""
    with suppress(IndexError):
        while True:
            found.put(server.run(waiting.popleft()))
    server.close()


def read_results(file: Path) -> list[CaseResult]:
    """The results that a run wrote, in the order of the cases."""
    found = [CaseResult(**json.loads(line)) for line in file.read_text().splitlines()]
    place = {name: number for number, name in enumerate(node_cases())}
    return sorted(found, key=lambda result: place[result.name])


def run_cases(names: Sequence[str], jobs: int, target: str, file: Path) -> None:
    """Append the results of cases to a file as they come, those that it has already left out."""
    known = {result.name for result in read_results(file)} if file.exists() else set[str]()
    with file.open("a") as lines:
        for result in results([name for name in names if name not in known], jobs, target):
            lines.write(json.dumps(asdict(result)) + "\n")
            lines.flush()


if __name__ == "__main__":
    serve_cases(sys.argv[1])
