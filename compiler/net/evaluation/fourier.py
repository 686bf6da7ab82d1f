"""Fourier transforms of rows."""

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import double
from compiler.net.node import TypedNode


@evaluates("FourierTransform")
def evaluate_transform_of_rows(node: TypedNode) -> list[Array]:
    """The real and imaginary parts of the first bins, in float64 and rounded once."""
    real = double(node.array(0))
    length = node["length"]
    numbers = real + 1j * double(node.array(1)) if node.has(1) else real + 0j
    if node["half"]:
        mirrored = numbers[:, length - numbers.shape[1] : 0 : -1].conj()
        numbers = np.concatenate([numbers, mirrored], axis=1)
    transform = np.fft.ifft if node["inverse"] else np.fft.fft
    scale = length if node["inverse"] else 1
    result = scale * transform(numbers, length, axis=1)[:, : node["bins"]]
    return [part.astype(node.array(0).dtype) for part in (result.real, result.imag)]
