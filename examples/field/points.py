"""Builders of networks on points and on edges; imported by `export.py` only."""

from itertools import product

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.export import Built


class EdgeConvolution(nn.Module):
    """Wang et al. 2019: a perceptron of a point and its nearest others, their maximum."""

    def __init__(self, inputs: int, outputs: int, neighbours: int):
        super().__init__()
        self.neighbours = neighbours
        self.layers = nn.Sequential(
            nn.Conv2d(2 * inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.LeakyReLU(0.2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Points (batch, inputs, count) to (batch, outputs, count)."""
        batch, width, count = x.shape
        squares = x.square().sum(1, keepdim=True)
        closeness = 2 * x.transpose(1, 2) @ x - squares - squares.transpose(1, 2)
        nearest = closeness.topk(self.neighbours, -1).indices
        first = torch.arange(batch, device=x.device)[:, None, None] * count
        rows = x.transpose(1, 2).flatten(0, 1)[(nearest + first).flatten()]
        around = rows.view(batch, count, self.neighbours, width)
        centre = x.transpose(1, 2)[:, :, None].expand_as(around)
        edges = torch.cat([around - centre, centre], 3).permute(0, 3, 1, 2)
        return self.layers(edges).amax(-1)


class PointGraph(nn.Module):
    """Wang et al. 2019 (DGCNN): neighbours are found anew among each layer's features."""

    def __init__(self, neighbours: int = 20, classes: int = 40):
        super().__init__()
        self.edges = nn.ModuleList(
            EdgeConvolution(i, o, neighbours) for i, o in ((3, 64), (64, 64), (64, 128))
        )
        self.merge = nn.Sequential(nn.Conv1d(256, 512, 1), nn.BatchNorm1d(512), nn.LeakyReLU(0.2))
        self.score = nn.Sequential(nn.Linear(1024, 256), nn.LeakyReLU(0.2), nn.Linear(256, classes))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Points (batch, 3, count) to scores (batch, classes)."""
        layers, x = list[torch.Tensor](), points
        for edge in self.edges:
            x = edge(x)
            layers.append(x)
        merged = self.merge(torch.cat(layers, 1))
        return self.score(torch.cat([merged.amax(-1), merged.mean(-1)], 1))


class GraphAttention(nn.Module):
    """Veličković et al. 2018: a softmax over the edges into each node."""

    def __init__(self, inputs: int, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(inputs, heads * width, bias=False)
        self.source = nn.Parameter(0.1 * torch.randn(heads, width))
        self.target = nn.Parameter(0.1 * torch.randn(heads, width))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Nodes (nodes, inputs) and edges (2, count) to nodes (nodes, heads * width)."""
        sources, targets = edges[0], edges[1]
        values = self.project(x).unflatten(1, (self.heads, -1))
        towards, onto = (values * self.source).sum(-1), (values * self.target).sum(-1)
        scores = functional.leaky_relu(towards[sources] + onto[targets], 0.2)
        index = targets[:, None].expand_as(scores)
        largest = torch.full_like(towards, -1e4).scatter_reduce(0, index, scores, "amax")
        weights = (scores - largest[targets]).exp()
        sums = torch.zeros_like(towards).index_add(0, targets, weights)
        weighted = values[sources] * (weights / (sums[targets] + 1e-6))[..., None]
        return torch.zeros_like(values).index_add(0, targets, weighted).flatten(1)


class GraphAttentionNetwork(nn.Module):
    """Two layers of attention, and a class for every node."""

    def __init__(self, inputs: int = 128, classes: int = 40):
        super().__init__()
        self.first, self.second = GraphAttention(inputs, 32, 4), GraphAttention(128, 32, 4)
        self.score = nn.Linear(128, classes)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Nodes (nodes, inputs) and edges (2, count) to scores (nodes, classes)."""
        x = functional.elu(self.first(x, edges))
        return self.score(functional.elu(self.second(x, edges)))


class HashGrid(nn.Module):
    """Müller et al. 2022 (Instant NGP): hashed corners of cells at several scales, interpolated."""

    def __init__(self, levels: int = 8, entries: int = 2**14, width: int = 2):
        super().__init__()
        self.entries = entries
        self.table = nn.Embedding(levels * entries, width)
        self.register_buffer("scales", 16.0 * 1.5 ** torch.arange(levels))
        self.register_buffer("corners", torch.tensor([*product((0, 1), repeat=3)]))
        self.register_buffer("starts", torch.arange(levels)[:, None] * entries)
        self.layers = nn.Sequential(
            nn.Linear(levels * width, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
        )

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Points (count, 3) to densities and colours (count, 4)."""
        scaled = torch.sigmoid(points)[:, None] * self.scales[:, None]
        cells = scaled.floor()
        inside = (scaled - cells)[:, :, None]
        corners = cells.long()[:, :, None] + self.corners
        x, y, z = corners.unbind(-1)
        hashed = (x ^ (y * 2_654_435_761) ^ (z * 805_459_861)) & (self.entries - 1)
        weights = torch.where(self.corners > 0, inside, 1 - inside).prod(-1)
        features = self.table(hashed + self.starts) * weights[..., None]
        return self.layers(features.sum(2).flatten(1))


def dgcnn(batch: int) -> Built:
    """Clouds of 1,024 points, 20 neighbours each."""
    return PointGraph(), (torch.randn(batch, 3, 1_024),)


def graph_attention(batch: int) -> Built:
    """A graph of 2,000 nodes and 10,000 edges."""
    if batch != 1:
        raise SystemExit("graph_attention has no batch dimension: export it with --batch 1")
    return GraphAttentionNetwork(), (torch.randn(2_000, 128), torch.randint(0, 2_000, (2, 10_000)))


def instant_ngp(batch: int) -> Built:
    """4,096 points for each of a batch."""
    return HashGrid(), (torch.randn(4_096 * batch, 3),)
