"""Export the zoo from timm, torchvision and transformers, at any batch size.

    python -m examples.zoo.export --batch 8 --output exported resnet50 bert128

Without names it exports the sixteen models of the zoo, with `--others` the ten other networks.
Each model is written as NAME.light.onnx: floating-point weights of more than a kilobyte are
replaced with a distribution from which `examples.zoo.refill` draws them again.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

PACKAGES = ("torch", "onnxscript", "timm", "torchvision", "transformers")
_LIGHT_BYTES = 1024
_INDEX_BYTES = 8192
"""Integers are kept up to here, as sizes and permutations must be; larger ones are gathered by."""

_TIMM = {
    "resnet50": ("resnet50", 299, 299),
    "resnext50": ("resnext50_32x4d", 224, 224),
    "inception_v3": ("inception_v3", 299, 299),
    "hrnet_w18": ("hrnet_w18", 128, 768),
    "pnasnet5large": ("pnasnet5large", 331, 331),
    "nasnetalarge": ("nasnetalarge", 331, 331),
    "vit_base": ("vit_base_patch16_224", 224, 224),
}

_OTHER_TIMM = {
    "repvgg_b0": ("repvgg_b0", 224, 224),
    "mobileone_s1": ("mobileone_s1", 224, 224),
    "fastvit_t8": ("fastvit_t8", 256, 256),
    "repvit_m1": ("repvit_m1", 224, 224),
    "inception_v4": ("inception_v4", 299, 299),
    "cspresnet50": ("cspresnet50", 256, 256),
    "mixnet_s": ("mixnet_s", 224, 224),
    "skresnet34": ("skresnet34", 224, 224),
    "crossvit_tiny": ("crossvit_tiny_240", 240, 240),
}

Built = tuple[Any, tuple[Any, ...]]


def image(batch: int, height: int, width: int) -> tuple[Any, ...]:
    """A random image in three channels."""
    import torch

    return (torch.randn(batch, 3, height, width),)


def tokens(batch: int, *lengths: int, vocabulary: int) -> tuple[Any, ...]:
    """Random token sequences of these lengths."""
    import torch

    return tuple(torch.randint(0, vocabulary, (batch, length)) for length in lengths)


def _timm(name: str, batch: int) -> Built:
    import timm

    model, height, width = _TIMM[name]
    # timm starts residual branches at zero, which would hide errors in them.
    options = {"zero_init_last": False} if name in ("resnet50", "resnext50") else {}
    return timm.create_model(model, pretrained=False, **options), image(batch, height, width)


def randomised(module: Any, inputs: tuple[Any, ...]) -> Built:
    """A module whose constant parameters and normalisations are random, and its inputs."""
    from examples.zoo.randomise import randomise

    randomise(module, inputs)
    return module, inputs


def _other_timm(name: str, batch: int) -> Built:
    import timm

    model, height, width = _OTHER_TIMM[name]
    return randomised(timm.create_model(model, pretrained=False), image(batch, height, width))


def _distilbert(batch: int) -> Built:
    from transformers import DistilBertConfig, DistilBertModel

    from examples.zoo.networks import Wrapped

    model = DistilBertModel(DistilBertConfig(attn_implementation="eager"))
    wrapped = Wrapped(model, ("input_ids",), "last_hidden_state")
    return randomised(wrapped, tokens(batch, 128, vocabulary=30_000))


def _nasnetmobile(batch: int) -> Built:
    from timm.models.nasnet import NASNetALarge

    model = NASNetALarge(stem_size=32, channel_multiplier=2, num_features=1056)
    return model, image(batch, 224, 224)


def _googlenet(batch: int) -> Built:
    from torchvision.models import googlenet

    model = googlenet(weights=None, aux_logits=False, init_weights=True)
    return model, image(batch, 224, 224)


def _unet(batch: int) -> Built:
    from examples.zoo.networks import UNet

    return UNet(), image(batch, 224, 224)


def _deepfm(batch: int) -> Built:
    from examples.zoo.networks import DeepFM

    return DeepFM(), tokens(batch, 26, vocabulary=10_000)


def _rnntc_sru(batch: int) -> Built:
    import torch

    from examples.zoo.networks import SimpleRecurrentUnits

    if batch != 1:
        raise SystemExit("rnntc_sru has no batch dimension: export it with --batch 1")
    return SimpleRecurrentUnits(), (torch.randn(10, 1024),)


def _bert(batch: int, length: int) -> Built:
    from transformers import BertConfig, BertModel

    from examples.zoo.networks import Wrapped

    model = BertModel(BertConfig(attn_implementation="eager"))
    wrapped = Wrapped(model, ("input_ids",), "last_hidden_state")
    return wrapped, tokens(batch, length, vocabulary=30_000)


def _gpt2large(batch: int) -> Built:
    from transformers import GPT2Config, GPT2LMHeadModel

    from examples.zoo.networks import Wrapped

    config = GPT2Config(n_embd=1280, n_layer=36, n_head=20, attn_implementation="eager")
    wrapped = Wrapped(GPT2LMHeadModel(config), ("input_ids",), "logits", use_cache=False)
    return wrapped, tokens(batch, 32, vocabulary=50_000)


def _t5small(batch: int) -> Built:
    from transformers import T5Config, T5Model

    from examples.zoo.networks import Wrapped

    model = T5Model(T5Config(d_model=512, d_ff=2048, num_layers=6, num_heads=8))
    inputs = ("input_ids", "decoder_input_ids")
    wrapped = Wrapped(model, inputs, "last_hidden_state", use_cache=False)
    return wrapped, tokens(batch, 64, 16, vocabulary=30_000)


MODELS: dict[str, Callable[[int], Built]] = {
    **{name: lambda batch, name=name: _timm(name, batch) for name in _TIMM},
    "nasnetmobile": _nasnetmobile,
    "googlenet": _googlenet,
    "unet": _unet,
    "deepfm": _deepfm,
    "rnntc_sru": _rnntc_sru,
    "bert128": lambda batch: _bert(batch, 128),
    "bert512": lambda batch: _bert(batch, 512),
    "gpt2large": _gpt2large,
    "t5small": _t5small,
}
"""The builder of each model and its example inputs, for a batch size."""

OTHERS: dict[str, Callable[[int], Built]] = {
    **{name: lambda batch, name=name: _other_timm(name, batch) for name in _OTHER_TIMM},
    "distilbert": _distilbert,
}
"""The builders of the ten other networks."""

BUILDERS = {**MODELS, **OTHERS}
"""The builders of all networks."""


def _distribution(array: Any, seed: int) -> dict[str, object] | None:
    """The distribution of a stripped tensor; None for one that is kept."""
    if array.dtype.kind in "iu" and array.nbytes > _INDEX_BYTES:
        return {
            "dist": "integers",
            "low": int(array.min()),
            "high": int(array.max()),
            "seed": seed,
        }
    if array.nbytes <= _LIGHT_BYTES or array.dtype.kind != "f":
        return None
    mean, deviation = float(array.mean()), float(array.std())
    if not isfinite(deviation):  # a mask of the lowest float
        return None
    if deviation == 0:
        return {"dist": "constant", "value": mean}
    return {"dist": "normal", "mean": mean, "std": deviation, "seed": seed}


def lighten(model: onnx.ModelProto) -> int:
    """Replace large weights and tables of indices with seeded distributions; returns how many."""
    count = 0
    for seed, tensor in enumerate(model.graph.initializer):
        spec = _distribution(numpy_helper.to_array(tensor), seed)
        if spec is None:
            continue
        light = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        light.doc_string = json.dumps(spec)
        tensor.CopyFrom(light)
        count += 1
    _strip(model)
    return count


def _strip(model: onnx.ModelProto) -> None:
    """Remove the exporter's remarks, and the shapes that follow from the operators."""
    model.graph.ClearField("value_info")
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")


def to_onnx(name: str, module: Any, inputs: tuple[Any, ...], **options: Any) -> onnx.ModelProto:
    """A built module of that name with its weights, as the exporter of PyTorch gives it.

    Options are `torch.onnx.export`'s.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    # The exporter cannot take apart the other forms of attention over windows.
    with tempfile.TemporaryDirectory() as scratch, sdpa_kernel(SDPBackend.MATH):
        full = Path(scratch) / "model.onnx"
        torch.onnx.export(
            module.eval(),
            inputs,
            full,
            dynamo=name != "t5small",  # its mask code fails in the newer exporter
            opset_version=18,
            external_data=name == "gpt2large",
            **options,
        )
        return onnx.load(full)


def export(
    name: str, built: Callable[[int], Built], batch: int, folder: Path, **options: Any
) -> Path:
    """Export one model for a batch size and return the file that was written."""
    import torch

    torch.manual_seed(0)
    model = to_onnx(name, *built(batch), **options)
    target = folder / f"{name}.light.onnx"
    lighten(model)
    onnx.save(model, target)
    return target


def require(packages: tuple[str, ...]) -> None:
    """Exit with the command that installs what is missing of some packages."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(
            f"exporting needs {', '.join(missing)}: python -m pip install {' '.join(missing)}"
        )


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="models (default: the zoo)", metavar="NAME")
    parser.add_argument("--others", action="store_true", help="export the ten other networks")
    parser.add_argument("--batch", type=int, default=1, help="batch size (default: 1)")
    parser.add_argument("--output", type=Path, default=Path("exported"), help="folder to write to")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(BUILDERS)):
        parser.error(f"unknown model {unknown[0]}; choose from {', '.join(sorted(BUILDERS))}")
    if options.names and options.others:
        parser.error("give names or --others, not both")
    if options.batch < 1:
        parser.error("--batch is at least 1")
    require(PACKAGES)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names or sorted(OTHERS if options.others else MODELS):
        print(export(name, BUILDERS[name], options.batch, options.output), file=sys.stderr)


if __name__ == "__main__":
    main()
