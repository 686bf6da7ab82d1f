"""onnxruntime and OpenVINO on a CPU: how each runs a model, on so many threads."""

from collections.abc import Callable, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from compiler.tools.reference import session

PEERS = ("onnxruntime", "openvino")
"""The distributions of the peers; a model is compared with the first."""

Arrays = Mapping[str, np.ndarray]
Run = Callable[[], dict[str, np.ndarray]]


def present() -> list[str]:
    """The peers that are installed."""
    return [name for name in PEERS if find_spec(name) is not None]


def host(peers: list[str]) -> dict[str, str]:
    """The CPU, and the versions of the peers."""
    return {"cpu": cpu_name(), **{name: metadata.version(name) for name in peers}}


def cpu_name(information: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the CPU, with its family and number where the name says little."""
    if not information.is_file():
        return "unknown"
    pairs = (line.partition(":") for line in information.read_text().splitlines())
    said: dict[str, str] = {}
    for key, _, value in pairs:
        said.setdefault(key.strip(), value.strip())
    if "model name" not in said:
        return "unknown"
    numbers = [f"{key} {said[key]}" for key in ("cpu family", "model") if key in said]
    return ", ".join([said["model name"], *numbers])


def prepare(peer: str, model: onnx.ModelProto, inputs: Arrays, threads: int) -> Run:
    """A run of a model by a peer, on these inputs; raises what the peer raises."""
    return {"onnxruntime": _onnxruntime, "openvino": _openvino}[peer](model, inputs, threads)


def _onnxruntime(model: onnx.ModelProto, inputs: Arrays, threads: int) -> Run:
    found = session(model, threads=threads)
    names = [output.name for output in found.get_outputs()]
    return lambda: dict(zip(names, found.run(None, inputs), strict=True))


def _openvino(model: onnx.ModelProto, inputs: Arrays, threads: int) -> Run:
    import openvino

    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", options)
    request: Any = compiled.create_infer_request()
    names = [output.name for output in model.graph.output]
    positions = {info.any_name: i for i, info in enumerate(compiled.inputs)}
    given = [inputs[name] for name in sorted(inputs, key=lambda name: positions[name])]

    def run() -> dict[str, np.ndarray]:
        found: Any = request.infer(given, share_inputs=True, share_outputs=True)
        return dict(zip(names, found.to_tuple(), strict=True))

    return run
