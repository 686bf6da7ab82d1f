"""Other runtimes of ONNX models, as `flowloom compare` and the benchmarks run them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compiler.backends.memory import Array
from compiler.errors import MissingExtraError, ModelError
from compiler.tools.reference import session

PEERS = ("onnxruntime", "openvino")
"""The distributions of the peers."""

ModelRun = Callable[[], dict[str, Array]]


def present() -> list[str]:
    """The peers that are installed."""
    return [name for name in PEERS if find_spec(name) is not None]


def check_peer(peer: str) -> None:
    """Raise MissingExtraError for a peer that is not installed."""
    if find_spec(peer) is None:
        raise MissingExtraError(f"{peer} is not installed: pip install {peer}")


def prepare_peer(
    peer: str, model: Any, inputs: Mapping[str, Array], threads: int, *, provider: str = "CPU"
) -> ModelRun:
    """A run of a model (a path or a ModelProto) by a peer, on these inputs and so many threads.

    `provider` is onnxruntime's execution provider, without its suffix. Raises ModelError for a
    model that the peer refuses or a provider that is missing, MissingExtraError without the peer.
    """
    check_peer(peer)
    if peer == "onnxruntime":
        return _onnxruntime(model, inputs, threads, provider)
    if provider != "CPU":
        raise ModelError(f"{peer} is compared on CPUs alone: leave it out, or use --target cpu")
    try:
        return _openvino(model, inputs, threads)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{peer} refuses the model: {reason}") from error


def _onnxruntime(model: Any, inputs: Mapping[str, Array], threads: int, provider: str) -> ModelRun:
    opened = session(model, threads=threads, provider=provider)
    names = [output.name for output in opened.get_outputs()]
    return lambda: dict(zip(names, opened.run(None, inputs), strict=True))


def _openvino(model: Any, inputs: Mapping[str, Array], threads: int) -> ModelRun:
    openvino: Any = import_module("openvino")
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        # its default rounds to bfloat16 where the CPU has that, and the others do not
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    # a path keeps its folder, where external data is
    source = str(model) if isinstance(model, Path | str) else model.SerializeToString()
    compiled = core.compile_model(core.read_model(source), "CPU", options)
    request: Any = compiled.create_infer_request()
    names = [output.any_name for output in compiled.outputs]
    positions = {info.any_name: i for i, info in enumerate(compiled.inputs)}
    ordered = [inputs[name] for name in sorted(inputs, key=lambda name: positions[name])]

    def run() -> dict[str, Array]:
        results: Any = request.infer(ordered, share_inputs=True, share_outputs=True)
        return dict(zip(names, results.to_tuple(), strict=True))

    return run
