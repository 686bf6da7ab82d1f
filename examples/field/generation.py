"""Builders of a diffusion UNet and of encoder-decoders; imported by `export.py` only."""

import torch
from torch import nn
from torch.nn import functional
from transformers import BartConfig, BartModel, T5Config, T5Model

from examples.zoo.export import Built, tokens
from examples.zoo.networks import Wrapped


class TimedBlock(nn.Module):
    """Two normalised convolutions around the step's embedding, and a residual."""

    def __init__(self, inputs: int, outputs: int, step: int):
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.step = nn.Sequential(nn.SiLU(), nn.Linear(step, outputs))
        self.second = nn.Sequential(
            nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1)
        )
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        """An image to one of other channels."""
        y = self.first(x) + self.step(step)[:, :, None, None]
        return self.skip(x) + self.second(y)


class Attention(nn.Module):
    """Heads that attend to the pixels themselves, or to a text."""

    def __init__(self, width: int, context: int, heads: int = 8):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(context, width, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """(batch, pixels, width) to the same."""
        query, key, value = map(
            self._split, (self.query(x), self.key(context), self.value(context))
        )
        scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Attention to the image and to the text, then a gated perceptron (GEGLU)."""

    def __init__(self, width: int, context: int):
        super().__init__()
        self.enter_norm, self.enter = nn.GroupNorm(32, width, 1e-6), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, width), Attention(width, context)
        self.gated, self.out = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.leave = nn.Conv2d(width, width, 1)

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """An image to one of the same shape."""
        x = self.enter(self.enter_norm(image)).flatten(2).transpose(1, 2)
        y = self.norms[0](x)
        x = x + self.own(y, y)
        x = x + self.cross(self.norms[1](x), text)
        values, gates = self.gated(self.norms[2](x)).chunk(2, -1)
        x = x + self.out(values * functional.gelu(gates))
        return image + self.leave(x.transpose(1, 2).unflatten(2, image.shape[2:]))


class Stage(nn.Module):
    """A block and a transformer at one scale."""

    def __init__(self, inputs: int, outputs: int, step: int, context: int):
        super().__init__()
        self.block = TimedBlock(inputs, outputs, step)
        self.transformer = TransformerBlock(outputs, context)

    def forward(self, x: torch.Tensor, step: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """An image to one of other channels."""
        return self.transformer(self.block(x, step), text)


class LatentUNet(nn.Module):
    """Rombach et al. 2022: the widths of Stable Diffusion's first three scales, a stage at each."""

    def __init__(self, widths: tuple[int, ...] = (320, 640, 1280), context: int = 768):
        super().__init__()
        first, step = widths[0], 4 * widths[0]
        self.embed = nn.Sequential(nn.Linear(first, step), nn.SiLU(), nn.Linear(step, step))
        self.enter = nn.Conv2d(4, first, 3, padding=1)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        for inputs, outputs in zip((first, *widths), widths, strict=False):
            self.down.append(Stage(inputs, outputs, step, context))
            self.shrink.append(nn.Conv2d(outputs, outputs, 3, 2, 1))
        self.middle = Stage(widths[-1], widths[-1], step, context)
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        for inputs, outputs in zip((widths[-1], *widths[:0:-1]), widths[::-1], strict=True):
            self.grow.append(nn.Conv2d(inputs, inputs, 3, padding=1))
            self.up.append(Stage(inputs + outputs, outputs, step, context))
        self.leave = nn.Sequential(
            nn.GroupNorm(32, first), nn.SiLU(), nn.Conv2d(first, 4, 3, padding=1)
        )

    def forward(self, x: torch.Tensor, step: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """A latent image (batch, 4, ...), a step's sines and a text's embedding to the noise."""
        step, skipped = self.embed(step), list[torch.Tensor]()
        x = self.enter(x)
        for stage, shrink in zip(self.down, self.shrink, strict=True):
            x = stage(x, step, text)
            skipped.append(x)
            x = shrink(x)
        x = self.middle(x, step, text)
        for grow, stage, skip in zip(self.grow, self.up, reversed(skipped), strict=True):
            x = grow(functional.interpolate(x, scale_factor=2.0))
            x = stage(torch.cat([x, skip], 1), step, text)
        return self.leave(x)


def latent_unet(batch: int) -> Built:
    """A latent of 32 by 32, which is an image of 256 by 256, and a text of 77 tokens."""
    inputs = (torch.randn(batch, 4, 32, 32), torch.randn(batch, 320), torch.randn(batch, 77, 768))
    return LatentUNet(), inputs


def bart(batch: int) -> Built:
    """Two of the base model's six layers on each side."""
    config = BartConfig(
        vocab_size=30_000,
        d_model=768,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        attn_implementation="eager",
    )
    inputs = ("input_ids", "decoder_input_ids")
    module = Wrapped(BartModel(config), inputs, "last_hidden_state", use_cache=False)
    return module, tokens(batch, 64, 16, vocabulary=30_000)


def flan_t5(batch: int) -> Built:
    """Two of the eight layers of the small Flan-T5 on each side, with gated perceptrons."""
    config = T5Config(
        vocab_size=30_000,
        d_model=512,
        d_kv=64,
        d_ff=1024,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=6,
        feed_forward_proj="gated-gelu",
    )
    inputs = ("input_ids", "decoder_input_ids")
    module = Wrapped(T5Model(config), inputs, "last_hidden_state", use_cache=False)
    return module, tokens(batch, 128, 32, vocabulary=30_000)
