"""Builders of networks from images to images; imported by `export.py` only."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.export import Built, image


class ChannelNorm(nn.Module):
    """A layer normalisation of each pixel's channels, of images with channels first."""

    def __init__(self, channels: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1, 1))
        self.shift = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width) to the same."""
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).square().mean(1, keepdim=True)
        return (x - mean) / (variance + 1e-6).sqrt() * self.scale + self.shift


class GatedBlock(nn.Module):
    """Chen et al. 2022 (NAFNet): halves that multiply each other instead of activations."""

    def __init__(self, width: int):
        super().__init__()
        self.first, self.second = ChannelNorm(width), ChannelNorm(width)
        self.widen = nn.Conv2d(width, 2 * width, 1)
        self.local = nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width)
        self.attend = nn.Conv2d(width, width, 1)
        self.narrow = nn.Conv2d(width, width, 1)
        self.gated, self.leave = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(width, width, 1)
        self.scales = nn.ParameterList(torch.ones(width, 1, 1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to one of the same shape."""
        low, high = self.local(self.widen(self.first(x))).chunk(2, 1)
        y = low * high
        x = x + self.narrow(y * self.attend(y.mean((2, 3), keepdim=True))) * self.scales[0]
        low, high = self.gated(self.second(x)).chunk(2, 1)
        return x + self.leave(low * high) * self.scales[1]


class Restorer(nn.Module):
    """Chen et al. 2022 (NAFNet): a UNet of gated blocks, upwards by shuffled pixels."""

    def __init__(self, width: int = 32, scales: int = 2):
        super().__init__()
        widths = [width * 2**scale for scale in range(scales)]
        self.enter, self.leave = (
            nn.Conv2d(3, width, 3, padding=1),
            nn.Conv2d(width, 3, 3, padding=1),
        )
        self.down = nn.ModuleList(GatedBlock(w) for w in widths)
        self.shrink = nn.ModuleList(nn.Conv2d(w, 2 * w, 2, 2) for w in widths)
        self.middle = GatedBlock(2 * widths[-1])
        self.grow = nn.ModuleList(
            nn.Sequential(nn.Conv2d(2 * w, 4 * w, 1, bias=False), nn.PixelShuffle(2))
            for w in reversed(widths)
        )
        self.up = nn.ModuleList(GatedBlock(w) for w in reversed(widths))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 3, height, width) to the same."""
        y, skipped = self.enter(x), list[torch.Tensor]()
        for block, shrink in zip(self.down, self.shrink, strict=True):
            y = block(y)
            skipped.append(y)
            y = shrink(y)
        y = self.middle(y)
        for grow, block, skip in zip(self.grow, self.up, reversed(skipped), strict=True):
            y = block(grow(y) + skip)
        return x + self.leave(y)


class OpticalFlow(nn.Module):
    """Teed and Deng 2020 (RAFT): all pairs' correlations, read around a flow that a GRU updates."""

    def __init__(self, width: int = 64, steps: int = 4, radius: int = 3, levels: int = 3):
        super().__init__()
        self.steps, self.levels = steps, levels
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 7, 2, 3),
            nn.InstanceNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, width, 3, 2, 1),
            nn.InstanceNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1),
        )
        offsets = torch.arange(-radius, radius + 1)
        self.register_buffer("window", torch.cartesian_prod(offsets, offsets).flip(1).float())
        looked = levels * (2 * radius + 1) ** 2
        self.read = nn.Conv2d(looked + 2, width, 1)
        self.gates = nn.Conv2d(3 * width, 2 * width, 3, padding=1)
        self.candidate = nn.Conv2d(3 * width, width, 3, padding=1)
        self.flow = nn.Conv2d(width, 2, 3, padding=1)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Two images (1, 3, height, width) to a flow (1, 2, height / 8, width / 8)."""
        one, other = self.features(first), self.features(second)
        height, width = one.shape[2:]
        pairs = one.flatten(2).transpose(1, 2) @ other.flatten(2) * one.shape[1] ** -0.5
        volumes = [pairs.reshape(height * width, 1, height, width)]
        for _ in range(self.levels - 1):
            volumes.append(functional.avg_pool2d(volumes[-1], 2))
        rows = torch.arange(height, device=one.device, dtype=one.dtype)[:, None]
        columns = torch.arange(width, device=one.device, dtype=one.dtype)
        state, context = torch.tanh(one).chunk(2, 1)
        flow = torch.zeros_like(one[:, :2])
        for _ in range(self.steps):
            places = torch.cat([flow[:, :1] + columns, flow[:, 1:] + rows], 1)
            looked = self._looked(volumes, places)
            x = torch.cat([torch.relu(self.read(torch.cat([looked, flow], 1))), context], 1)
            update, reset = torch.sigmoid(self.gates(torch.cat([state, x], 1))).chunk(2, 1)
            candidate = torch.tanh(self.candidate(torch.cat([reset * state, x], 1)))
            state = (1 - update) * state + update * candidate
            flow = flow + self.flow(state)
        return flow

    def _looked(self, volumes: list[torch.Tensor], places: torch.Tensor) -> torch.Tensor:
        height, width = places.shape[2:]
        centres = places.permute(0, 2, 3, 1).reshape(height * width, 1, 1, 2)
        window = self.window.view(1, -1, 1, 2)
        looked = list[torch.Tensor]()
        for level, volume in enumerate(volumes):
            sizes = torch.tensor([volume.shape[3] - 1, volume.shape[2] - 1], device=volume.device)
            grid = 2 * (centres / 2**level + window) / sizes - 1
            sampled = functional.grid_sample(volume, grid, align_corners=True)
            looked.append(sampled.view(1, height, width, -1).permute(0, 3, 1, 2))
        return torch.cat(looked, 1)


class Codebook(nn.Module):
    """Van den Oord et al. 2017 (VQ-VAE): a pixel's features become the nearest of the codes."""

    def __init__(self, codes: int = 1_024, width: int = 64):
        super().__init__()
        self.codes = nn.Embedding(codes, width)
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, width, 4, 2, 1), nn.ReLU()
        )
        self.narrow = nn.Conv2d(width, width, 1)
        self.decoder = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 32, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 3, 4, 2, 1),
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, 3, height, width) to the same, and the codes (batch, height / 4, width / 4)."""
        pixels = self.narrow(self.encoder(x)).permute(0, 2, 3, 1)
        codes = self.codes.weight
        distances = codes.square().sum(1) - 2 * pixels @ codes.T
        nearest = distances.argmin(-1)
        return self.decoder(self.codes(nearest).permute(0, 3, 1, 2)), nearest


def nafnet(batch: int) -> Built:
    """Images of 128 by 128 pixels."""
    return Restorer(), image(batch, 128, 128)


def nafnet_open(batch: int) -> Built:
    """Images of 96 by 144 pixels, their height and width open."""
    return Restorer(), image(batch, 96, 144)


def raft(batch: int) -> Built:
    """A pair of 128 by 192 pixels, four steps."""
    if batch != 1:
        raise SystemExit("raft reads one pair's correlations: export it with --batch 1")
    return OpticalFlow(), (*image(1, 128, 192), *image(1, 128, 192))


def vq_vae(batch: int) -> Built:
    """Images of 128 by 128 pixels, 1,024 codes."""
    return Codebook(), image(batch, 128, 128)
