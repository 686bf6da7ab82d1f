"""What each kind of case must do: the judgement of one case in this process."""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from onnx import helper

import compiler
from compiler import FlowloomError, ModelError, ShapeError, UnsupportedOperatorError
from compiler.frontend import import_model
from tests.fuzz.case import Case, Failure
from tests.fuzz.compare import Expected, compared
from tests.fuzz.differences import Incomparable
from tests.fuzz.execute import executed
from tests.fuzz.oracle import Refused, run_model


class Skipped(Exception):
    """The case cannot be judged; the reason is counted."""


def raised(error: BaseException) -> Failure:
    """An exception as a failure, its names and numbers out of the key."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|[\d.]+", "", str(error).split("\n")[-1])
    words = " ".join(text.split()[:8])
    return Failure(f"raised {type(error).__name__}: {words}", f"{type(error).__name__}: {error}")


def differential(case: Case) -> Failure | None:
    """A valid model compiles, and its results are the oracle's."""
    try:
        expected = Expected(case.proto, case.feeds)
    except (Refused, Incomparable) as error:
        raise Skipped(f"no oracle: {str(error)[:60]}") from error
    try:
        results, unstable = executed(case)
    except Exception as error:  # whatever is raised here is the finding
        return raised(error)
    return unstable or compared(expected, results)


_REFUSALS = (ModelError, ShapeError, UnsupportedOperatorError)


def invalid(case: Case) -> Failure | None:
    """A broken model is refused in Flowloom's own words, or computes what onnxruntime does."""
    try:
        import_model(case.model, case.input_shapes)
    except _REFUSALS:
        return None
    except Exception as error:
        return raised(error)
    try:
        expected = run_model(_specialised(case), case.feeds)
    except Refused as refusal:
        return _accepted(case, str(refusal))
    try:
        results, unstable = executed(case)
    except _REFUSALS:
        return None
    except Exception as error:
        return raised(error)
    return unstable or _close(case, results, expected)


def _accepted(case: Case, refusal: str) -> Failure | None:
    """What to say of a model that onnxruntime refuses and we import."""
    try:
        results, _ = executed(case)
    except _REFUSALS:
        return None
    except Exception as error:
        return raised(error)
    shapes = {name: array.shape for name, array in results.items()}
    if re.search("NOT_IMPLEMENTED|Could not find an implementation|not supported", refusal):
        raise Skipped("onnxruntime has no kernel")
    return Failure("accepted", f"{case.note}: compiled to {shapes}; onnxruntime: {refusal[:300]}")


def _specialised(case: Case) -> bytes:
    """The model with its inputs' shapes written into it."""
    if not case.input_shapes:
        return case.model
    proto = case.proto
    for info in proto.graph.input:
        if info.name in case.input_shapes:
            element = info.type.tensor_type.elem_type
            shape = case.input_shapes[info.name]
            info.CopyFrom(helper.make_tensor_value_info(info.name, element, shape))
    return proto.SerializeToString()


def _close(case: Case, results, expected) -> Failure | None:
    for name, array in results.items():
        wanted = np.asarray(expected[name])
        if array.dtype != wanted.dtype or array.shape != wanted.shape:
            found = f"{array.dtype}{list(array.shape)}, not {wanted.dtype}{list(wanted.shape)}"
            return Failure("wrong", f"{case.note}: output {name!r}: {found}")
    try:
        return compared(Expected(case.proto, case.feeds), results)
    except (Refused, Incomparable) as error:
        raise Skipped("no oracle for single nodes") from error


@contextmanager
def _folder(case: Case) -> Iterator[Path]:
    """The case's files, and its model, in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(case.model)
        for path, data in case.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        yield folder


def damaged_model(case: Case) -> Failure | None:
    """A damaged model is imported, or refused in Flowloom's own words."""
    with _folder(case) as folder:
        try:
            import_model(folder / "model.onnx" if case.files else case.model)
        except FlowloomError:
            return None
        except Exception as error:
            return raised(error)
    return None


def damaged_artifact(case: Case) -> Failure | None:
    """A damaged artifact loads and runs as before, or is refused in Flowloom's own words."""
    with _folder(case) as folder:
        try:
            module = compiler.load(folder / "artifact", threads=1)
            module.run(case.feeds)
            module.close()
        except FlowloomError:
            return None
        except Exception as error:
            return raised(error)
    return None


def damaged_schedule(case: Case) -> Failure | None:
    """A damaged file of a schedule or of constraints compiles, or is refused."""
    with _folder(case) as folder:
        try:
            compiler.compile(case.model, schedule=folder / "schedule.json", threads=1)
        except FlowloomError:
            return None
        except Exception as error:
            return raised(error)
    return None


CHECKS: dict[str, Callable[[Case], Failure | None]] = {
    "graphs": differential,
    "nodes": differential,
    "folding": differential,
    "invalid": invalid,
    "models": damaged_model,
    "artifacts": damaged_artifact,
    "schedules": damaged_schedule,
}
"""The check of each kind of case."""


def check(case: Case) -> Failure | None:
    """The failure of a case, or None; raises Skipped."""
    return CHECKS[case.kind](case)
