"""Image classifiers of timm: its own tiny ones, and others with few blocks."""

from typing import Any

from benchmarks.strangers.case import Case, floats

_FOUR = {"layers": (1, 1, 1, 1)}
_DEPTHS = {"depths": (1, 1, 1, 1)}

_MODELS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "test_byobnet": ("test_byobnet", 96, {}),
    "test_convnext": ("test_convnext", 96, {}),
    "test_efficientnet": ("test_efficientnet", 96, {}),
    "test_efficientnet_gn": ("test_efficientnet_gn", 96, {}),
    "test_efficientnet_evos": ("test_efficientnet_evos", 96, {}),
    "test_mambaout": ("test_mambaout", 96, {}),
    "test_nfnet": ("test_nfnet", 96, {}),
    "test_resnet": ("test_resnet", 96, {}),
    "test_vit": ("test_vit", 160, {}),
    "test_vit2": ("test_vit2", 64, {}),
    "test_vit3": ("test_vit3", 160, {}),
    "test_vit4": ("test_vit4", 160, {}),
    "cait": ("cait_xxs24_224", 224, {"depth": 2}),
    "coat": ("coat_lite_tiny", 64, {"img_size": 64}),
    "coatnet": ("coatnet_nano_rw_224", 64, _DEPTHS | {"img_size": 64}),
    "convit": ("convit_tiny", 64, {"img_size": 64, "depth": 3, "local_up_to_layer": 2}),
    "cspdarknet53": ("cspdarknet53", 64, {}),
    "davit": ("davit_tiny", 64, _DEPTHS),
    "dla34": ("dla34", 64, {}),
    "dpn48b": ("dpn48b", 64, {}),
    "edgenext": ("edgenext_xx_small", 64, _DEPTHS),
    "efficientformer_l1": ("efficientformer_l1", 224, _DEPTHS),
    "efficientformerv2_s0": ("efficientformerv2_s0", 224, _DEPTHS),
    "efficientvit_b0": ("efficientvit_b0", 64, {}),
    "efficientvit_m0": ("efficientvit_m0", 224, {}),
    "eva02_tiny": ("eva02_tiny_patch14_224", 56, {"img_size": 56, "depth": 2}),
    "gcresnet33": ("gcresnet33ts", 64, {}),
    "hardcorenas_a": ("hardcorenas_a", 64, {}),
    "hgnetv2_b0": ("hgnetv2_b0", 64, {}),
    "inception_next": ("inception_next_atto", 64, {}),
    "lambda_resnet26": ("lambda_resnet26t", 64, {}),
    "lcnet_050": ("lcnet_050", 64, {}),
    "nf_regnet_b0": ("nf_regnet_b0", 64, {}),
    "pit_ti": ("pit_ti_224", 224, {}),
    "rdnet": ("rdnet_tiny", 64, {}),
    "res2net": ("res2net50_26w_4s", 64, _FOUR),
    "resnest": ("resnest14d", 64, {}),
    "rexnet": ("rexnetr_200", 64, {}),
    "selecsls42": ("selecsls42b", 64, {}),
    "sequencer2d": ("sequencer2d_s", 224, {"layers": (1, 1, 1, 1)}),
    "shvit": ("shvit_s1", 64, {}),
    "spnasnet": ("spnasnet_100", 64, {}),
    "starnet": ("starnet_s050", 64, {}),
    "swiftformer_timm": ("swiftformer_xs", 64, {}),
    "tinynet_e": ("tinynet_e", 64, {}),
    "tiny_vit": ("tiny_vit_5m_224", 224, _DEPTHS),
    "tnt": ("tnt_s_legacy_patch16_224", 224, {"depth": 2}),
    "tresnet": ("tresnet_m", 64, {"layers": (1, 1, 1, 1)}),
    "visformer": ("visformer_tiny", 224, {}),
    "vovnet": ("ese_vovnet19b_dw", 64, {}),
    "xception41": ("xception41", 64, {}),
}

TIMM = tuple(_MODELS)


def timm_model(name: str) -> Case:
    """A classifier of timm by name, with statistics of batch normalisation that are not 0 and 1."""
    import timm
    import torch

    registered, size, options = _MODELS[name]
    module = timm.create_model(registered, pretrained=False, num_classes=10, **options).eval()
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d) and part.running_mean is not None:
            torch.nn.init.normal_(part.running_mean, std=0.1)
            torch.nn.init.uniform_(part.running_var, 0.5, 1.5)
    return Case(module, {"x": floats("b", 3, size, size)})
