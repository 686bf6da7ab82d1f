"""A small model exported as a project, and the ways to build it."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper, parser

import compiler
from compiler.artifact import artifact
from compiler.artifact.generate import StoredCheck, export_project
from compiler.target.target import parse_target
from compiler.tools.inputs import random_inputs
from compiler.tools.reference import run_onnxruntime
from compiler.tools.tolerance import TOLERANCES
from tests.artifact.code_objects import resources
from tests.tools import needs

Array = NDArray[Any]

needs_cmake = needs("cmake", "g++")
needs_nvcc = needs("cmake", "g++", "nvcc")
needs_hipcc = needs("cmake", "hipcc")
HIP = {"HIP_PLATFORM": "amd"}
WITHOUT_OPTIMISATION = ("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0")
"""For quick builds with assertions; objects without debug data are kept by their content."""

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
branches (float[1,8,10,10] x, float[1,8,10,10] y) => (float[1,14,10,10] image, float[1,8] row)
{
    convolved = Conv<pads = [1,1,1,1]> (x, w1)
    left = Relu (convolved)
    right = Conv (y, w2)
    joined = Add (left, right)
    last = Conv<pads = [1,1,1,1]> (joined, w3)
    image = Concat<axis = 1> (joined, last)
    mean = GlobalAveragePool (right)
    flat = Flatten (mean)
    row = Softmax (flat)
}
"""
WEIGHTS = {"w1": (8, 8, 3, 3), "w2": (8, 8, 1, 1), "w3": (6, 8, 3, 3)}

VISION = """
<ir_version: 10, opset_import: ["" : 20]>
vision (float[1,8,16,16] x) => (float[1,32,4,4] image, float[1,16,32] tokens)
{
    patches = Conv<kernel_shape = [4,4], strides = [4,4]> (x, stem)
    active = Relu (patches)
    convolved = Conv<kernel_shape = [3,3], pads = [1,1,1,1]> (active, filter)
    image = Add (convolved, active)
    flat = Reshape (image, pixels)
    first = Transpose<perm = [0,2,1]> (flat)
    normed = LayerNormalization (first, scale)
    q = MatMul (normed, wq)
    k = MatMul (normed, wk)
    v = MatMul (normed, wv)
    q_split = Reshape (q, heads)
    k_split = Reshape (k, heads)
    v_split = Reshape (v, heads)
    q_heads = Transpose<perm = [0,2,1,3]> (q_split)
    k_heads = Transpose<perm = [0,2,3,1]> (k_split)
    v_heads = Transpose<perm = [0,2,1,3]> (v_split)
    scores = MatMul (q_heads, k_heads)
    shares = Softmax (scores)
    mixed = MatMul (shares, v_heads)
    back = Transpose<perm = [0,2,1,3]> (mixed)
    joined = Reshape (back, width)
    projected = MatMul (joined, wo)
    second = Add (projected, first)
    tokens = Gelu (second)
}
"""
VISION_WEIGHTS: dict[str, tuple[int, ...]] = {
    "stem": (32, 8, 4, 4),
    "filter": (32, 32, 3, 3),
    "scale": (32,),
    **dict.fromkeys(("wq", "wk", "wv", "wo"), (32, 32)),
}
VISION_SHAPES = {"pixels": (1, 32, 16), "heads": (1, 16, 2, 16), "width": (1, 16, 32)}


def small_model(seed: int = 0) -> ModelProto:
    """Two branches that meet, with weights drawn from a seed."""
    return _filled(MODEL, WEIGHTS, seed)


def vision_model() -> ModelProto:
    """A convolutional network, whose pixels go through one layer of a transformer."""
    model = _filled(VISION, VISION_WEIGHTS, 0)
    for name, shape in VISION_SHAPES.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(shape), name))
    return model


def _filled(text: str, weights: Mapping[str, tuple[int, ...]], seed: int) -> ModelProto:
    model = parser.parse_model(text)
    chance = np.random.default_rng(seed)
    for name, shape in weights.items():
        values = (chance.standard_normal(shape) / 4).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def export(model: Any, place: Path, target: str = "emu:sm_80:fp32") -> StoredCheck:
    """Compile for two streams and export, with onnxruntime's outputs; what was stored."""
    pipeline = compiler.DEFAULT_PIPELINE.replace("streams=4", "streams=2")
    module = compiler.compile(model, target=target, pipeline=pipeline, budget=0)
    module.save(place.parent / f"{place.name}-artifact")
    found = read_artifact(place.parent / f"{place.name}-artifact")
    inputs = random_inputs(module, 1)
    tolerance = TOLERANCES[parse_target(module.target).precision]
    check = StoredCheck(inputs, run_onnxruntime(model, inputs), tolerance)
    emulator = parse_target(module.target).is_gpu
    export_project(found, place, version="0.1.0", check=check, emulator=emulator)
    return check


def read_artifact(directory: Path) -> artifact.Artifact:
    """An artifact, whatever it needs to run."""

    def check(target: str, requirements: Any) -> None:
        pass

    return artifact.load(directory, check)


def build(project: Path, gpu: str, *options: str, name: str = "build", target: str = "all") -> Path:
    """Build for CUDA, HIP or EMU with warnings as errors; the folder."""
    folder = project / name
    chosen = [f"-DFLOWLOOM_GPU={gpu}", "-DFLOWLOOM_WERROR=ON", *options]
    if gpu == "HIP":
        chosen.append("-DCMAKE_CXX_COMPILER=hipcc")
    if gpu == "CUDA" and "CMAKE_CUDA_COMPILER_LAUNCHER" in os.environ:
        # CMake reads the variable when the language is enabled, which is after the kernels' target
        launcher = os.environ["CMAKE_CUDA_COMPILER_LAUNCHER"]
        chosen.append(f"-DCMAKE_CUDA_COMPILER_LAUNCHER={launcher}")
    run("cmake", "-S", project, "-B", folder, *chosen)
    run("cmake", "--build", folder, "-j2", "--target", target)
    return folder


def run(*words: str | Path, **environment: str) -> str:
    """The output of a command that must succeed."""
    ran = attempt(*words, **environment)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    return ran.stdout


def attempt(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A finished command."""
    words = tuple(map(str, words))
    settings = {**os.environ, **HIP, **environment}
    return subprocess.run(words, capture_output=True, text=True, env=settings, check=False)


def hip_spills(folder: Path, *architectures: str) -> dict[str, int]:
    """Spilled registers by kernel and architecture, from the notes of the code objects."""
    found = resources(folder / "libflowloom.so")
    assert {name.split()[0] for name in found} == set(architectures)
    return {name: spilled for name, spilled in found.items() if spilled}
