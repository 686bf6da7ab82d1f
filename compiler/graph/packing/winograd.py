"""Winograd's minimal filtering along one axis: `m` results, `m + 2` multiplications.

The kernel and `m + 2` elements of the image are taken as polynomials, evaluated at as many points,
multiplied there, and the results interpolated (Toom-Cook). The points are 0, infinity and some
numbers of both signs, small dyadic fractions, by which F(4, 3) rounds hardly more than a sum does.
"""

import numpy

POINTS: dict[int, tuple[float, ...]] = {2: (1.0,), 4: (0.75, 1.5)}
"""The positive points by the number of results."""


def points_of(results: int) -> int:
    """The points at which so many results of three taps are computed."""
    return results + 2


def transformed_kernels(kernels: numpy.ndarray, results: int) -> numpy.ndarray:
    """Kernels [..., 3, 3] as their values [..., m + 2, m + 2] at all points of both axes."""
    # The values of three taps at the points, in the order 0, a, -a, ..., infinity.
    points = [0.0, *(sign * point for point in POINTS[results] for sign in (1, -1))]
    rows = [
        numpy.array([1, point, point * point])
        / numpy.prod([point - other for other in points if other != point])
        for point in points
    ]
    matrix = numpy.array([*rows, [0, 0, 1]])
    count = points_of(results)
    values = kernels.reshape(-1, 9).astype(numpy.float64) @ numpy.kron(matrix, matrix).T
    return values.astype(kernels.dtype).reshape(*kernels.shape[:-2], count, count)
