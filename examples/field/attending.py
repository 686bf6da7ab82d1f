"""Builders of attention of other forms, and of speech; imported by `export.py` only."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.export import Built, tokens


class Heads(nn.Module):
    """Attention of heads to a context of another width, which may be masked."""

    def __init__(self, width: int, context: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.pair, self.out = nn.Linear(context, 2 * width), nn.Linear(width, width)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(
        self, x: torch.Tensor, context: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(batch, count, width) to the same; the mask (batch, 1, 1, length) is added to scores."""
        key, value = self.pair(context).chunk(2, 2)
        query, key, value = self._split(self.query(x)), self._split(key), self._split(value)
        scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
        scores = scores if mask is None else scores + mask
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


def _perceptron(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class AdaptiveBlock(nn.Module):
    """Peebles and Xie 2022: a condition scales, shifts and gates both parts of a layer."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.first, self.second = (nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.attention, self.perceptron = Heads(width, width, heads), _perceptron(width)
        self.modulate = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """(batch, patches, width) and a condition (batch, width) to the same."""
        shift, scale, gate, shift2, scale2, gate2 = self.modulate(condition)[:, None].chunk(6, 2)
        y = self.first(x) * (1 + scale) + shift
        x = x + gate * self.attention(y, y)
        return x + gate2 * self.perceptron(self.second(x) * (1 + scale2) + shift2)


class DiffusionTransformer(nn.Module):
    """Peebles and Xie 2022 (DiT): patches of a latent image, a step and a class to the noise."""

    def __init__(self, width: int = 384, heads: int = 6, layers: int = 4, size: int = 32):
        super().__init__()
        self.side = size // 2
        self.enter = nn.Conv2d(4, width, 2, 2)
        self.positions = nn.Parameter(0.1 * torch.randn(1, self.side**2, width))
        self.step = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.register_buffer("rates", 10_000 ** (-torch.arange(128) / 128))
        self.kinds = nn.Embedding(1_000, width)
        self.blocks = nn.ModuleList(AdaptiveBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulate = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.leave = nn.Linear(width, 16)

    def forward(self, x: torch.Tensor, step: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
        """(batch, 4, size, size), steps and classes (batch,) to (batch, 4, size, size)."""
        angles = step[:, None] * self.rates
        condition = self.step(torch.cat([angles.cos(), angles.sin()], 1)) + self.kinds(kind)
        x = self.enter(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.modulate(condition)[:, None].chunk(2, 2)
        x = self.leave(self.norm(x) * (1 + scale) + shift)
        patches = x.view(-1, self.side, self.side, 2, 2, 4)
        return patches.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)


class Latents(nn.Module):
    """Jaegle et al. 2021 (Perceiver): latents read a long input, then attend to each other."""

    def __init__(self, width: int = 256, inputs: int = 67, count: int = 128, layers: int = 4):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(1, count, width))
        self.norm, self.read = nn.LayerNorm(inputs), Heads(width, inputs, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.attentions = nn.ModuleList(Heads(width, width, 8) for _ in range(layers))
        self.perceptrons = nn.ModuleList(_perceptron(width) for _ in range(layers))
        self.score = nn.Linear(width, 100)
        self.register_buffer("bands", torch.linspace(1, 32, 16) * torch.pi)

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """(batch, count, 3) and their places (batch, count, 2) to scores (batch, classes)."""
        angles = (places[..., None] * self.bands).flatten(2)
        context = self.norm(torch.cat([x, angles.sin(), angles.cos()], 2))
        latents = self.latents.expand(x.shape[0], -1, -1)
        latents = latents + self.read(latents, context)
        for index, (attention, layer) in enumerate(
            zip(self.attentions, self.perceptrons, strict=True)
        ):
            normal = self.norms[2 * index](latents)
            latents = latents + attention(normal, normal)
            latents = latents + layer(self.norms[2 * index + 1](latents))
        return self.score(latents.mean(1))


class Encoder(nn.Module):
    """Vaswani et al. 2017: a masked encoder with learned positions, the mean of its tokens."""

    def __init__(self, width: int = 256, layers: int = 2, vocabulary: int = 10_000):
        super().__init__()
        self.embed, self.places = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.attentions = nn.ModuleList(Heads(width, width, 4) for _ in range(layers))
        self.perceptrons = nn.ModuleList(_perceptron(width) for _ in range(layers))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Ids and a mask of ones and zeros (batch, length) to vectors of length 1."""
        x = self.embed(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        weights = mask.to(x.dtype)
        hidden = ((1 - weights) * -1e4)[:, None, None]
        for index, (attention, layer) in enumerate(
            zip(self.attentions, self.perceptrons, strict=True)
        ):
            x = self.norms[2 * index](x + attention(x, x, hidden))
            x = self.norms[2 * index + 1](x + layer(x))
        sums = (x * weights[..., None]).sum(1) / (weights.sum(1, keepdim=True) + 1e-6)
        return functional.normalize(sums, dim=1)


class Joiner(nn.Module):
    """Graves 2012 (RNN-T): every frame with every letter so far, to logarithms of probabilities."""

    def __init__(self, width: int = 512, letters: int = 1_024):
        super().__init__()
        self.embed, self.recent = nn.Embedding(letters, width), nn.Conv1d(width, width, 2, groups=8)
        self.frames, self.letters = nn.Linear(width, width), nn.Linear(width, width)
        self.score = nn.Linear(width, letters)

    def forward(self, frames: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Frames (batch, time, width) and ids (batch, count) to (batch, time, count, letters)."""
        recent = functional.pad(self.embed(ids).transpose(1, 2), (1, 0))
        spoken = self.letters(torch.relu(self.recent(recent)).transpose(1, 2))
        joined = torch.tanh(self.frames(frames)[:, :, None] + spoken[:, None])
        return self.score(joined).log_softmax(-1)


class MelFrontEnd(nn.Module):
    """A spectrogram of mel bands from samples, and strided convolutions over time."""

    def __init__(self, size: int = 400, hop: int = 160, bands: int = 80, width: int = 256):
        super().__init__()
        self.size, self.hop = size, hop
        self.register_buffer("window", torch.hann_window(size))
        centres = torch.linspace(0, 1, bands + 2) ** 2 * (size // 2)
        rise = (torch.arange(size // 2 + 1)[:, None] - centres[:-2]) / (
            centres[1:-1] - centres[:-2]
        )
        fall = (centres[2:] - torch.arange(size // 2 + 1)[:, None]) / (centres[2:] - centres[1:-1])
        self.register_buffer("bands", torch.minimum(rise, fall).clamp(min=0))
        self.first = nn.Conv1d(bands, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, 2, 1)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        """(batch, samples) to (batch, width, frames / 2)."""
        spectrum = torch.stft(
            samples, self.size, self.hop, window=self.window, center=False, return_complex=True
        )
        power = torch.view_as_real(spectrum).square().sum(-1)
        mel = (power.transpose(1, 2) @ self.bands).clamp(min=1e-10).log10().transpose(1, 2)
        return functional.gelu(self.second(functional.gelu(self.first(mel))))


def dit(batch: int) -> Built:
    """Four blocks of 384, on a latent of 32 by 32 in patches of two."""
    inputs = (torch.randn(batch, 4, 32, 32), torch.randn(batch), torch.randint(0, 1_000, (batch,)))
    return DiffusionTransformer(), inputs


def perceiver(batch: int) -> Built:
    """4,096 places of three values, read by 128 latents."""
    return Latents(), (torch.randn(batch, 4_096, 3), torch.randn(batch, 4_096, 2))


def encoder_open(batch: int) -> Built:
    """Texts of 100 tokens, their length open."""
    return Encoder(), (*tokens(batch, 100, vocabulary=10_000), torch.ones(batch, 100).long())


def transducer(batch: int) -> Built:
    """100 frames and 20 letters so far."""
    return Joiner(), (torch.randn(batch, 100, 512), *tokens(batch, 20, vocabulary=1_024))


def log_mel(batch: int) -> Built:
    """A second of sound at 16 kHz."""
    return MelFrontEnd(), (torch.randn(batch, 16_000),)
