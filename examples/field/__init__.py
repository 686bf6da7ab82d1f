"""Networks of other kinds than the zoo's, without their weights, at batch 1.

A few leave sizes open, as their names say; `box_detector` gives as many boxes as it finds.

Nothing has been tuned for them, and no rule was written for them: they say how the compiler does
on a network that it has never seen.
"""

from pathlib import Path

import onnx

from examples import light

MODELS = Path(__file__).parent / "models"
_VOCABULARY = {
    "bart": 30_000,
    "bilstm_tagger": 20_000,
    "cached_step": 512,
    "chunked_scan": 10_000,
    "deberta": 30_000,
    "dit": 1_000,
    "dlrm": 10_000,
    "flan_t5": 30_000,
    "graph_attention": 2_000,
    "graphsage": 2_000,
    "llama_decode": 32_000,
    "llama_prefill": 32_000,
    "mamba": 30_000,
    "qwen_decode": 32_000,
    "qwen_prefill": 32_000,
    "transducer": 1_024,
}
"""From which on integers are too large, of networks that have any."""


SIZES = {
    "encoder_open": {"length": 100},
    "nafnet_open": {"height": 96, "width": 144},
}
"""The usual sizes of open dimensions, by the names of the networks that have any."""


def names() -> list[str]:
    """The names of the networks, sorted."""
    return [*light.files(MODELS)]


def path(name: str) -> Path:
    """The file of a network without weights; raises KeyError for an unknown name."""
    known = light.files(MODELS)
    if name not in known:
        raise KeyError(f"the field has no network {name!r}; it has {', '.join(known)}")
    return known[name]


def load(name: str) -> onnx.ModelProto:
    """A network with its weights, its graph named after it; raises KeyError for an unknown name."""
    return light.load_file(path(name))


def random_inputs(model: onnx.ModelProto, seed: int) -> dict[str, light.Array]:
    """Inputs of a loaded network: normal floats, and integers within its smallest table.

    Open dimensions have their usual sizes.
    """
    name = model.graph.name
    return light.random_inputs(model, seed, _VOCABULARY.get(name, 2), SIZES.get(name))
