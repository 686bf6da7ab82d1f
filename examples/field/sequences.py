"""Builders of networks over time: text, speech and written lines; imported by `export.py` only."""

from typing import Any

import torch
from torch import nn
from transformers import (
    DebertaV2Config,
    DebertaV2Model,
    MambaConfig,
    MambaModel,
    Wav2Vec2Config,
    Wav2Vec2ConformerConfig,
    Wav2Vec2ConformerModel,
    Wav2Vec2Model,
    WhisperConfig,
)
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from examples.zoo.export import Built, tokens
from examples.zoo.networks import Wrapped

_HIDDEN = "last_hidden_state"


class Tagger(nn.Module):
    """Huang et al. 2015: embeddings, two bidirectional LSTM layers, and a score for each tag."""

    def __init__(self, vocabulary: int = 20_000, width: int = 256, tags: int = 18):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 100)
        self.lstm = nn.LSTM(100, width, num_layers=2, bidirectional=True, batch_first=True)
        self.score = nn.Linear(2 * width, tags)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Ids (batch, words) to scores (batch, words, tags)."""
        return self.score(self.lstm(self.embedding(words))[0])


class SpeechRecurrent(nn.Module):
    """Amodei et al. 2016 (Deep Speech 2): strided convolutions, then bidirectional GRUs."""

    def __init__(self, width: int = 512, layers: int = 3, letters: int = 29):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
        )
        self.gru = nn.GRU(32 * 41, width, layers, bidirectional=True, batch_first=True)
        self.score = nn.Linear(2 * width, letters)

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        """(batch, 1, 161, frames) to logarithms of probabilities (batch, frames / 2, letters)."""
        x = self.front(spectrogram).flatten(1, 2).transpose(1, 2)
        return self.score(self.gru(x)[0]).log_softmax(-1)


def _stage(inputs: int, outputs: int, *pool: Any) -> list[nn.Module]:
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return [*layers, nn.MaxPool2d(*pool)] if pool else layers


class LineReader(nn.Module):
    """Shi et al. 2015 (CRNN): convolutions down to one row, then bidirectional LSTMs."""

    def __init__(self, width: int = 256, letters: int = 37):
        super().__init__()
        tall = ((2, 2), (2, 1), (0, 1))
        self.convolutions = nn.Sequential(
            *_stage(1, 64, 2, 2),
            *_stage(64, 128, 2, 2),
            *_stage(128, 256),
            *_stage(256, 256, *tall),
            *_stage(256, 512),
            *_stage(512, 512, *tall),
            nn.Conv2d(512, 512, 2),
            nn.BatchNorm2d(512),
            nn.ReLU(),
        )
        self.lstm = nn.LSTM(512, width, num_layers=2, bidirectional=True)
        self.score = nn.Linear(2 * width, letters)

    def forward(self, line: torch.Tensor) -> torch.Tensor:
        """A grey image (batch, 1, 32, length) to scores (steps, batch, letters)."""
        return self.score(self.lstm(self.convolutions(line).squeeze(2).permute(2, 0, 1))[0])


class SeparatorBlock(nn.Module):
    """A block of Conv-TasNet: a dilated depthwise convolution between two pointwise ones."""

    def __init__(self, width: int, hidden: int, dilation: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(width, hidden, 1),
            nn.PReLU(),
            nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden),
            nn.PReLU(),
            nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, width, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width, frames) to the same."""
        return x + self.layers(x)


class Separator(nn.Module):
    """Luo and Mesgarani 2019 (Conv-TasNet): one-dimensional convolutions on the samples."""

    def __init__(self, width: int = 128, hidden: int = 512, filters: int = 512, repeats: int = 2):
        super().__init__()
        self.filters = filters
        self.encoder = nn.Conv1d(1, filters, 16, 8, bias=False)
        self.norm = nn.GroupNorm(1, filters)
        self.narrow = nn.Conv1d(filters, width, 1)
        dilations = [2**step for _ in range(repeats) for step in range(8)]
        self.blocks = nn.Sequential(*(SeparatorBlock(width, hidden, d) for d in dilations))
        self.mask = nn.Conv1d(width, 2 * filters, 1)
        self.decoder = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        """A mixture (1, 1, samples) to two voices (2, 1, samples)."""
        encoded = torch.relu(self.encoder(samples))
        masks = torch.sigmoid(self.mask(self.blocks(self.narrow(self.norm(encoded)))))
        return self.decoder(masks.view(2, self.filters, -1) * encoded)


def bilstm_tagger(batch: int) -> Built:
    """Ids of 64 words."""
    return Tagger(), tokens(batch, 64, vocabulary=20_000)


def deepspeech2(batch: int) -> Built:
    """A spectrogram of two seconds."""
    return SpeechRecurrent(), (torch.randn(batch, 1, 161, 200),)


def crnn(batch: int) -> Built:
    """A line of 128 columns."""
    return LineReader(), (torch.randn(batch, 1, 32, 128),)


def conv_tasnet(batch: int) -> Built:
    """A second of sound at 8 kHz."""
    if batch != 1:
        raise SystemExit("conv_tasnet gives its voices as a batch: export it with --batch 1")
    return Separator(), (torch.randn(1, 1, 8_000),)


def wav2vec2(batch: int) -> Built:
    """Four of the base model's twelve layers, on a second of sound at 16 kHz."""
    config = Wav2Vec2Config(num_hidden_layers=4, attn_implementation="eager")
    module = Wrapped(Wav2Vec2Model(config), ("input_values",), _HIDDEN)
    return module, (torch.randn(batch, 16_000),)


def conformer(batch: int) -> Built:
    """Four layers of 256 with relative positions, on a second of sound at 16 kHz."""
    config = Wav2Vec2ConformerConfig(
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        position_embeddings_type="relative",
        attn_implementation="eager",
    )
    module = Wrapped(Wav2Vec2ConformerModel(config), ("input_values",), _HIDDEN)
    return module, (torch.randn(batch, 16_000),)


def whisper_encoder(batch: int) -> Built:
    """The encoder of Whisper tiny, on half a minute of sound."""
    config = WhisperConfig(
        d_model=384,
        encoder_layers=4,
        encoder_attention_heads=6,
        encoder_ffn_dim=1536,
        attn_implementation="eager",
    )
    module = Wrapped(WhisperEncoder(config), ("input_features",), _HIDDEN)
    return module, (torch.randn(batch, 80, 3_000),)


def deberta(batch: int) -> Built:
    """Four of the base model's twelve layers, with disentangled attention, on 128 tokens."""
    config = DebertaV2Config(
        vocab_size=30_000,
        hidden_size=768,
        num_hidden_layers=4,
        num_attention_heads=12,
        intermediate_size=3072,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        max_relative_positions=-1,
        position_biased_input=False,
        type_vocab_size=0,
    )
    module = Wrapped(DebertaV2Model(config), ("input_ids",), _HIDDEN)
    return module, tokens(batch, 128, vocabulary=30_000)


def mamba(batch: int) -> Built:
    """Two of the smallest model's layers, on 32 tokens, its scan unrolled."""
    config = MambaConfig(vocab_size=30_000, hidden_size=768, num_hidden_layers=2)
    module = Wrapped(MambaModel(config), ("input_ids",), _HIDDEN, use_cache=False)
    return module, tokens(batch, 32, vocabulary=30_000)
