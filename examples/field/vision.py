"""Builders of networks on images and videos that timm does not have; imported by `export.py`."""

import torch
from torch import nn
from torchvision.models import detection, segmentation, video
from transformers import (
    SegformerConfig,
    SegformerForSemanticSegmentation,
    Swin2SRConfig,
    Swin2SRForImageSuperResolution,
)

from examples.zoo.export import Built, image
from examples.zoo.networks import Wrapped


class Output(nn.Module):
    """A module of torchvision whose result is a dictionary, giving one tensor of it."""

    def __init__(self, module: nn.Module, key: str = "out"):
        super().__init__()
        self.module, self.key = module, key

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The named result of an image."""
        return self.module(x)[self.key]


class LargeKernelBlock(nn.Module):
    """Ding et al. 2022 (RepLKNet): a wide depthwise convolution with a small one in parallel."""

    def __init__(self, width: int, size: int):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(width, width, 1), nn.BatchNorm2d(width), nn.ReLU())
        self.large = nn.Conv2d(width, width, size, padding=size // 2, groups=width)
        self.small = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.leave = nn.Sequential(nn.ReLU(), nn.Conv2d(width, width, 1), nn.BatchNorm2d(width))
        self.mix = nn.Sequential(
            nn.BatchNorm2d(width),
            nn.Conv2d(width, 4 * width, 1),
            nn.GELU(),
            nn.Conv2d(4 * width, width, 1),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to one of the same shape."""
        y = self.enter(x)
        x = x + self.leave(self.large(y) + self.small(y))
        return x + self.mix(x)


class LargeKernels(nn.Module):
    """Four stages of large kernels, 31 down to 13 wide, at a quarter of the paper's depth."""

    def __init__(self, widths: tuple[int, ...] = (96, 192, 384, 768)):
        super().__init__()
        stages: list[nn.Module] = []
        for previous, width, size in zip((3, *widths), widths, (31, 29, 27, 13), strict=False):
            stride = 4 if previous == 3 else 2
            stages += [nn.Conv2d(previous, width, 2 * stride - 1, stride, stride - 1)]
            stages += [nn.BatchNorm2d(width), LargeKernelBlock(width, size)]
        self.stages = nn.Sequential(*stages)
        self.classify = nn.Linear(widths[-1], 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to the scores of 1000 classes."""
        return self.classify(self.stages(x).mean((2, 3)))


class AttentionByConvolution(nn.Module):
    """Guo et al. 2023 (VAN): dilated depthwise convolutions weigh the channels of each pixel."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.enter = nn.Sequential(nn.Conv2d(width, width, 1), nn.GELU())
        self.weigh = nn.Sequential(
            nn.Conv2d(width, width, 5, padding=2, groups=width),
            nn.Conv2d(width, width, 7, padding=9, dilation=3, groups=width),
            nn.Conv2d(width, width, 1),
        )
        self.leave = nn.Conv2d(width, width, 1)
        self.mix = nn.Sequential(
            nn.BatchNorm2d(width),
            nn.Conv2d(width, 4 * width, 1),
            nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width),
            nn.GELU(),
            nn.Conv2d(4 * width, width, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to one of the same shape."""
        y = self.enter(self.norm(x))
        x = x + self.leave(y * self.weigh(y))
        return x + self.mix(x)


class VisualAttention(nn.Module):
    """VAN-B0: four stages, and the depths of the paper."""

    def __init__(self) -> None:
        super().__init__()
        widths, depths = (32, 64, 160, 256), (3, 3, 5, 2)
        stages: list[nn.Module] = []
        for previous, width, depth in zip((3, *widths), widths, depths, strict=False):
            size, stride = (7, 4) if previous == 3 else (3, 2)
            stages += [nn.Conv2d(previous, width, size, stride, size // 2), nn.BatchNorm2d(width)]
            stages += [AttentionByConvolution(width) for _ in range(depth)]
        self.stages = nn.Sequential(*stages)
        self.classify = nn.Linear(widths[-1], 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to the scores of 1000 classes."""
        return self.classify(self.stages(x).mean((2, 3)))


def _convolution(inputs: int, outputs: int, size: int = 1, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.SiLU())


class SplitBlock(nn.Module):
    """A block of YOLOv8 (C2f): half of the channels pass bottlenecks, all are concatenated."""

    def __init__(self, inputs: int, outputs: int, depth: int, residual: bool):
        super().__init__()
        self.passed, self.residual = outputs // 2, residual
        self.enter = _convolution(inputs, outputs)
        self.bottlenecks = nn.ModuleList(
            nn.Sequential(
                _convolution(self.passed, self.passed, 3), _convolution(self.passed, self.passed, 3)
            )
            for _ in range(depth)
        )
        self.leave = _convolution((2 + depth) * self.passed, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to one of other channels."""
        parts = [*self.enter(x).split(self.passed, 1)]
        for bottleneck in self.bottlenecks:
            y = bottleneck(parts[-1])
            parts.append(parts[-1] + y if self.residual else y)
        return self.leave(torch.cat(parts, 1))


class PyramidPooling(nn.Module):
    """A block of YOLOv8 (SPPF): one maximum pooling three times, all concatenated."""

    def __init__(self, width: int):
        super().__init__()
        self.enter, self.leave = _convolution(width, width // 2), _convolution(2 * width, width)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to one of the same shape."""
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class BoxHead(nn.Module):
    """Boxes as expected distances to their four sides, and classes, at each pixel."""

    def __init__(self, width: int, classes: int = 80, bins: int = 16):
        super().__init__()
        self.bins = bins
        self.box = nn.Sequential(
            _convolution(width, 64, 3), _convolution(64, 64, 3), nn.Conv2d(64, 4 * bins, 1)
        )
        self.classify = nn.Sequential(
            _convolution(width, 80, 3), _convolution(80, 80, 3), nn.Conv2d(80, classes, 1)
        )
        self.register_buffer("distances", torch.arange(bins, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to (batch, 4 + classes, pixels)."""
        sides = self.box(x).flatten(2).unflatten(1, (4, self.bins)).softmax(2)
        expected = (sides * self.distances.view(1, 1, -1, 1)).sum(2)
        return torch.cat([expected, self.classify(x).flatten(2).sigmoid()], 1)


class Detector(nn.Module):
    """YOLOv8n without the suppression of overlapping boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _convolution(3, 16, 3, 2),
            _convolution(16, 32, 3, 2),
            SplitBlock(32, 32, 1, True),
            _convolution(32, 64, 3, 2),
            SplitBlock(64, 64, 2, True),
        )
        self.middle = nn.Sequential(_convolution(64, 128, 3, 2), SplitBlock(128, 128, 2, True))
        self.deep = nn.Sequential(
            _convolution(128, 256, 3, 2), SplitBlock(256, 256, 1, True), PyramidPooling(256)
        )
        self.up = nn.Upsample(scale_factor=2)
        self.merge_middle = SplitBlock(384, 128, 1, False)
        self.merge_fine = SplitBlock(192, 64, 1, False)
        self.down_middle, self.down_deep = _convolution(64, 64, 3, 2), _convolution(128, 128, 3, 2)
        self.again_middle = SplitBlock(192, 128, 1, False)
        self.again_deep = SplitBlock(384, 256, 1, False)
        self.heads = nn.ModuleList(BoxHead(width) for width in (64, 128, 256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to the boxes and classes of all pixels of three scales."""
        fine = self.stem(x)
        middle = self.middle(fine)
        deep = self.deep(middle)
        middle = self.merge_middle(torch.cat([self.up(deep), middle], 1))
        fine = self.merge_fine(torch.cat([self.up(middle), fine], 1))
        middle = self.again_middle(torch.cat([self.down_middle(fine), middle], 1))
        deep = self.again_deep(torch.cat([self.down_deep(middle), deep], 1))
        scales = zip(self.heads, (fine, middle, deep), strict=True)
        return torch.cat([head(level) for head, level in scales], 2)


class SingleShot(nn.Module):
    """SSDLite on MobileNetV3, its boxes and scores without decoding or suppression."""

    def __init__(self) -> None:
        super().__init__()
        whole = detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
        self.backbone, self.head = whole.backbone, whole.head

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """An image to the offsets and the scores of all its boxes."""
        found = self.head([*self.backbone(x).values()])
        return found["bbox_regression"], found["cls_logits"].softmax(-1)


class SubPixel(nn.Module):
    """Shi et al. 2016 (ESPCN): three convolutions, then channels become pixels."""

    def __init__(self, scale: int = 3):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 64, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.Tanh(),
            nn.Conv2d(32, scale**2, 3, padding=1),
            nn.PixelShuffle(scale),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A grey image to one `scale` times as wide and high."""
        return self.layers(x)


class ResidualUpscaler(nn.Module):
    """Lim et al. 2017 (EDSR, its baseline): residual blocks without normalisation."""

    def __init__(self, width: int = 64, depth: int = 16):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(depth)
        )
        self.body = nn.Conv2d(width, width, 3, padding=1)
        self.leave = nn.Sequential(
            nn.Conv2d(width, 4 * width, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to one twice as wide and high."""
        x = y = self.enter(x)
        for block in self.blocks:
            y = y + block(y)
        return self.leave(x + self.body(y))


def replknet(batch: int) -> Built:
    """The widths of no published size, one block a stage."""
    return LargeKernels(), image(batch, 224, 224)


def van_b0(batch: int) -> Built:
    """At its usual size."""
    return VisualAttention(), image(batch, 224, 224)


def yolov8n(batch: int) -> Built:
    """At half of its usual size in both directions."""
    return Detector(), image(batch, 320, 320)


def ssdlite(batch: int) -> Built:
    """At its usual size."""
    return SingleShot(), image(batch, 320, 320)


def espcn(batch: int) -> Built:
    """A grey image of 224 by 224."""
    return SubPixel(), (torch.randn(batch, 1, 224, 224),)


def edsr(batch: int) -> Built:
    """An image of 48 by 48."""
    return ResidualUpscaler(), image(batch, 48, 48)


def deeplabv3(batch: int) -> Built:
    """On MobileNetV3, at the size of its dilations' publication in torchvision, halved."""
    module = segmentation.deeplabv3_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=21
    )
    return Output(module), image(batch, 260, 260)


def lraspp(batch: int) -> Built:
    """On MobileNetV3."""
    module = segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=21
    )
    return Output(module), image(batch, 520, 520)


def r3d_18(batch: int) -> Built:
    """Sixteen frames of 112 by 112."""
    return video.r3d_18(weights=None), (torch.randn(batch, 3, 16, 112, 112),)


def s3d(batch: int) -> Built:
    """Sixteen frames of 224 by 224."""
    return video.s3d(weights=None), (torch.randn(batch, 3, 16, 224, 224),)


def segformer_b0(batch: int) -> Built:
    """The smallest SegFormer, for 150 classes."""
    config = SegformerConfig(num_labels=150, attn_implementation="eager")
    module = Wrapped(SegformerForSemanticSegmentation(config), ("pixel_values",), "logits")
    return module, image(batch, 256, 256)


def swin2sr(batch: int) -> Built:
    """The lightweight Swin2SR, two of its four stages, an image of 64 by 64."""
    config = Swin2SRConfig(
        image_size=64,
        embed_dim=60,
        depths=[6, 6],
        num_heads=[6, 6],
        window_size=8,
        mlp_ratio=2.0,
        upscale=2,
        upsampler="pixelshuffledirect",
    )
    module = Wrapped(Swin2SRForImageSuperResolution(config), ("pixel_values",), "reconstruction")
    return module, image(batch, 64, 64)
