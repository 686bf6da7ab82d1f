"""Text models of transformers, with two narrow layers."""

from typing import Any

from benchmarks.strangers.case import Case, Feed, mask, text, tokens
from benchmarks.strangers.hugging_face import SMALL, hugging_face

_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "albert": ("Albert", {"embedding_size": 32}),
    "biogpt": ("BioGpt", {}),
    "bloom": ("Bloom", {"n_head": 4, "n_layer": 2}),
    "camembert": ("Camembert", {}),
    "codegen": ("CodeGen", {"n_embd": 64, "n_head": 4, "n_layer": 2, "rotary_dim": 8}),
    "cohere": ("Cohere", {}),
    "convbert": ("ConvBert", {"embedding_size": 32}),
    "ctrl": ("CTRL", {"n_embd": 64, "n_head": 4, "n_layer": 2, "dff": 128}),
    "deberta": ("Deberta", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "electra": ("Electra", {"embedding_size": 32}),
    "ernie": ("Ernie", {}),
    "esm": ("Esm", {"position_embedding_type": "rotary", "mask_token_id": 4}),
    "falcon": ("Falcon", {}),
    "funnel": (
        "Funnel",
        {"d_model": 64, "n_head": 4, "d_head": 16, "d_inner": 128, "block_sizes": [1, 1, 1]},
    ),
    "gemma": ("Gemma", {"head_dim": 16}),
    "gemma2": ("Gemma2", {"head_dim": 16, "sliding_window": 8}),
    "gemma3": ("Gemma3Text", {"head_dim": 16, "sliding_window": 8}),
    "glm": ("Glm", {"head_dim": 16}),
    "gpt_bigcode": ("GPTBigCode", {"n_embd": 64, "n_head": 4, "n_layer": 2}),
    "gpt_neo": (
        "GPTNeo",
        {
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 8,
        },
    ),
    "gpt_neox": ("GPTNeoX", {}),
    "gptj": ("GPTJ", {"n_embd": 64, "n_head": 4, "n_layer": 2, "rotary_dim": 8}),
    "granite": ("Granite", {}),
    "ibert": ("IBert", {}),
    "layoutlm": ("LayoutLM", {}),
    "megatron_bert": ("MegatronBert", {}),
    "mistral": ("Mistral", {"sliding_window": 8}),
    "mixtral": ("Mixtral", {"num_local_experts": 4}),
    "mobilebert": (
        "MobileBert",
        {"embedding_size": 32, "true_hidden_size": 32, "intra_bottleneck_size": 32},
    ),
    "modernbert": ("ModernBert", {"local_attention": 8}),
    "mpnet": ("MPNet", {}),
    "mpt": ("Mpt", {"d_model": 64, "n_heads": 4, "n_layers": 2}),
    "nystromformer": ("Nystromformer", {"num_landmarks": 8, "segment_means_seq_len": 24}),
    "olmo2": ("Olmo2", {}),
    "openai_gpt": ("OpenAIGPT", {"n_embd": 64, "n_head": 4, "n_layer": 2}),
    "opt": ("OPT", {"ffn_dim": 128, "word_embed_proj_dim": 64}),
    "persimmon": ("Persimmon", {}),
    "phi": ("Phi", {}),
    "phi3": ("Phi3", {}),
    "qwen2_moe": (
        "Qwen2Moe",
        {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 64,
        },
    ),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "rembert": ("RemBert", {"input_embedding_size": 32}),
    "roberta": ("Roberta", {}),
    "roformer": ("RoFormer", {"embedding_size": 32}),
    "smollm3": ("SmolLM3", {}),
    "squeezebert": ("SqueezeBert", {"embedding_size": 64}),
    "stablelm": ("StableLm", {}),
    "starcoder2": ("Starcoder2", {}),
    "xglm": ("XGLM", {"d_model": 64, "num_layers": 2, "attention_heads": 4, "ffn_dim": 128}),
    "xlm": ("XLM", {"emb_dim": 64, "n_layers": 2, "n_heads": 4}),
    "xlm_roberta": ("XLMRoberta", {}),
    "xlnet": ("XLNet", {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128}),
    "xmod": ("Xmod", {"languages": ["en"], "default_language": "en"}),
}

_IDS_ONLY: dict[str, tuple[str, dict[str, Any]]] = {
    "fnet": ("FNet", {}),
    "mamba2": (
        "Mamba2",
        {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 1, "chunk_size": 8},
    ),
    "rwkv": ("Rwkv", {}),
    "yoso": ("Yoso", {"use_expectation": True}),
}

_SPARSE: dict[str, tuple[str, dict[str, Any], int]] = {
    "big_bird": (
        "BigBird",
        {"attention_type": "block_sparse", "block_size": 8, "num_random_blocks": 1},
        96,
    ),
    "longformer": ("Longformer", {"attention_window": [8, 8]}, 32),
    "reformer": (
        "Reformer",
        {
            "axial_pos_shape": [8, 8],
            "axial_pos_embds_dim": [32, 32],
            "attn_layers": ["local", "lsh"],
            "num_buckets": 4,
            "lsh_attn_chunk_length": 16,
            "local_attn_chunk_length": 16,
            "is_decoder": False,
            "attention_head_size": 16,
            "feed_forward_size": 128,
        },
        64,
    ),
}
"""Attention of blocks, which needs texts of whole ones."""

_TWO_SIDED: dict[str, tuple[str, dict[str, Any]]] = {
    "blenderbot": ("Blenderbot", {}),
    "fsmt": ("FSMT", {"src_vocab_size": 100, "tgt_vocab_size": 100, "langs": ["en", "de"]}),
    "led": ("LED", {"attention_window": [8, 8]}),
    "longt5": (
        "LongT5",
        {"d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "local_radius": 7},
    ),
    "m2m_100": ("M2M100", {}),
    "marian": ("Marian", {}),
    "mbart": ("MBart", {}),
    "mvp": ("Mvp", {}),
    "pegasus": ("Pegasus", {}),
    "plbart": ("PLBart", {}),
    "prophetnet": (
        "ProphetNet",
        {
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
        },
    ),
    "switch_transformers": (
        "SwitchTransformers",
        {"d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "num_experts": 4},
    ),
    "umt5": ("UMT5", {"d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}),
}

_SEQ2SEQ = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}


def _feeds(name: str) -> dict[str, Feed]:
    if name == "layoutlm":
        return text() | {"bbox": tokens("b", "s", 4, below=100)}
    return text()


def language(name: str) -> Case:
    """A text model by name."""
    if name in _CALLS:
        family, own = _CALLS[name]
        return hugging_face(family, SMALL | own, _feeds(name))
    if name in _IDS_ONLY:
        family, own = _IDS_ONLY[name]
        return hugging_face(family, SMALL | own, {"input_ids": tokens("b", "s")})
    if name in _SPARSE:
        family, own, length = _SPARSE[name]
        feeds = {"input_ids": tokens("b", length), "attention_mask": mask("b", length)}
        return hugging_face(family, SMALL | own, feeds)
    family, own = _TWO_SIDED[name]
    feeds = text() | {"decoder_input_ids": tokens("b", 9)}
    return hugging_face(family, SMALL | _SEQ2SEQ | own, feeds)


LANGUAGE = (*_CALLS, *_IDS_ONLY, *_SPARSE, *_TWO_SIDED)
