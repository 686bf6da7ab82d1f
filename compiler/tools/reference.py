"""onnxruntime's outputs of the same model: the reference of `--check` and of the benchmarks."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from compiler.backends.memory import Array
from compiler.errors import ModelError


class Refusal(ModelError):
    """onnxruntime cannot load or run the model, so there is nothing to compare with."""


def session(
    model: Any, threads: int | None = None, *, optimised: bool = True, provider: str = "CPU"
) -> Any:
    """An onnxruntime session of a path, bytes or ModelProto; raises Refusal.

    It runs on the CPU, or by another execution provider, such as "CUDA", which must be installed.
    """
    import onnxruntime as untyped

    onnxruntime: Any = untyped
    providers = list(dict.fromkeys([f"{provider}ExecutionProvider", "CPUExecutionProvider"]))
    if providers[0] not in onnxruntime.get_available_providers():
        raise Refusal(f"onnxruntime has no {provider} provider here: install a build that has it")
    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # failures are raised
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    source = str(model) if isinstance(model, Path | str) else model
    try:
        with tempfile.TemporaryDirectory() as folder:
            if not isinstance(source, str | bytes):
                source = _serialized(source, Path(folder))
            opened = onnxruntime.InferenceSession(source, options, providers=providers)
    except Exception as error:
        raise Refusal(f"onnxruntime refuses to load the model: {_one_line(error)}") from error
    # a provider whose libraries do not load is replaced by the CPU's, with a line in a log
    if opened.get_providers()[0] != providers[0]:
        raise Refusal(f"onnxruntime's {provider} provider does not start: see its requirements")
    return opened


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def _serialized(model: Any, folder: Path) -> str | bytes:
    """A model's bytes, or the path of a copy with external data beyond protobuf's 2 GB."""
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) < 1 << 30:
        return model.SerializeToString()
    import onnx

    copied = type(model)()
    path = folder / "model.onnx"
    copied.CopyFrom(model)
    cast(Any, onnx).save(copied, path, save_as_external_data=True)
    return str(path)


def run_onnxruntime(model: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """onnxruntime's outputs by name, without its optimisations; raises Refusal.

    It gets one thread, as on several its ScatterND loses additions to the same element.
    """
    reference = session(model, threads=1, optimised=False)
    names = [output.name for output in reference.get_outputs()]
    try:
        outputs = reference.run(None, dict(inputs))
    except Exception as error:
        raise Refusal(f"onnxruntime refuses to run the model: {_one_line(error)}") from error
    types = [output.type for output in reference.get_outputs()]
    return {n: _typed(o, t) for n, o, t in zip(names, outputs, types, strict=True)}


def _typed(output: Any, type: str) -> Any:
    """An output in the type that onnxruntime says; it gives the bytes of float8 as integers."""
    if not type.startswith("tensor(float8"):
        return output
    return output.view(type.removeprefix("tensor(").rstrip(")").replace("float8", "float8_"))
