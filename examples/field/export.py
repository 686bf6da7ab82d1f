"""Export the field's networks from timm, torchvision, transformers and this folder's modules.

    python -m examples.field.export --output exported swin_tiny llama_decode

Without names it exports all. Files are as `examples.zoo.export` writes them.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from examples.zoo.export import PACKAGES, Built, export, image, randomised, require

_TIMM = {
    "convnext_tiny": ("convnext_tiny", 224),
    "densenet121": ("densenet121", 224),
    "efficientnet_b0": ("efficientnet_b0", 224),
    "ghostnetv2": ("ghostnetv2_100", 224),
    "levit_128s": ("levit_128s", 224),
    "maxvit_nano": ("maxvit_nano_rw_256", 256),
    "mixer_b16": ("mixer_b16_224", 224),
    "mobilenetv3_large": ("mobilenetv3_large_100", 224),
    "mobilevit_s": ("mobilevit_s", 256),
    "poolformer_s12": ("poolformer_s12", 224),
    "pvt_v2_b1": ("pvt_v2_b1", 224),
    "regnety_008": ("regnety_008", 224),
    "swin_tiny": ("swin_tiny_patch4_window7_224", 224),
    "swinv2_tiny": ("swinv2_tiny_window8_256", 256),
    "twins_svt_small": ("twins_svt_small", 224),
    "xcit_tiny": ("xcit_tiny_12_p16_224", 224),
}

_MODULES = {
    "attending": ("dit", "encoder_open", "log_mel", "perceiver", "transducer"),
    "decoding": ("llama_decode", "llama_prefill", "qwen_decode", "qwen_prefill"),
    "detection": ("box_detector", "rt_detr"),
    "generation": ("bart", "flan_t5", "latent_unet"),
    "points": ("dgcnn", "graph_attention", "instant_ngp"),
    "restoration": ("nafnet", "nafnet_open", "raft", "vq_vae"),
    "routing": ("cached_step", "gathered_experts", "nucleus", "switch_experts"),
    "scans": ("chunked_scan", "hyena", "kalman", "selective_scan"),
    "sequences": (
        "bilstm_tagger",
        "conformer",
        "conv_tasnet",
        "crnn",
        "deberta",
        "deepspeech2",
        "mamba",
        "wav2vec2",
        "whisper_encoder",
    ),
    "tables": ("dlrm", "graphsage"),
    "vision": (
        "deeplabv3",
        "edsr",
        "espcn",
        "lraspp",
        "r3d_18",
        "replknet",
        "s3d",
        "segformer_b0",
        "ssdlite",
        "swin2sr",
        "van_b0",
        "yolov8n",
    ),
}
"""The networks that a module of this folder builds, each by a function of its name."""

_OPEN: dict[str, Any] = {
    "encoder_open": ({1: "length"}, {1: "length"}),
    "nafnet_open": ({2: "height", 3: "width"},),
}
"""The dimensions of inputs that a run decides, by name."""


def _timm(name: str, batch: int) -> Built:
    import timm

    model, size = _TIMM[name]
    module = timm.create_model(model, pretrained=False)
    if name == "twins_svt_small":  # the exporter cannot take apart attention of five dimensions
        for part in module.modules():
            part.fused_attn = False
    return randomised(module, image(batch, size, size))


def _in_module(module: str, name: str, batch: int) -> Built:
    return randomised(*getattr(import_module(f"examples.field.{module}"), name)(batch))


BUILDERS: dict[str, Callable[[int], Built]] = {
    **{name: partial(_timm, name) for name in _TIMM},
    **{name: partial(_in_module, module, name) for module in _MODULES for name in _MODULES[module]},
}
"""The builder of each network and its example inputs, for a batch size."""


def _options(name: str) -> dict[str, Any]:
    """The exporter's options for a network with open dimensions or a custom operator."""
    if name == "box_detector":
        from examples.field.detection import translations

        return {"custom_translation_table": translations()}
    return {"dynamic_shapes": _OPEN[name]} if name in _OPEN else {}


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="networks (default: all)", metavar="NAME")
    parser.add_argument("--batch", type=int, default=1, help="batch size (default: 1)")
    parser.add_argument("--output", type=Path, default=Path("exported"), help="folder to write to")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(BUILDERS)):
        parser.error(f"unknown network {unknown[0]}; choose from {', '.join(sorted(BUILDERS))}")
    require(PACKAGES)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names or sorted(BUILDERS):
        file = export(name, BUILDERS[name], options.batch, options.output, **_options(name))
        print(file, file=sys.stderr)


if __name__ == "__main__":
    main()
