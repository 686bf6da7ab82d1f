"""The lowering of Fourier transforms as sums; GPUs have a kernel in fewer steps."""

from typing import Any

import numpy
from tvm import te, tirx

from compiler.kernels.ops.common import cast
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.reducers import in_runs, sum_reducer
from compiler.kernels.ops.tables import table_element
from compiler.net.operators import FOURIER


def roots_of_unity(length: int, inverse: bool) -> numpy.ndarray:
    """The real and imaginary parts of the powers of a transform's root of unity, in float32."""
    angles = (2 if inverse else -2) * numpy.pi * numpy.arange(length) / length
    return numpy.stack([numpy.cos(angles), numpy.sin(angles)]).astype("float32")


@lowering(FOURIER)
def lower_fourier_transform(context: Context) -> list[te.Tensor]:
    """Each bin as the sum of all elements of a row times powers of a root of unity."""
    length: int = context["length"]
    cosines, sines = roots_of_unity(length, bool(context["inverse"]))
    parts = [context.tensor(i) for i in range(1 + context.has(1))]
    have = context.shape()[1]
    half = bool(context["half"])

    def bins(real: bool) -> te.Tensor:
        j = te.reduce_axis((0, length if half else have), "j")

        def total(row: Any, k: Any) -> Any:
            power = cast((cast(j.var, "int64") * cast(k, "int64")) % length, "int32")
            cosine, sine = (table_element(table, power) for table in (cosines, sines))
            first, second = (cosine, -sine) if real else (sine, cosine)
            given = j.var < have
            at = tirx.Select(given, j.var, length - j.var) if half else j.var
            term = parts[0](row, at) * first
            if len(parts) > 1:
                second = tirx.Select(given, second, -second) if half else second
                term = term + parts[1](row, at) * second
            return sum_reducer(term, axis=[j])

        shape = (context.shape()[0], context["bins"])
        return in_runs(te.compute(shape, total, name="real" if real else "imaginary"))

    wanted = zip((True, False), context.outputs, strict=False)  # the second may be left out
    return [bins(real) for real, info in wanted if info.dtype]
