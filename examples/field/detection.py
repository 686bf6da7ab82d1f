"""Builders of detectors; imported by `export.py` only."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.export import Built, image


class DeformableAttention(nn.Module):
    """Zhu et al. 2020: each query samples a few points of each scale around its box."""

    def __init__(self, width: int, heads: int, levels: int, points: int):
        super().__init__()
        self.heads, self.levels, self.points = heads, levels, points
        self.offsets = nn.Linear(width, heads * levels * points * 2)
        self.weights = nn.Linear(width, heads * levels * points)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(
        self,
        queries: torch.Tensor,
        boxes: torch.Tensor,
        memory: torch.Tensor,
        sizes: list[tuple[int, int]],
    ) -> torch.Tensor:
        """(batch, count, width), boxes (batch, count, 4) and all scales' pixels to the same."""
        batch, count, _ = queries.shape
        shape = (batch, count, self.heads, self.levels, self.points)
        offsets = self.offsets(queries).view(*shape, 2)
        weights = self.weights(queries).view(*shape[:3], -1).softmax(-1).view(shape)
        centres, extents = boxes[:, :, None, None, None].chunk(2, -1)
        grids = 2 * (centres + torch.tanh(offsets) * extents / 2) - 1
        values = self.value(memory).split([height * wide for height, wide in sizes], 1)
        sampled = list[torch.Tensor]()
        for level, (value, size) in enumerate(zip(values, sizes, strict=True)):
            pixels = value.transpose(1, 2).reshape(batch * self.heads, -1, *size)
            grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
            sampled.append(functional.grid_sample(pixels, grid, align_corners=False))
        stacked = torch.stack(sampled, -2).unflatten(0, (batch, self.heads))
        weighted = (stacked * weights.transpose(1, 2)[:, :, None]).sum((-1, -2))
        return self.out(weighted.flatten(1, 2).transpose(1, 2))


class QueryLayer(nn.Module):
    """Queries attend to each other and to the image."""

    def __init__(self, width: int, levels: int):
        super().__init__()
        self.own = nn.MultiheadAttention(width, 8, batch_first=True)
        self.cross = DeformableAttention(width, 8, levels, 4)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(
        self,
        x: torch.Tensor,
        boxes: torch.Tensor,
        memory: torch.Tensor,
        sizes: list[tuple[int, int]],
    ) -> torch.Tensor:
        """(batch, count, width) to the same."""
        x = self.norms[0](x + self.own(x, x, x, need_weights=False)[0])
        x = self.norms[1](x + self.cross(x, boxes, memory, sizes))
        return self.norms[2](x + self.narrow(torch.relu(self.wide(x))))


class Scales(nn.Module):
    """Features of an image at an eighth, a sixteenth and a thirty-second of its size."""

    def __init__(self, width: int):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(3, width, 8, 8), nn.BatchNorm2d(width), nn.SiLU())
        self.shrink = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, 2, 1), nn.BatchNorm2d(width), nn.SiLU())
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """(batch, 3, height, width) to an image of `width` channels for each scale."""
        scales = [self.enter(x)]
        for shrink in self.shrink:
            scales.append(shrink(scales[-1]))
        return scales


class QueryDetector(nn.Module):
    """Zhao et al. 2023 (RT-DETR): the likeliest pixels of all scales become a decoder's queries."""

    def __init__(self, width: int = 128, classes: int = 80, queries: int = 300, layers: int = 2):
        super().__init__()
        self.queries = queries
        self.scales = Scales(width)
        self.norm = nn.LayerNorm(width)
        self.score, self.box = nn.Linear(width, classes), nn.Linear(width, 4)
        self.layers = nn.ModuleList(QueryLayer(width, 3) for _ in range(layers))
        self.last_score, self.last_box = nn.Linear(width, classes), nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, 3, height, width) to scores (batch, queries, classes) and boxes."""
        scales = self.scales(x)
        sizes = [(scale.shape[2], scale.shape[3]) for scale in scales]
        memory = self.norm(torch.cat([scale.flatten(2).transpose(1, 2) for scale in scales], 1))
        chosen = self.score(memory).amax(-1).topk(self.queries, 1).indices[..., None]
        queries = memory.gather(1, chosen.expand(-1, -1, memory.shape[2]))
        boxes = torch.sigmoid(self.box(queries))
        for layer in self.layers:
            queries = layer(queries, boxes, memory, sizes)
        return self.last_score(queries), torch.sigmoid(self.last_box(queries) + boxes)


def _suppress(
    boxes: torch.Tensor, scores: torch.Tensor, most: int, overlap: float, least: float
) -> torch.Tensor:
    """Indices (chosen, 3) of batch, class and box as ONNX's NonMaxSuppression gives them."""
    chosen = list[torch.Tensor]()
    for row, image_scores in enumerate(scores):
        for kind, likely in enumerate(image_scores):
            order = likely.argsort(descending=True)
            order = order[likely[order] > least]
            for _ in range(most):
                if not len(order):
                    break
                chosen.append(torch.stack([torch.tensor(row), torch.tensor(kind), order[0].cpu()]))
                shared = _overlaps(boxes[row, order[0]], boxes[row, order])
                order = order[1:][shared[1:] <= overlap]
    return torch.stack(chosen).to(boxes.device) if chosen else boxes.new_zeros(0, 3).long()


suppress: Any = torch.library.custom_op("field::suppress", _suppress, mutates_args=())
"""`_suppress` as one operator of an exported graph."""


def _suppressed_shape(boxes: torch.Tensor, *_: object) -> torch.Tensor:
    rows = torch.library.get_ctx().new_dynamic_size()
    return boxes.new_empty((rows, 3), dtype=torch.int64)


suppress.register_fake(_suppressed_shape)


def translations() -> dict[Any, Any]:
    """For the exporter: `suppress` as ONNX's NonMaxSuppression."""
    from onnxscript import opset18 as op

    def translated(boxes: Any, scores: Any, most: int, overlap: float, least: float) -> Any:
        limits = [op.Constant(value_float=value) for value in (overlap, least)]
        return op.NonMaxSuppression(boxes, scores, op.Constant(value_int=most), *limits)

    return {torch.ops.field.suppress.default: translated}


def _overlaps(box: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Intersection over union of a box (4,) of two corners and others (count, 4)."""
    low, high = torch.maximum(box[:2], others[:, :2]), torch.minimum(box[2:], others[:, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = (others[:, 2:] - others[:, :2]).prod(-1)
    return shared / (areas + (box[2:] - box[:2]).prod() - shared)


class BoxDetector(nn.Module):
    """Liu et al. 2016 (SSD): a box and scores for each pixel of each scale, overlaps suppressed."""

    def __init__(self, width: int = 64, classes: int = 8):
        super().__init__()
        self.classes = classes
        self.scales = Scales(width)
        self.heads = nn.ModuleList(nn.Conv2d(width, 4 + classes, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """An image (1, 3, height, width) to boxes (chosen, 4), their scores and classes."""
        boxes, scores = list[torch.Tensor](), list[torch.Tensor]()
        for scale, head in zip(self.scales(x), self.heads, strict=True):
            height, width = scale.shape[2:]
            rows = (torch.arange(height, device=x.device) + 0.5)[:, None] / height
            columns = (torch.arange(width, device=x.device) + 0.5) / width
            corners, logits = head(scale).split([4, self.classes], 1)
            up, left, down, right = (torch.sigmoid(corners) * (3 / width)).split(1, 1)
            sides = [rows - up, columns - left, rows + down, columns + right]
            boxes.append(torch.cat(sides, 1).flatten(2).transpose(1, 2))
            scores.append(torch.sigmoid(logits).flatten(2))
        every, likely = torch.cat(boxes, 1), torch.cat(scores, 2)
        chosen = suppress(every, likely, 50, 0.5, 0.6)
        row, kind, box = chosen.unbind(1)
        return every[row, box], likely[row, kind, box], kind


def rt_detr(batch: int) -> Built:
    """Images of 640 by 640 pixels, of whose 8,400 places 300 become queries."""
    return QueryDetector(), image(batch, 640, 640)


def box_detector(batch: int) -> Built:
    """An image of 256 by 256 pixels, with as many boxes as are found."""
    if batch != 1:
        raise SystemExit("box_detector gives the boxes of one image: export it with --batch 1")
    return BoxDetector(), image(1, 256, 256)
