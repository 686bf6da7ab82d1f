"""Builders of experts, a sampler and a decoder's step; imported by `export.py` only."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.export import Built, tokens


class GatheredExperts(nn.Module):
    """Jiang et al. 2024 (Mixtral): each token multiplies by the weights of its two experts."""

    def __init__(self, width: int, hidden: int, experts: int):
        super().__init__()
        self.norm, self.route = nn.LayerNorm(width), nn.Linear(width, experts)
        self.enter = nn.Parameter(torch.randn(experts, width, 2 * hidden) * width**-0.5)
        self.leave = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens, width) to the same."""
        normal = self.norm(x)
        scores, chosen = self.route(normal).topk(2, -1)
        gate, value = torch.einsum("td,tkdh->tkh", normal, self.enter[chosen]).chunk(2, -1)
        outputs = torch.einsum("tkh,tkhd->tkd", functional.silu(gate) * value, self.leave[chosen])
        return x + (outputs * scores.softmax(-1)[..., None]).sum(1)


class DispatchedExperts(nn.Module):
    """Fedus et al. 2021 (Switch): experts of a capacity, and one MatMul for all of them."""

    def __init__(self, width: int, hidden: int, experts: int, capacity: int):
        super().__init__()
        self.experts, self.capacity = experts, capacity
        self.norm, self.route = nn.LayerNorm(width), nn.Linear(width, experts)
        self.enter = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.leave = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens, width) to the same; tokens beyond an expert's capacity pass by."""
        normal = self.norm(x)
        weights, chosen = self.route(normal).softmax(-1).max(-1)
        one = functional.one_hot(chosen, self.experts)
        places = (one.cumsum(0) * one).sum(-1) - 1
        slots = functional.one_hot(places.clamp(max=self.capacity), self.capacity + 1)
        routes = (one[:, :, None] * slots[:, None, : self.capacity]).to(x.dtype)
        inputs = torch.einsum("td,tec->ecd", normal, routes)
        outputs = torch.relu(inputs @ self.enter) @ self.leave
        return x + torch.einsum("ecd,tec->td", outputs, routes) * weights[:, None]


class NucleusSampling(nn.Module):
    """Holtzman et al. 2020: the likeliest tokens of a joint probability, and one drawn of them."""

    def __init__(self, width: int = 256, vocabulary: int = 32_000, share: float = 0.9):
        super().__init__()
        self.temperature, self.share = 0.8, share
        self.head = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.head.weight, std=0.15)  # as a trained head, it prefers a few tokens

    def forward(self, x: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(rows, width) and numbers (rows, 1) to tokens and their probabilities (rows, 1)."""
        ordered, ids = (self.head(x) / self.temperature).sort(-1, descending=True)
        shares = ordered.softmax(-1)
        before = shares.cumsum(-1) - shares
        shares = shares.masked_fill(before > self.share, 0)
        shares = shares / shares.sum(-1, keepdim=True)
        drawn = (
            (shares.cumsum(-1) > torch.sigmoid(uniform)).to(torch.int32).argmax(-1, keepdim=True)
        )
        return ids.gather(-1, drawn), shares.gather(-1, drawn)


class CachedLayer(nn.Module):
    """Attention of one new token, eight heads to two of keys, to a cache of fixed size."""

    def __init__(self, width: int, heads: int, pairs: int, length: int):
        super().__init__()
        self.heads, self.pairs, self.size = heads, pairs, width // heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.project = nn.Linear(width, (heads + 2 * pairs) * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gated = nn.Linear(width, 6 * width, bias=False)
        self.narrow = nn.Linear(3 * width, width, bias=False)
        rates = 10_000 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.arange(length)[:, None] * torch.cat([rates, rates])
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def _turned(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        return x * self.cosines[position] + torch.cat([-high, low], -1) * self.sines[position]

    def forward(
        self, x: torch.Tensor, position: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(batch, 1, width) and caches (batch, pairs, length, size) to the same."""
        heads = self.project(self.first(x)).unflatten(2, (-1, self.size)).transpose(1, 2)
        query, key, value = heads.split([self.heads, self.pairs, self.pairs], 1)
        query, key = self._turned(query, position), self._turned(key, position)
        keys, values = keys.index_copy(2, position, key), values.index_copy(2, position, value)
        query = query.reshape(x.shape[0], self.pairs, -1, self.size)
        scores = query @ keys.transpose(2, 3) * self.size**-0.5
        later = torch.arange(keys.shape[2], device=x.device) > position
        attended = scores.masked_fill(later, float("-inf")).softmax(-1) @ values
        x = x + self.out(attended.reshape(x.shape))
        gate, wide = self.gated(self.second(x)).chunk(2, -1)
        return x + self.narrow(functional.silu(gate) * wide), keys, values


class CachedDecoder(nn.Module):
    """One step of two layers; its caches are inputs and outputs of the same size."""

    def __init__(self, length: int, vocabulary: int = 32_000, width: int = 512):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(CachedLayer(width, 8, 2, length) for _ in range(2))
        self.norm, self.score = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(
        self, ids: torch.Tensor, position: torch.Tensor, *caches: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Ids (batch, 1), a position (1,) and caches to scores and the caches after the step."""
        x, after = self.embed(ids), list[torch.Tensor]()
        for layer, keys, values in zip(self.layers, caches[::2], caches[1::2], strict=True):
            x, *pair = layer(x, position, keys, values)
            after += pair
        return self.score(self.norm(x)), *after


def gathered_experts(batch: int) -> Built:
    """Two layers of eight experts, for sixteen tokens for each of a batch."""
    layers = [GatheredExperts(256, 512, 8) for _ in range(2)]
    return nn.Sequential(*layers), (torch.randn(16 * batch, 256),)


def switch_experts(batch: int) -> Built:
    """Two layers of eight experts of 32 tokens, for 128 tokens for each of a batch."""
    layers = [DispatchedExperts(256, 512, 8, 32 * batch) for _ in range(2)]
    return nn.Sequential(*layers), (torch.randn(128 * batch, 256),)


def nucleus(batch: int) -> Built:
    """Eight rows, each of 32,000 logits, for each of a batch."""
    return NucleusSampling(), (torch.randn(8 * batch, 256), torch.randn(8 * batch, 1))


def cached_step(batch: int) -> Built:
    """A step of two layers at a place among 512."""
    caches = tuple(torch.randn(batch, 2, 512, 64) for _ in range(4))
    (ids,) = tokens(batch, 1, vocabulary=32_000)
    return CachedDecoder(512), (ids, torch.tensor([300]), *caches)
