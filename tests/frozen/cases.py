"""The cases: networks, ONNX's node cases, and drawn cases of single operators."""

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import numpy_helper

from examples import named
from tests import movement_cases, operator_cases
from tests.frontend.interpreter.comparison import model_of
from tests.operator_cases import Array, Case, Draw
from tests.pages.onnx_nodes import node_cases

TARGETS: Mapping[str, str] = {
    "cpu": "cpu:x86-64-v3",
    "tf32": "cuda:sm_90:tf32",
    "fp16": "cuda:sm_90:fp16",
    "hip": "hip:gfx90a:fp32",
}
"""The targets by the names under which hashes are recorded; none depends on the machine."""

TOO_LARGE = ("gpt2large", "nasnetalarge", "pnasnet5large")
"""Networks that take many minutes, and whose layers smaller ones have too, are left out."""

QUICK_NETWORKS = ("deepfm", "unet", "field:crnn", "field:llama_decode", "field:graphsage")
"""Networks that compile in seconds: tables, convolutions, recurrences, attention, graphs."""

USUAL_NETWORKS = (
    *QUICK_NETWORKS,
    *("rnntc_sru", "resnet50", "resnext50", "bert128", "t5small", "vit_base", "inception_v3"),
    *("mixnet_s", "fastvit_t8", "skresnet34"),
    *(f"field:{name}" for name in ("bilstm_tagger", "conv_tasnet", "deberta", "dlrm", "espcn")),
    *(f"field:{name}" for name in ("latent_unet", "llama_prefill", "mamba", "qwen_decode")),
    *(f"field:{name}" for name in ("r3d_18", "swin_tiny", "whisper_encoder", "yolov8n")),
)
"""Networks of each kind, which have the layers of the others: those take an hour more."""

QUICK_SHARE = 24
"""Of so many node cases one is among the quick ones."""

EXPANDED_SHARE = 4
"""Of so many node cases of a function's body one is among the usual ones."""

ROUNDED = re.compile("matmul|gemm|einsum|conv|attention|lstm|gru|rnn|contraction", re.I)
"""The names of node cases that differ between the precisions of a GPU."""

DRAWN = 12
"""The cases that are drawn of each family of operators."""

MOST_CONSTANT = 16
"""The most elements of an input that is made a constant, as it may hold axes, bounds or a shape."""

FAMILIES: Mapping[str, Callable[[Draw], Case]] = {
    **operator_cases.FAMILIES,
    **{name: getattr(movement_cases, name) for name in ("views", "parts")},
}


def case_names() -> list[str]:
    """The names of all cases: networks first, those that take longest before others."""
    return [*networks(), *sorted(node_cases()), *drawn_names()]


def networks() -> list[str]:
    """The networks, the largest files first."""
    usual = [name for name in named.every() if name not in TOO_LARGE]
    return sorted(dict.fromkeys(usual), key=lambda name: -named.path(name).stat().st_size)


def drawn_names() -> Iterator[str]:
    """The names of drawn cases: their family and seed."""
    for family in FAMILIES:
        for seed in range(DRAWN):
            yield f"drawn:{family}:{seed}"


def is_network(name: str) -> bool:
    """Whether a case is a network, of which every kernel is recorded."""
    return not name.startswith(("test_", "drawn:"))


def is_quick(name: str) -> bool:
    """Whether a case is among those that are compiled after each step."""
    if is_network(name):
        return name in QUICK_NETWORKS
    return zlib.crc32(name.encode()) % QUICK_SHARE == 0


def is_usual(name: str, target: str) -> bool:
    """Whether a case is compiled for a target unless more are asked for."""
    if is_network(name):
        return name in USUAL_NETWORKS
    if target == "fp16" and not ROUNDED.search(name):
        return False
    return "_expanded" not in name or zlib.crc32(name.encode()) % EXPANDED_SHARE == 0


def loaded(name: str) -> tuple[onnx.ModelProto, Sequence[Any]]:
    """A case's model, and inputs for a program that compiles its graphs when it runs."""
    if is_network(name):
        return named.load(name), ()
    if name.startswith("drawn:"):
        return drawn(name)
    case = node_cases()[name]
    inputs: list[Any] = [
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        for value in case.data_sets[0][0]
    ]
    return case.model, inputs


def drawn(name: str) -> tuple[onnx.ModelProto, Sequence[Any]]:
    """The model and the inputs of a drawn case, of which those that decide shapes are constants."""
    _, family, seed = name.split(":")
    case = FAMILIES[family](Draw(int(seed)))
    inputs = [array for array in case.inputs if array is not None]
    model, inputs = with_constants(model_of(case), inputs, (np.dtype(np.int64),))
    model = onnx.shape_inference.infer_shapes(model)
    for output in model.graph.output:
        if not output.type.WhichOneof("value"):  # onnx infers nothing for onnxruntime's operators
            output.type.tensor_type.elem_type = model.graph.input[0].type.tensor_type.elem_type
    return model, inputs


def with_constants(
    model: onnx.ModelProto, inputs: Sequence[Any], dtypes: Sequence[Any] = ()
) -> tuple[onnx.ModelProto, list[Any]]:
    """A model whose small vectors and scalars among its inputs are constants, and the other inputs.

    With `dtypes` those of some dtypes, and not the first input.
    """
    fixed, free = onnx.ModelProto(), list[Any]()
    fixed.CopyFrom(model)
    del fixed.graph.input[:]
    for place, (info, value) in enumerate(zip(model.graph.input, inputs, strict=False)):
        array = cast(Array, value) if isinstance(value, np.ndarray) else None
        small = array is not None and array.ndim < 2 and array.size <= MOST_CONSTANT
        if array is not None and small and (not dtypes or (place and array.dtype in dtypes)):
            fixed.graph.initializer.append(numpy_helper.from_array(array, info.name))
        else:
            fixed.graph.input.append(info)
            free.append(value)
    return fixed, free
