"""Builders of state-space models, a long convolution and a filter; imported by `export.py` only."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.export import Built, tokens


def _segment_sums(x: torch.Tensor) -> torch.Tensor:
    """(..., length) to (..., length, length): sums of x over the steps from j + 1 to i, j <= i."""
    sums = x.cumsum(-1)
    differences = sums[..., :, None] - sums[..., None, :]
    lower = torch.ones_like(differences[(0,) * (x.dim() - 1)], dtype=torch.bool).tril()
    return differences.masked_fill(~lower, float("-inf"))


class ChunkedScan(nn.Module):
    """Dao and Gu 2024 (Mamba-2): attention within chunks, and a scan of states over chunks."""

    def __init__(self, width: int, heads: int, state: int, chunk: int):
        super().__init__()
        self.heads, self.state, self.chunk = heads, state, chunk
        self.norm = nn.LayerNorm(width)
        self.enter = nn.Linear(width, 2 * width + 2 * state + heads)
        self.local = nn.Conv1d(width + 2 * state, width + 2 * state, 4, groups=width + 2 * state)
        self.rates = nn.Parameter(torch.linspace(0.0, 1.5, heads))
        self.leave = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same."""
        width = x.shape[2]
        gate, mixed, step = self.enter(self.norm(x)).split(
            [width, width + 2 * self.state, self.heads], 2
        )
        mixed = self.local(functional.pad(mixed.transpose(1, 2), (3, 0))).transpose(1, 2)
        value, key, query = functional.silu(mixed).split([width, self.state, self.state], 2)
        step = functional.softplus(step)
        value = value.unflatten(2, (self.heads, -1))
        scanned = self._scan(value * step[..., None], -self.rates.exp() * step, key, query)
        return x + self.leave(scanned.flatten(2) * functional.silu(gate))

    def _scan(
        self, value: torch.Tensor, decay: torch.Tensor, key: torch.Tensor, query: torch.Tensor
    ) -> torch.Tensor:
        value, decay, key, query = (
            t.unflatten(1, (-1, self.chunk)) for t in (value, decay, key, query)
        )
        decay = decay.permute(0, 3, 1, 2)
        sums = decay.cumsum(-1)
        inside = torch.einsum(
            "bcln,bcsn,bhcls,bcshp->bclhp", query, key, _segment_sums(decay).exp(), value
        )
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", key, (sums[..., -1:] - sums).exp(), value)
        states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
        across = _segment_sums(functional.pad(sums[..., -1], (1, 0))).exp()
        states = torch.einsum("bhzc,bchpn->bzhpn", across, states)[:, :-1]
        before = torch.einsum("bcln,bchpn,bhcl->bclhp", query, states, sums.exp())
        return (inside + before).flatten(1, 2)


class SelectiveScan(nn.Module):
    """Gu and Dao 2023 (Mamba), its scan as a ratio of two running sums over time."""

    def __init__(self, width: int, state: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.enter = nn.Linear(width, 2 * width)
        self.select = nn.Linear(width, width + 2 * state)
        self.rates = nn.Parameter(torch.rand(width, state) * 0.2 - 3.0)
        self.leave = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same."""
        width, state = self.rates.shape
        value, gate = self.enter(self.norm(x)).chunk(2, 2)
        step, key, query = self.select(value).split([width, state, state], 2)
        step = 0.2 * torch.sigmoid(step)
        decay = (-step[..., None] * self.rates.exp()).cumsum(1)
        driven = (step * value)[..., None] * key[:, :, None]
        states = (driven * (-decay).exp()).cumsum(1) * decay.exp()
        return x + self.leave((states @ query[..., None])[..., 0] * functional.silu(gate))


class LongConvolution(nn.Module):
    """Poli et al. 2023 (Hyena): gated convolutions as long as the input, by Fourier transforms."""

    def __init__(self, width: int, length: int, positions: int = 16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.enter = nn.Linear(width, 3 * width)
        self.local = nn.Conv1d(3 * width, 3 * width, 3, groups=3 * width)
        angles = torch.linspace(0, 1, length)[:, None] * torch.arange(1, positions + 1) * torch.pi
        self.register_buffer("features", torch.cat([angles.sin(), angles.cos()], 1))
        self.register_buffer("window", (-torch.linspace(0, 4, length)).exp())
        self.filter = nn.Sequential(
            nn.Linear(2 * positions, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU()
        )
        self.taps = nn.Linear(64, width)
        self.skip = nn.Parameter(torch.randn(width))
        self.leave = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same."""
        length = x.shape[1]
        mixed = functional.pad(self.enter(self.norm(x)).transpose(1, 2), (2, 0))
        first, second, value = self.local(mixed).chunk(3, 1)
        taps = (self.taps(self.filter(self.features)).T * self.window) / 16
        driven = value * first
        product = torch.fft.rfft(driven, n=2 * length) * torch.fft.rfft(taps, n=2 * length)
        filtered = torch.fft.irfft(product, n=2 * length)[..., :length]
        filtered = (filtered + driven * self.skip[:, None]) * second
        return x + self.leave(filtered.transpose(1, 2))


class Tracker(nn.Module):
    """Kalman 1960: positions and velocities in the plane, predicted and corrected step by step."""

    def __init__(self):
        super().__init__()
        self.transition = nn.Parameter(torch.eye(4) + torch.diag(torch.full((2,), 0.1), 2))
        self.observed = nn.Parameter(torch.eye(2, 4) + 0.05 * torch.randn(2, 4))
        self.register_buffer("moved", 0.01 * torch.eye(4))
        self.register_buffer("seen", 0.5 * torch.eye(2))

    def forward(self, measured: torch.Tensor, doubts: torch.Tensor) -> torch.Tensor:
        """Measurements (tracks, steps, 2) and their doubts, of any sign, to states (..., 4)."""
        state = torch.zeros_like(measured[:, 0, :1]).expand(-1, 4)[..., None]
        covariance = self.moved * 100
        noise = functional.softplus(doubts)[..., None, None] * self.seen
        states = list[torch.Tensor]()
        for step in range(measured.shape[1]):
            state = self.transition @ state
            covariance = self.transition @ covariance @ self.transition.T + self.moved
            crossed = covariance @ self.observed.T
            gain = crossed @ _inverse(self.observed @ crossed + noise[:, step])
            state = state + gain @ (measured[:, step, :, None] - self.observed @ state)
            covariance = covariance - gain @ crossed.mT
            states.append(state[..., 0])
        return torch.stack(states, 1)


def _inverse(matrix: torch.Tensor) -> torch.Tensor:
    """Of matrices (..., 2, 2)."""
    a, b, c, d = matrix.flatten(-2).split(1, -1)
    inverted = torch.cat([d, -b, -c, a], -1) / (a * d - b * c)
    return inverted.unflatten(-1, (2, 2))


def chunked_scan(batch: int) -> Built:
    """Two layers of Mamba-2 with eight heads and states of 64, on 512 tokens in chunks of 64."""
    layers = [ChunkedScan(256, heads=8, state=64, chunk=64) for _ in range(2)]
    return nn.Sequential(nn.Embedding(10_000, 256), *layers), tokens(batch, 512, vocabulary=10_000)


def selective_scan(batch: int) -> Built:
    """Two layers with states of 16 for each of 256 channels, over 512 frames."""
    return nn.Sequential(*(SelectiveScan(256, 16) for _ in range(2))), (
        torch.randn(batch, 512, 256),
    )


def hyena(batch: int) -> Built:
    """Two long convolutions over 1,024 frames of 256 channels."""
    return nn.Sequential(*(LongConvolution(256, 1_024) for _ in range(2))), (
        torch.randn(batch, 1_024, 256),
    )


def kalman(batch: int) -> Built:
    """64 tracks of 16 steps for each of a batch."""
    return Tracker(), (torch.randn(64 * batch, 16, 2), torch.randn(64 * batch, 16))
