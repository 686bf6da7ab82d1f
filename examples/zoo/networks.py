"""PyTorch modules of the zoo that no package provides; imported by `export.py` only."""

from itertools import pairwise

import torch
from torch import nn


def _block(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers.append(nn.Conv2d(channels, outputs, 3, padding=1, bias=False))
        layers += [nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Ronneberger et al. 2015, padded, with batch normalisation and transposed convolutions."""

    def __init__(self, channels: int = 32, depth: int = 4):
        super().__init__()
        widths = [channels * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            _block(i, o) for i, o in zip([3, *widths[: depth - 1]], widths[:depth], strict=True)
        )
        self.mid = _block(widths[-2], widths[-1])
        self.pool = nn.MaxPool2d(2)
        levels = list(reversed(range(depth)))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(widths[level + 1], widths[level], 2, 2) for level in levels
        )
        self.dec = nn.ModuleList(_block(widths[level + 1], widths[level]) for level in levels)
        self.out = nn.Conv2d(channels, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image (batch, 3, height, width) to one channel of the same size."""
        skipped = []
        for block in self.down:
            x = block(x)
            skipped.append(x)
            x = self.pool(x)
        x = self.mid(x)
        for up, block, skip in zip(self.up, self.dec, reversed(skipped), strict=True):
            x = block(torch.cat([up(x), skip], 1))
        return self.out(x)


class DeepFM(nn.Module):
    """Guo et al. 2017: a factorisation machine and a perceptron on the same embeddings."""

    def __init__(self, fields: int = 26, vocabulary: int = 10_000, width: int = 16):
        super().__init__()
        self.e = nn.ModuleList(nn.Embedding(vocabulary, width) for _ in range(fields))
        self.l = nn.ModuleList(nn.Embedding(vocabulary, 1) for _ in range(fields))
        # Unit variance would saturate the sigmoid at the end.
        for embedding, deviation in [(e, 0.1) for e in self.e] + [(e, 0.2) for e in self.l]:
            nn.init.normal_(embedding.weight, std=deviation)
        sizes = [fields * width, 400, 400, 400]
        hidden: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            hidden += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.mlp = nn.Sequential(*hidden, nn.Linear(400, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ids (batch, fields) to a probability (batch, 1)."""
        embedded = [e(x[:, i]) for i, e in enumerate(self.e)]
        linear = sum(e(x[:, i]) for i, e in enumerate(self.l))
        stacked = torch.stack(embedded, 1)
        pairs = 0.5 * (stacked.sum(1) ** 2 - (stacked**2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(linear + pairs + self.mlp(torch.cat(embedded, 1)))


class SimpleRecurrentUnits(nn.Module):
    """Lei et al. 2018: a stack of simple recurrent units, unrolled over its steps."""

    def __init__(self, layers: int = 10, width: int = 1024, steps: int = 10):
        super().__init__()
        self.w = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A sequence (steps, width) to one of the same shape."""
        sequence = [x[step : step + 1] for step in range(self.steps)]
        for weight in self.w:
            cell = torch.zeros_like(sequence[0])
            following = []
            for x_t in sequence:
                candidate, forget, reset = weight(x_t).chunk(3, -1)
                forget, reset = torch.sigmoid(forget), torch.sigmoid(reset)
                cell = forget * cell + (1 - forget) * candidate
                following.append(reset * torch.tanh(cell) + (1 - reset) * x_t)
            sequence = following
        return torch.cat(sequence, 0)


class Wrapped(nn.Module):
    """A transformers model called with keywords, giving one tensor of its result."""

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], output: str, **options: bool):
        super().__init__()
        self.m = model
        self.inputs, self.output, self.options = inputs, output, options

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """The named result of the named inputs."""
        arguments = dict(zip(self.inputs, tensors, strict=True))
        return getattr(self.m(**arguments, **self.options), self.output)
