"""Modules of target `hip` whose libraries are built for the emulator in place of a GPU."""

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper, parser

from compiler.artifact.artifact import Artifact
from compiler.artifact.generate import export_project
from compiler.artifact.module import Module
from compiler.backends.hip.build import load_library
from compiler.backends.hip.executable import HipExecutable
from compiler.driver.build import Build
from compiler.driver.build import build as build_model
from compiler.driver.settings import Settings
from compiler.verify.seals import sealed_library
from tests.artifact.projects import WITHOUT_OPTIMISATION, build

Array = NDArray[Any]

IMAGE = """
    convolved = Conv<pads = [1,1,1,1]> (x, w1)
    left = Relu (convolved)
    right = Conv (x, w2)
    joined = Add (left, right)
    last = Conv<pads = [1,1,1,1]> (joined, w3)
    image = Concat<axis = 1> (joined, last)
"""
TOKENS = """
    embedded = Gather (table, ids)
    normal = LayerNormalization (embedded, scale, bias)
    q = MatMul (normal, wq)
    k = MatMul (normal, wk)
    v = MatMul (normal, wv)
    turned = Transpose<perm = [0,2,1]> (k)
    scores = MatMul (q, turned)
    chances = Softmax<axis = -1> (scores)
    mixed = MatMul (chances, v)
    summed = Add (mixed, embedded)
    wide = MatMul (summed, wf)
    active = Gelu (wide)
    tokens = MatMul (active, wo)
"""
HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
TEXTS = {
    "image": f"{HEAD}image (float[1,8,10,10] x) => (float[1,14,10,10] image) {{{IMAGE}}}",
    "tokens": f"{HEAD}tokens (int64[1,12] ids) => (float[1,12,32] tokens) {{{TOKENS}}}",
    "both": f"{HEAD}both (float[1,8,10,10] x, int64[1,12] ids) =>"
    f" (float[1,14,10,10] image, float[1,12,32] tokens) {{{IMAGE}{TOKENS}}}",
}
WEIGHTS = {
    **{"w1": (8, 8, 3, 3), "w2": (8, 8, 1, 1), "w3": (6, 8, 3, 3)},
    **{"table": (5, 32), "scale": (32,), "bias": (32,)},
    **{"wq": (32, 32), "wk": (32, 32), "wv": (32, 32), "wf": (32, 64), "wo": (64, 32)},
}


def model(name: str) -> ModelProto:
    """A small network of images, one layer of a transformer, or both side by side."""
    found = parser.parse_model(TEXTS[name])
    used = {each for node in found.graph.node for each in node.input}
    chance = np.random.default_rng(7)
    for weight, shape in WEIGHTS.items():
        values = (chance.standard_normal(shape) / 4).astype(np.float32)
        if weight in used:
            found.graph.initializer.append(numpy_helper.from_array(values, weight))
    return found


def generated(network: ModelProto, target: str) -> Build:
    """A model compiled for HIP up to the HIP compiler: its kernels have text and no code."""
    with (
        patch("compiler.kernels.building.cuda_kernel.compile_hip", lambda *_: b""),  # pyright: ignore
        patch("compiler.kernels.building.module.hip_generator", str),
        patch("compiler.driver.build.with_library", lambda built, cache: built),  # pyright: ignore
    ):
        return build_model(network, None, Settings(target, jobs=1))


def artifact_of(built: Build, library: bytes = b"") -> Artifact:
    """What is saved of a module."""
    needed = built.requirements or {"architectures": ["gfx90a"], "machine": "x86_64"}
    if library and built.certificate is not None:
        library = sealed_library(library, built.certificate.digest)
    return replace(built.content, requirements=needed, library=library)


def emulated_library(built: Build, place: Path) -> bytes:
    """The library of a module, exported and built for the emulator."""
    export_project(artifact_of(built), place, version="0", check=None, emulator=True)
    folder = build(place, "EMU", *WITHOUT_OPTIMISATION, target="flowloom")
    return (folder / "libflowloom.so").read_bytes()


def module_of(built: Build, library: bytes, mode: str = "graph") -> Module:
    """A module that runs through its library, which is on no AMD device."""
    loaded: HipExecutable = load_library(library, built.schedule, built.weights, mode, 0)
    return Module(built.content, loaded=loaded)


def configure(seed: int, warp: int) -> None:
    """Restart the orders of the emulator of this process's libraries.

    That is the emulated device's engine where one is loaded, since its symbols are global.
    """
    for name in ("libflowloom_emulator.so", None):  # loaded already, so found by its name
        emulator = ctypes.CDLL(name)
        if hasattr(emulator, "emulator_configure"):
            assert emulator.emulator_configure(ctypes.c_uint64(seed), warp, 2) == 0
