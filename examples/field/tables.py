"""Builders of networks on tables and on graphs; imported by `export.py` only."""

from itertools import pairwise

import torch
from torch import nn

from examples.zoo.export import Built


def _perceptron(*sizes: int) -> nn.Sequential:
    layers = [
        layer for i, o in pairwise(sizes) for layer in (nn.Linear(i, o), nn.ReLU(inplace=True))
    ]
    return nn.Sequential(*layers)


class Recommender(nn.Module):
    """Naumov et al. 2019 (DLRM): embeddings and dense features, and their scalar interactions."""

    def __init__(self, fields: int = 26, vocabulary: int = 10_000, width: int = 64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(vocabulary, width) for _ in range(fields))
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.1)  # unit variance would saturate the sigmoid
        self.dense = _perceptron(13, 512, 256, width)
        vectors = fields + 1
        lower = torch.tril_indices(vectors, vectors, -1)
        self.register_buffer("pairs", lower[0] * vectors + lower[1])
        self.top = _perceptron(width + vectors * fields // 2, 512, 256)
        self.score = nn.Linear(256, 1)

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Features (batch, 13) and ids (batch, fields) to a probability (batch, 1)."""
        bottom = self.dense(dense)
        embedded = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        stacked = torch.stack([bottom, *embedded], 1)
        scalars = (stacked @ stacked.transpose(1, 2)).flatten(1)[:, self.pairs]
        return torch.sigmoid(self.score(self.top(torch.cat([bottom, scalars], 1))))


class GraphLayer(nn.Module):
    """Hamilton et al. 2017 (GraphSAGE): the mean of a node's neighbours next to the node."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.own, self.neighbours = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Nodes (nodes, inputs) and edges (2, count) to nodes (nodes, outputs)."""
        sources, targets = edges[0], edges[1]
        sums = torch.zeros_like(x).index_add(0, targets, x[sources])
        ones = torch.ones_like(x[:1, :1]).expand(edges.shape[1], 1)
        degrees = torch.zeros_like(x[:, :1]).index_add(0, targets, ones)
        means = sums / degrees.clamp(min=1)
        return self.own(x) + self.neighbours(means)


class GraphNetwork(nn.Module):
    """Three layers of GraphSAGE, and a class for every node."""

    def __init__(self, inputs: int = 128, width: int = 256, classes: int = 40):
        super().__init__()
        self.layers = nn.ModuleList([GraphLayer(inputs, width), GraphLayer(width, width)])
        self.last = GraphLayer(width, classes)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Nodes (nodes, inputs) and edges (2, count) to scores (nodes, classes)."""
        for layer in self.layers:
            x = torch.relu(layer(x, edges))
        return self.last(x, edges)


def dlrm(batch: int) -> Built:
    """Criteo's 13 features and 26 fields, their vocabularies of 10,000 each."""
    return Recommender(), (torch.randn(batch, 13), torch.randint(0, 10_000, (batch, 26)))


def graphsage(batch: int) -> Built:
    """A graph of 2,000 nodes and 10,000 edges."""
    if batch != 1:
        raise SystemExit("graphsage has no batch dimension: export it with --batch 1")
    return GraphNetwork(), (torch.randn(2_000, 128), torch.randint(0, 2_000, (2, 10_000)))
