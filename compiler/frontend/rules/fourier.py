"""Rules for Fourier transforms: GEMMs by constant matrices, in factors of the length."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import numpy as np

from compiler.frontend.builder import LONGEST_VECTOR
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.types import in_float32, in_type
from compiler.frontend.semantics.table import DFT_HALF_SPECTRUM
from compiler.frontend.unsupported import NeedsHost, Unsupported
from compiler.net.graph import Inputs, Value
from compiler.net.operators import FOURIER, ShapeMismatch
from compiler.net.operators.fourier import Transform
from compiler.net.operators.injective import TakenIndices
from compiler.net.operators.shapes import listed

LARGEST_MATRIX = 64
"""The longest transform that is one GEMM if its length can be factored."""

LONGEST_PRIME = 512
"""The longest transform of prime length that is one GEMM."""

LONGEST_TRANSFORM = LONGEST_VECTOR // 4
"""The longest transform whose constants are stored."""


@dataclass(frozen=True)
class Complex:
    """Complex numbers as two tensors; real ones have no imaginary part."""

    real: Value
    imaginary: Value | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of both parts."""
        return self.real.shape

    def each(self, compute: Callable[[Value], Value]) -> "Complex":
        """A function of both parts."""
        return Complex(compute(self.real), self.imaginary and compute(self.imaginary))


@dataclass(frozen=True)
class Fourier:
    """Builds transforms of rows by `exp(sign * 2 pi i j k / n)`, without a scale."""

    call: Call
    sign: int

    def each(self, x: Complex, op_type: str, *inputs: Value, **attributes: object) -> Complex:
        """An operator on both parts."""
        return x.each(lambda part: self.call.one(op_type, part, *inputs, **attributes))

    def reshaped(self, x: Complex, *shape: int) -> Complex:
        """Both parts in another shape."""
        return x.each(lambda part: self.call.reshaped(part, shape))

    def transposed(self, x: Complex) -> Complex:
        """Both parts with their last two axes exchanged."""
        return self.each(x, "Transpose", perm=[0, 2, 1])

    def times(self, x: Complex, numbers: np.ndarray, op_type: str = "Mul") -> Complex:
        """A multiplication, or another bilinear operator, by constant complex numbers."""
        dtype = x.real.dtype
        parts: tuple[np.ndarray, np.ndarray] = np.real(numbers), np.imag(numbers)
        real, imaginary = (self.call.builder.constant(part, dtype) for part in parts)
        a, b = (self.call.one(op_type, x.real, part) for part in (real, imaginary))
        if x.imaginary is None:
            return Complex(a, b)
        c, d = (self.call.one(op_type, x.imaginary, part) for part in (imaginary, real))
        return Complex(self.call.one("Sub", a, c), self.call.one("Add", b, d))

    def roots(self, numbers: np.ndarray, length: int) -> np.ndarray:
        """The unit roots of some exponents, of which quarters of a turn are exact."""
        turned = numbers % length
        roots = np.exp(self.sign * 2j * np.pi * turned / length)
        return np.where(4 * turned % length == 0, np.round(roots), roots)

    def whole(self, x: Complex, length: int, bins: int, half: bool = False) -> Complex | None:
        """The first bins of the transform of each row by one operator; None to make it of others.

        Rows end in zeros where they are shorter than the transform, or have a `half` of a spectrum
        of real numbers, which are the result.
        """
        rows, have = x.shape
        if have > length or not self.call.builder.has_kernel(Transform(rows, length)):
            return None
        attributes = {"length": length, "bins": bins, "inverse": self.sign > 0, "half": half}
        flags = {name: int(number) for name, number in attributes.items()}
        parts: Inputs = [x.real] if x.imaginary is None else [x.real, x.imaginary]
        result = self.call.builder.emit_used(FOURIER, parts, flags, [True, not half])
        return Complex(result[0], None if half else result[1])

    def rows(self, x: Complex) -> Complex:
        """The transform of each row of a matrix."""
        length = x.shape[1]
        if whole := self.whole(x, length, length):
            return whole
        if self.call.builder.bounded and length > LONGEST_TRANSFORM:
            reason = f"a transform of {length:,} points needs as many constants"
            raise NeedsHost(reason, "shorten its axis")
        factor = _factor(length)
        if length <= LARGEST_MATRIX or (factor == 1 and length <= LONGEST_PRIME):
            numbers = np.arange(length)
            return self.times(x, self.roots(np.outer(numbers, numbers), length), "MatMul")
        return self._prime(x) if factor == 1 else self._factored(x, factor)

    def _factored(self, x: Complex, a: int) -> Complex:
        """Transforms of length a, a multiplication by unit roots, and transforms of length b."""
        count, length = x.shape
        b = length // a
        first = self.transposed(self.reshaped(x, count, a, b))
        inner = self.reshaped(self.rows(self.reshaped(first, count * b, a)), count, b, a)
        inner = self.times(inner, self.roots(np.outer(np.arange(b), np.arange(a)), length))
        second = self.reshaped(self.transposed(inner), count * a, b)
        outer = self.reshaped(self.rows(second), count, a, b)
        return self.reshaped(self.transposed(outer), count, length)

    def _prime(self, x: Complex) -> Complex:
        """A convolution with a chirp (Bluestein), by transforms of a power of two."""
        length = x.shape[1]
        size = 1 << (2 * length - 2).bit_length()
        squares = np.arange(length, dtype=np.int64) ** 2
        chirp = self.roots(squares, 2 * length)
        around = np.zeros(size, complex)
        around[:length] = chirp.conj()
        around[size - length + 1 :] = chirp.conj()[:0:-1]
        forward, back = Fourier(self.call, -1), Fourier(self.call, 1)
        filled = self.sized(self.times(x, chirp), size)
        spectrum = self.times(forward.rows(filled), np.fft.fft(around) / size)
        return self.times(self.sized(back.rows(spectrum), length), chirp)

    def sized(self, x: Complex, length: int) -> Complex:
        """Rows with zeros at the end, or without their end."""
        added = length - x.shape[1]
        if added <= 0:
            return x.each(lambda rows: self.call.part(rows, 1, 0, length))
        zero = self.call.builder.constant(0, x.real.dtype)
        return self.each(x, "Pad", zero, pads=[0, 0, 0, added])

    def mirrored(self, x: Complex, length: int) -> Complex:
        """All of a transform of real numbers of which the first half is known."""
        x = self.sized(x, length // 2 + 1)
        opposite = range((length - 1) // 2, 0, -1)
        rest = x.each(lambda rows: self.call.elements(rows, {1: TakenIndices.of(opposite)}))
        imaginary = None
        if x.imaginary is not None and rest.imaginary is not None:
            negative = self.call.one("Neg", rest.imaginary)
            imaginary = self.call.one("Concat", x.imaginary, negative, axis=1)
        return Complex(self.call.one("Concat", x.real, rest.real, axis=1), imaginary)

    def mirrored_as_onnxruntime(self, x: Complex, length: int) -> Complex:
        """The transform that onnxruntime makes of a first half, or of more or less than one."""
        if self.call.builder.bounded and length > LONGEST_TRANSFORM:
            reason = f"a spectrum of {length:,} points is mirrored by as many indices"
            remedy = f"compile with semantics={{{DFT_HALF_SPECTRUM.name!r}: 'onnx'}}"
            raise Unsupported(reason, remedy)
        source, sign = _onnxruntime_bins(x.shape[1], length)
        indices = self.call.builder.constant(source, "int64")
        taken = self.each(self.sized(x, x.shape[1] + 1), "Gather", indices, axis=1)
        signs = self.call.builder.constant(sign, x.real.dtype)
        conjugated = taken.imaginary and self.call.one("Mul", taken.imaginary, signs)
        return Complex(taken.real, conjugated)


def _onnxruntime_bins(have: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The bin that onnxruntime reads for each bin of an inverse one-sided transform, and its sign.

    It copies the `have` bins it is given, also those beyond the half, and writes their conjugates
    over the copies from the end. Of an even length, the last bin is taken for the one in the
    middle, which has no conjugate. Bin `have` is zero. Indices go around the end in a fast
    transform, of a power of two, and stop before it in others (dft.cc).
    """
    source = np.minimum(np.arange(length), have)
    sign = np.ones(length)
    even = length % 2 == 0
    bins = np.arange(1, have - even)
    if length & (length - 1):
        bins = bins[bins < length - even]
    last = bins[-length:]  # of several that are written to one place
    source[-last % length] = last
    sign[-last % length] = -1
    return source, sign


def _factor(length: int) -> int:
    """The largest divisor up to the square root."""
    return next(d for d in range(isqrt(length), 0, -1) if length % d == 0)


def _parts(call: Call, x: Value) -> Complex:
    """The parts of a tensor whose last axis has one or both."""
    axis = x.rank - 1
    slices = (call.part(x, axis, i, i + 1) for i in range(x.shape[-1]))
    parts = [call.reshaped(part, x.shape[:-1]) for part in slices]
    return Complex(parts[0], parts[1] if len(parts) > 1 else None)


def transform(call: Call, x: Complex, length: int, inverse: bool, onesided: bool) -> Complex:
    """The transform of each row of a matrix; one-sided ones have or give half of it."""
    fourier = Fourier(call, 1 if inverse else -1)
    half = onesided and inverse
    if DFT_HALF_SPECTRUM in call.onnxruntime:
        result = fourier.rows(fourier.mirrored_as_onnxruntime(x, length))
    else:
        given = fourier.sized(x, length // 2 + 1) if half else x
        bins = length // 2 + 1 if onesided and not inverse else length
        result = fourier.whole(given, length, bins, half)
        filled = fourier.mirrored if half else fourier.sized
        result = result or fourier.rows(filled(x, length))
    if inverse:
        scale = call.builder.constant(1 / length, x.real.dtype)
        result = fourier.each(result, "Mul", scale)
    if half:
        return Complex(result.real, None)
    return fourier.sized(result, length // 2 + 1) if onesided else result


def _stacked(call: Call, x: Complex, shape: list[int]) -> Value:
    """Complex numbers in a shape, with their parts in a new last axis."""
    parts = [call.reshaped(p, [*shape, 1]) for p in (x.real, x.imaginary) if p is not None]
    return parts[0] if len(parts) == 1 else call.one("Concat", *parts, axis=len(shape))


@rule("DFT")
def rewrite_fourier_transform(call: Call) -> list[Value]:
    """The transform along an axis, which was an attribute before opset 20."""
    x = in_float32(call, call.data)
    inverse = bool(call["inverse"])
    onesided = bool(call["onesided"])
    given = call.known(2)
    axis = call["axis"] if call.version < 20 else -2
    at = call.from_front(axis if given is None else given)
    if at == x.rank - 1 or x.shape[-1] not in (1, 2):
        raise ShapeMismatch(f"axis {at} of {list(x.shape)} holds the parts of complex numbers")
    given = call.known(1)
    have = x.shape[at]
    default = 2 * (have - 1) if onesided and inverse else have
    length = default if given is None else int(given.reshape(()))
    if 0 in (have, length):
        raise ShapeMismatch(f"axis {at} of the input of shape {listed(x.shape)} has no elements")
    others = [i for i in range(x.rank - 1) if i != at]
    kept = [x.shape[i] for i in others]
    parts = _parts(call, x)
    fourier = Fourier(call, 1)
    parts = fourier.each(parts, "Transpose", perm=[*others, at])
    rows = transform(call, fourier.reshaped(parts, -1, have), length, inverse, onesided)
    back = [[*others, at].index(i) for i in range(x.rank - 1)]
    rows = fourier.reshaped(rows, *kept, rows.shape[1])
    rows = fourier.each(rows, "Transpose", perm=back)
    return [in_type(call, _stacked(call, rows, list(rows.shape)), call.data.dtype)]


@rule("STFT")
def rewrite_short_time_transform(call: Call) -> list[Value]:
    """The transforms of frames of a signal, each multiplied by a window."""
    signal = in_float32(call, call.data)
    window = call.input(2)
    step = int(call.content(1).reshape(()))
    frame = call.known(3)
    if frame is None and window is None:
        raise ShapeMismatch("it has neither a window nor a frame's length")
    length = int(frame.reshape(())) if frame is not None else call.operand(2).shape[0]
    batch, samples = signal.shape[:2]
    frames = (samples - length) // step + 1
    if step < 1 or frames < 1:
        raise ShapeMismatch(f"it has no frame: {samples} samples, {length} a frame, step {step}")
    parts = _parts(call, call.reshaped(signal, [batch, samples, -1]))
    fourier = Fourier(call, -1)
    # a constant of the first samples and one of a frame's: all places may be more than the signal
    first = np.arange(frames)[:, None] * step
    within = np.arange(length)
    places = call.one("Add", *(call.builder.constant(n, "int64") for n in (first, within)))
    parts = fourier.each(parts, "Gather", places, axis=1)
    parts = fourier.reshaped(parts, -1, length)
    if window is not None:
        parts = fourier.each(parts, "Mul", in_type(call, window, signal.dtype))
    onesided = bool(call["onesided"])
    rows = transform(call, parts, length, False, onesided)
    result = _stacked(call, rows, [batch, frames, rows.shape[1]])
    return [in_type(call, result, call.data.dtype)]
