"""Models of images, sound, time series and several kinds of input, by transformers."""

from typing import Any

from benchmarks.strangers.case import Case, Feed, floats, image, mask, ones, sound, text, tokens
from benchmarks.strangers.hugging_face import SMALL, hugging_face

Entry = tuple[str, str, dict[str, Any], dict[str, Feed]]
"""A family, the rest of its model's name, its configuration and its inputs."""

_VIT = {
    k: SMALL[k]
    for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
}
_SOUND = {
    **_VIT,
    "vocab_size": 32,
    "conv_dim": [32, 32, 32],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 2],
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 3,
}
_TOWERS = {
    "text_config": SMALL | {"projection_dim": 32},
    "vision_config": _VIT | {"image_size": 64, "patch_size": 16, "projection_dim": 32},
    "projection_dim": 32,
}
_SERIES = {
    "prediction_length": 6,
    "context_length": 18,
    "lags_sequence": [1, 2],
    "num_time_features": 2,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}
_SERIES_FEEDS = {
    "past_values": floats("b", 20),
    "past_time_features": floats("b", 20, 2),
    "past_observed_mask": mask("b", 20),
    "future_values": floats("b", 6),
    "future_time_features": floats("b", 6, 2),
}

_IMAGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "beit": ("Beit", "Model", _VIT | {"image_size": 64, "use_relative_position_bias": True}),
    "convnextv2": (
        "ConvNextV2",
        "Model",
        {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 32, 64]},
    ),
    "data2vec_vision": ("Data2VecVision", "Model", _VIT | {"image_size": 64}),
    "deit": ("DeiT", "Model", _VIT | {"image_size": 64}),
    "dinov2": ("Dinov2", "Model", _VIT | {"image_size": 64, "patch_size": 16}),
    "dpt": (
        "DPT",
        "ForDepthEstimation",
        _VIT
        | {
            "num_hidden_layers": 4,
            "image_size": 64,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [16, 16, 32, 32],
            "fusion_hidden_size": 16,
            "is_hybrid": False,
        },
    ),
    "efficientnet": (
        "EfficientNet",
        "Model",
        {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320},
    ),
    "focalnet": ("FocalNet", "Model", {"image_size": 64, "embed_dim": 16, "depths": [1, 1, 1, 1]}),
    "glpn": (
        "GLPN",
        "ForDepthEstimation",
        {
            "num_attention_heads": [1, 2, 4, 8],
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [16, 32, 32, 64],
            "decoder_hidden_size": 16,
        },
    ),
    "hiera": (
        "Hiera",
        "Model",
        {"image_size": [64, 64], "embed_dim": 16, "depths": [1, 1, 2, 1], "patch_stride": [4, 4]},
    ),
    "mobilenet_v1": ("MobileNetV1", "Model", {"depth_multiplier": 0.25}),
    "mobilevitv2": ("MobileViTV2", "Model", {"image_size": 64, "width_multiplier": 0.5}),
    "pvt": (
        "Pvt",
        "Model",
        {
            "image_size": 64,
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [16, 32, 32, 64],
            "num_attention_heads": [1, 2, 2, 4],
        },
    ),
    "regnet": (
        "RegNet",
        "Model",
        {"depths": [1, 1, 1, 1], "hidden_sizes": [32, 32, 64, 64], "groups_width": 16},
    ),
    "siglip_vision": ("SiglipVision", "Model", _VIT | {"image_size": 64}),
    "swiftformer": (
        "SwiftFormer",
        "Model",
        {"depths": [1, 1, 1, 1], "embed_dims": [16, 32, 32, 64]},
    ),
    "upernet": (
        "UperNet",
        "ForSemanticSegmentation",
        {"hidden_size": 32, "auxiliary_channels": 32, "num_labels": 5},
    ),
    "vit_msn": ("ViTMSN", "Model", _VIT | {"image_size": 64}),
    "yolos": (
        "Yolos",
        "ForObjectDetection",
        _VIT | {"image_size": [64, 64], "num_detection_tokens": 10},
    ),
}

_SOUNDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "data2vec_audio": ("Data2VecAudio", "Model", _SOUND),
    "hubert": ("Hubert", "Model", _SOUND),
    "sew": ("SEW", "Model", _SOUND | {"squeeze_factor": 2}),
    "sew_d": (
        "SEWD",
        "Model",
        _SOUND | {"squeeze_factor": 2, "position_buckets": 32, "max_position_embeddings": 64},
    ),
    "unispeech": ("UniSpeech", "Model", _SOUND),
    "wav2vec2_conformer": ("Wav2Vec2Conformer", "Model", _SOUND),
    "wavlm": ("WavLM", "Model", _SOUND),
}

_OTHERS: dict[str, Entry] = {
    "ast": (
        "AST",
        "Model",
        _VIT | {"max_length": 64, "num_mel_bins": 32},
        {"input_values": floats("b", 64, 32)},
    ),
    "autoformer": ("Autoformer", "Model", _SERIES, _SERIES_FEEDS),
    "blip": ("Blip", "Model", _TOWERS, text() | image()),
    "chinese_clip": ("ChineseCLIP", "Model", _TOWERS, text() | image()),
    "clip": ("CLIP", "Model", _TOWERS, text() | image()),
    "clipseg": (
        "CLIPSeg",
        "ForImageSegmentation",
        _TOWERS | {"extract_layers": [0, 1], "reduce_dim": 16, "decoder_intermediate_size": 32},
        text() | image(),
    ),
    "decision_transformer": (
        "DecisionTransformer",
        "Model",
        {"hidden_size": 64, "n_layer": 2, "n_head": 4, "state_dim": 5, "act_dim": 3},
        {
            "states": floats("b", "s", 5),
            "actions": floats("b", "s", 3),
            "rewards": floats("b", "s", 1),
            "returns_to_go": floats("b", "s", 1),
            "timesteps": tokens("b", "s"),
            "attention_mask": ones("b", "s"),
        },
    ),
    "detr": (
        "Detr",
        "ForObjectDetection",
        {
            "d_model": 64,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "num_queries": 10,
            "backbone": None,
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
        },
        image(),
    ),
    "encodec": (
        "Encodec",
        "Model",
        {
            "num_filters": 8,
            "hidden_size": 32,
            "codebook_dim": 32,
            "codebook_size": 64,
            "num_lstm_layers": 1,
        },
        {"input_values": floats("b", 1, 3200)},
    ),
    "flava_text": ("FlavaText", "Model", SMALL, text()),
    "informer": ("Informer", "Model", _SERIES, _SERIES_FEEDS),
    "layoutlmv3": (
        "LayoutLMv3",
        "Model",
        SMALL
        | {
            "input_size": 64,
            "coordinate_size": 11,
            "shape_size": 10,
            "max_2d_position_embeddings": 128,
        },
        text()
        | {"bbox": Feed(("b", "s", 4), lambda g, s: g.integers(0, 50, s).cumsum(-1) // 4)}
        | image(),
    ),
    "lxmert": (
        "Lxmert",
        "Model",
        SMALL | {"l_layers": 1, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 32},
        text() | {"visual_feats": floats("b", 6, 32), "visual_pos": floats("b", 6, 4)},
    ),
    "owlvit": ("OwlViT", "Model", _TOWERS, text() | image()),
    "patchtsmixer": (
        "PatchTSMixer",
        "Model",
        {
            "context_length": 32,
            "patch_length": 8,
            "num_input_channels": 2,
            "d_model": 16,
            "num_layers": 2,
        },
        {"past_values": floats("b", 32, 2)},
    ),
    "patchtst": (
        "PatchTST",
        "Model",
        {
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 8,
            "num_input_channels": 2,
            "d_model": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 32,
        },
        {"past_values": floats("b", 32, 2)},
    ),
    "perceiver": (
        "Perceiver",
        "ForMaskedLM",
        {
            "num_latents": 16,
            "d_latents": 32,
            "d_model": 32,
            "num_self_attends_per_block": 2,
            "num_self_attention_heads": 4,
            "num_cross_attention_heads": 4,
            "vocab_size": 100,
            "max_position_embeddings": 32,
        },
        {"inputs": tokens("b", 32), "attention_mask": mask("b", 32)},
    ),
    "sam_vision": (
        "SamVision",
        "Model",
        _VIT
        | {
            "image_size": 64,
            "patch_size": 16,
            "output_channels": 32,
            "num_pos_feats": 16,
            "window_size": 3,
            "global_attn_indexes": [1],
        },
        image(),
    ),
    "siglip": (
        "Siglip",
        "Model",
        {
            "text_config": SMALL | {"projection_size": 32, "max_position_embeddings": 32},
            "vision_config": _VIT | {"image_size": 64, "patch_size": 16},
        },
        {"input_ids": tokens("b", 24)} | image(),
    ),
    "time_series_transformer": ("TimeSeriesTransformer", "Model", _SERIES, _SERIES_FEEDS),
    "timesformer": (
        "Timesformer",
        "Model",
        _VIT | {"image_size": 32, "num_frames": 4},
        {"pixel_values": floats("b", 4, 3, 32, 32)},
    ),
    "univnet": (
        "UnivNet",
        "Model",
        {"model_hidden_channels": 8, "kernel_predictor_hidden_channels": 8, "num_mel_bins": 20},
        {"input_features": floats("b", 12, 20)},
    ),
    "videomae": (
        "VideoMAE",
        "Model",
        _VIT | {"image_size": 32, "num_frames": 4},
        {"pixel_values": floats("b", 4, 3, 32, 32)},
    ),
    "vilt": ("Vilt", "Model", SMALL | {"image_size": 64, "max_image_length": -1}, text() | image()),
    "vivit": (
        "Vivit",
        "Model",
        _VIT | {"image_size": 32, "num_frames": 4, "tubelet_size": [2, 16, 16]},
        {"pixel_values": floats("b", 4, 3, 32, 32)},
    ),
}


def senses(name: str) -> Case:
    """A model of other inputs than text alone, by name."""
    if name in _IMAGES:
        family, suffix, own = _IMAGES[name]
        return hugging_face(family, own, image(), suffix)
    if name in _SOUNDS:
        family, suffix, own = _SOUNDS[name]
        return hugging_face(family, own, sound(), suffix)
    family, suffix, own, feeds = _OTHERS[name]
    return hugging_face(family, own, feeds, suffix)


SENSES = (*_IMAGES, *_SOUNDS, *_OTHERS)
