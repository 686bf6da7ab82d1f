"""Convolutions with constant weights, and the source of kernels of only one."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from compiler.kernels.gpu.epilogue import StoreFunction
from compiler.kernels.gpu.operands import Operand, find_operand
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import kernel
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.windows import Window, operator_window
from compiler.kernels.template import KernelSource, packings_of
from compiler.schedule.kernels import Launch


@dataclass(frozen=True)
class ConvolutionProblem:
    """A convolution with constant weights; `source` and `result` are shapes (N, C, *spatial)."""

    anchor: Node[int]
    image: Operand
    weight: Operand
    source: tuple[int, ...]
    result: tuple[int, ...]
    window: Window

    @property
    def packing(self) -> str:
        """The packing of weights: as they are, unless a template says otherwise."""
        return ""

    @property
    def flops(self) -> int:
        """Floating-point operations: two a multiply-add."""
        _, channels, *taps = self.weight.view.shape
        return 2 * prod(self.result) * prod(taps) * channels

    @property
    def types(self) -> dict[str, Any]:
        """The fields of a key that are types."""
        return {"image_dtype": self.image.dtype, "weight_dtype": self.weight.dtype}

    @property
    def sizes(self) -> dict[str, Any]:
        """The fields of a key that are shapes."""
        return {"source": self.source, "result": self.result}


def read_convolution_problem(group: Group, anchor: Node[int]) -> ConvolutionProblem | None:
    """The convolution of an operator; None where its operands are computed or weights vary."""
    image, weight = (find_operand(group, value) for value in anchor.inputs[:2])
    if image is None or weight is None or not weight.constant:
        return None
    source, result = image.view.shape, group.values[anchor.output].shape
    window = operator_window(anchor, source, result, weight.view.shape[2:])
    return ConvolutionProblem(
        anchor=anchor, image=image, weight=weight, source=source, result=result, window=window
    )


def convolution_source(
    group: Group,
    problem: ConvolutionProblem,
    store: StoreFunction,
    launch: Launch,
    function: str,
    headers: Sequence[str],
    structs: Sequence[str],
    bounds: int | str = "",
    passed: str = "image, weights",
) -> KernelSource:
    """The kernel that calls a template's function with an image, its weights and a `Store`.

    The `structs` are those of constants and the `Store`; `launch` has no arguments yet.
    """
    operands = (problem.image.parameter("image"), problem.weight.parameter("weights"))
    call = f"{function}<Problem>({passed}, Store{{{', '.join(store.names)}}})"
    own, launch = kernel(launch, [*operands, *store.parameters], call, bounds)
    parts = [*map(header, headers), store.text, *structs, own]
    packings = packings_of(group, {problem.weight.read: problem.packing})
    return KernelSource("\n".join(parts), (launch,), (), packings, problem.flops)
