"""What each kind of case must do: the judgement of one case in this process."""

import os
import re
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

import compiler
from compiler import (
    ArtifactError,
    DeviceError,
    FlowloomError,
    ModelError,
    ShapeError,
    UnsupportedOperatorError,
)
from compiler.artifact.artifact import Artifact
from compiler.artifact.checking import checked_artifacts
from compiler.artifact.manifest import MODEL_FILE, PROGRAM_MANIFEST, format_in, trust_all
from compiler.frontend.importing import Imported, import_model
from compiler.frontend.semantics import Semantics
from compiler.ir.groups import graph_of
from compiler.ir.types import dtype_of, shape_of
from tests.fuzz.case import Case, Failure
from tests.fuzz.chains import check_chain
from tests.fuzz.compare import compared, judges
from tests.fuzz.contents import check_contents
from tests.fuzz.execute import compiled, executed, unlike
from tests.fuzz.exported import check_exported
from tests.fuzz.growing import check_growth
from tests.fuzz.hosted import check_hosted
from tests.fuzz.limits import ends_onnxruntime, limit
from tests.fuzz.oracle import Refused, run_model
from tests.fuzz.outside import MODEL
from tests.fuzz.resealed import reseal
from tests.fuzz.sizes import check_sizes
from tests.guard import GuardError, run_guarded

Array = NDArray[Any]
TensorType = tuple[str, tuple[int, ...]]


class Skipped(Exception):
    """The case cannot be judged; the reason is counted."""


def raised(error: BaseException) -> Failure:
    """An exception as a failure, its names and numbers out of the key."""
    if isinstance(error, GuardError):
        return Failure("outside", str(error))
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|[\d.]+", "", str(error).split("\n")[-1])
    words = " ".join(text.split()[:8])
    return Failure(f"raised {type(error).__name__}: {words}", f"{type(error).__name__}: {error}")


def differential(case: Case) -> Failure | None:
    """A valid model compiles, and its results are those of every judge."""
    try:
        expected = judges(case)
    except Refused as error:
        raise Skipped(f"no judge: {str(error)[:60]}") from error
    try:
        results, unstable = executed(case)
    except Exception as error:  # whatever is raised here is the finding
        return raised(error)
    return unstable or compared(expected, results)


_REFUSALS = (ModelError, ShapeError, UnsupportedOperatorError)
_RUN_EVERY = 8
"""Of the broken models that both sides take, one in so many is compiled and run."""


def invalid(case: Case) -> Failure | None:
    """A broken model is refused in Flowloom's own words, or computes what onnxruntime does."""
    try:
        semantics = Semantics.parse(case.semantics)
        imported = import_model(case.model, case.input_shapes, semantics=semantics)
    except _REFUSALS:
        return None
    except Exception as error:
        return raised(error)
    if ends_onnxruntime(case.proto):
        raise Skipped("onnxruntime crashes")
    try:
        expected = run_model(_specialised(case), case.feeds)
    except Refused as refusal:
        return _accepted(case, str(refusal))
    wrong = _types_differ(case, output_types(imported), expected)
    if wrong or case.seed % _RUN_EVERY:
        return wrong
    try:
        results, unstable = executed(case)
    except _REFUSALS:
        return None
    except Exception as error:
        return raised(error)
    return unstable or _close(case, results)


def output_types(imported: Imported) -> dict[str, TensorType]:
    """The dtype and shape of each output of an imported model."""
    graph = graph_of(imported.module)
    names = [name.data for name in graph.output_names]
    types = [value.type for value in graph.results_yielded]
    return {n: (dtype_of(t), shape_of(t)) for n, t in zip(names, types, strict=True)}


def _types_differ(
    case: Case, types: Mapping[str, TensorType], expected: Mapping[str, Array]
) -> Failure | None:
    for name, found in types.items():
        wanted = np.asarray(expected[name])
        if found != (wanted.dtype.name, wanted.shape):
            message = f"{found[0]}{list(found[1])}, not {wanted.dtype}{list(wanted.shape)}"
            return Failure("wrong type", f"{case.note}: output {name!r}: {message}")
    return None


def _accepted(case: Case, refusal: str) -> Failure | None:
    """What to say of a model that onnxruntime refuses and we import."""
    own = limit(refusal)
    if own is not None:
        raise Skipped(f"onnxruntime's own limit: {own}")
    if _ABOUT_INDICES.search(refusal) and _has_indices_of_run_time(case):
        raise Skipped("indices of run time, which are clamped")
    if "Type Error" in refusal and _has_types_of_a_later_opset(case.proto):
        raise Skipped("types that the operator has from a later opset on, which are taken")
    try:
        results, _ = executed(case)
    except _REFUSALS:
        return None
    except Exception as error:
        return raised(error)
    shapes = {name: array.shape for name, array in results.items()}
    declared = "of output arg" in refusal or case.note.startswith("break_output")
    key = "accepted: an output is not as declared" if declared else "accepted"
    return Failure(key, f"{case.note}: compiled to {shapes}; onnxruntime: {refusal[-300:]}")


def _has_indices_of_run_time(case: Case) -> bool:
    fed = any(array.dtype.kind == "i" for array in case.feeds.values())
    return fed or any(node.op_type in _MAKE_INDICES for node in case.proto.graph.node)


def _has_types_of_a_later_opset(model: onnx.ModelProto) -> bool:
    """Whether the newest schema has the types of a model's inputs, as of Pow of two types."""
    graph = model.graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {info.name: info.type.tensor_type.elem_type for info in graph.input}
    for node in graph.node:
        if node.domain or not onnx.defs.has(node.op_type):
            return False
        formals, bound = onnx.defs.get_schema(node.op_type).inputs, dict[str, str]()
        for index, name in enumerate(node.input):
            if name in types:
                own = f"tensor({onnx.TensorProto.DataType.Name(types[name]).lower()})"
                formal = formals[min(index, len(formals) - 1)]
                if own not in formal.types or bound.setdefault(formal.type_str, own) != own:
                    return False
    return True


_MAKE_INDICES = ("ArgMax", "ArgMin", "MaxPool", "NonZero", "TopK")
_ABOUT_INDICES = re.compile(
    "out of bounds|out of data bounds|invalid ind|index|sequence_lens|sequence length", re.I
)


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


def _close(case: Case, results: Mapping[str, Array]) -> Failure | None:
    try:
        found = compared(judges(case), results)
    except Refused as error:
        raise Skipped("no judge for single nodes") from error
    return found and Failure(found.key, f"{case.note}: {found.message}")


def extreme(case: Case) -> Failure | None:
    """A valid model stays inside its tensors whatever the data are, and is right where defined."""
    try:
        module = compiled(case)
    except _REFUSALS as error:
        raise Skipped("refused") from error
    except Exception as error:
        return raised(error)
    try:
        results = run_guarded(module, case.feeds, "before" if case.seed % 2 else "after")
        again = module.run(case.feeds)
    except Exception as error:
        return raised(error)
    finally:
        module.close()
    try:
        return unlike(results, again) or _close(case, results)
    except Skipped:  # what indices out of range give is not defined; they stayed inside
        return None


_IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Where directories are made and removed much faster than on some disks."""


@contextmanager
def _folder(case: Case, below: str = "") -> Generator[Path, None, None]:
    """The case's files, those of one folder if it is named, and its model, for a while."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_IN_MEMORY) as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(case.model)
        for path, data in case.files.items():
            if not path.startswith(below):
                continue
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


def forged(case: Case) -> Failure | None:
    """A forged directory is refused by loading and by checking, or stands for the same content."""
    with _folder(case, "forged/") as folder:
        place = folder / "forged"
        loaded, checked = _refusal(case, _load, place), _refusal(case, _check, place)
        for failure in (loaded, checked):
            if isinstance(failure, Failure):
                return failure
        if loaded != checked:
            refuses, accepts = ("load", "check") if loaded else ("check", "load")
            return Failure(f"{refuses} alone refuses", f"{case.note}: {accepts} accepts it")
        content = [] if loaded else _content(place)
    if loaded:
        return None
    with _folder(case, "original/") as folder:
        same = content == _content(folder / "original")
    return None if same else Failure("accepted", f"{case.note}: accepted with another content")


def resealed(case: Case) -> Failure | None:
    """An edited artifact with a true seal is refused, or runs to its end with the same bits twice.

    Inputs by other names or of other types are a refusal, too: an edit may give an input others.
    """
    with _folder(case) as folder:
        try:
            reseal(folder)
            module = compiler.load(folder, threads=1)
            first = {name: array.copy() for name, array in module.run(case.feeds).items()}
            again = module.run(case.feeds)
            module.close()
        except FlowloomError:
            return None
        except Exception as error:
            failure = raised(error)
            return Failure(failure.key, f"{case.note}: {failure.message}")
    return unlike(first, again)


def _refusal(case: Case, read: Callable[[Path], object], place: Path) -> bool | Failure:
    """Whether reading a directory is an ArtifactError; the failure of any other error."""
    try:
        read(place)
    except ArtifactError:
        return True
    except Exception as error:
        failure = raised(error)
        return Failure(f"{read.__name__[1:]} {failure.key}", f"{case.note}: {failure.message}")
    return False


def _load(place: Path) -> None:
    """Load a directory, on whatever host where its device is missing, which is seen midway."""
    try:
        compiler.load(place).close()
    except DeviceError as error:
        if "cuda" not in str(error).lower():
            raise
        _check(place)


def _check(place: Path) -> None:
    for _ in checked_artifacts(place, trust_all):
        pass


def _content(place: Path) -> list[object]:
    """All that a saved directory stands for."""
    content: list[object] = []
    for checked in checked_artifacts(place, trust_all):
        saved = checked.artifact
        weights = {n: (a.dtype, a.shape, a.tobytes()) for n, a in saved.weights.items()}
        content += [saved.target, saved.requirements, saved.schedule, weights]
        if isinstance(saved, Artifact):
            content += [saved.kernels, repr(saved.choice), repr(saved.tuning), saved.library]
    if format_in(place) is PROGRAM_MANIFEST:
        manifest = PROGRAM_MANIFEST.read(place, trust_all)
        content += [{k: v for k, v in manifest.items() if k not in ("files", "sha256")}]
        content += [(place / MODEL_FILE).read_bytes()]
    return content


def outside(case: Case) -> Failure | None:
    """Tensors in files, read from another directory, give the bits that those inside give."""
    try:
        inside = executed(case)[0]
    except Exception as error:
        return raised(error)
    with _folder(case) as folder, tempfile.TemporaryDirectory() as other, chdir(other):
        for name in case.files:  # files of these names there must not be read
            (Path(other) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(other) / name).write_bytes(b"\xff" * 64)
        try:
            results = executed(case, folder / MODEL)[0]
        except Exception as error:
            return raised(error)
    return unlike(inside, results)


CHECKS: dict[str, Callable[[Case], Failure | None]] = {
    "graphs": differential,
    "nodes": differential,
    "folding": differential,
    "narrow": differential,
    "shared": differential,
    "outside": outside,
    "invalid": invalid,
    "data": extreme,
    "texts": check_hosted,
    "exported": check_exported,
    "contents": check_contents,
    "chains": check_chain,
    "growth": check_growth,
    "sizes": check_sizes,
    "models": damaged_model,
    "artifacts": damaged_artifact,
    "schedules": damaged_schedule,
    "forged": forged,
    "resealed": resealed,
}
"""The check of each kind of case."""


def check(case: Case) -> Failure | None:
    """The failure of a case, or None; raises Skipped."""
    return CHECKS[case.kind](case)
