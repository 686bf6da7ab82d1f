"""The benchmark of quantised models puts kernels that compute the same side by side."""

from collections import Counter

from benchmarks.quantised.places import Place, place_of, places_of, table
from compiler.schedule.kernels import KernelSpec, Operand


def kernel(name: str, headers: tuple[str, ...], *shape: int, dtype: str = "float16") -> KernelSpec:
    """A kernel whose source includes some headers and that writes a tensor."""
    source = "\n".join(f'#include "{header}.cuh"' for header in headers)
    return KernelSpec(name, "cuda", b"", (), (), source=source, writes=(Operand(dtype, shape),))


WIDE = kernel("wide", ("instructions", "attention", "staged_attention"), 1, 128, 12, 64)
NARROW = kernel("narrow", ("instructions", "attention"), 128, 12, 64, dtype="uint8")
BYTES = kernel("bytes", ("instructions", "byte_gemm"), 1, 128, 768)
RANGE = kernel("range", ("tensor_range",), 1, 128, 768, dtype="uint8")
PLAIN = kernel("plain", (), 1, 1)


def test_a_place_is_what_is_computed_and_the_shape_of_the_result():
    assert place_of(WIDE) == place_of(NARROW) == "attention 128x12x64"
    assert place_of(BYTES) == "contraction 128x768"
    assert place_of(RANGE) == "quantisation 128x768"
    assert place_of(PLAIN) == "elementwise 1"


def test_tasks_of_a_place_are_added_up():
    again = kernel("again", ("wgmma_gemm",), 128, 768)
    kernels = {spec.name: spec for spec in (WIDE, BYTES, again)}
    tasks = Counter({"wide": 12, "bytes": 2, "again": 1})
    found = places_of(tasks, kernels, {"wide": 4000.0, "bytes": 2500.0, "again": 1000.0})
    assert found == {"attention 128x12x64": Place(12, 48), "contraction 128x768": Place(3, 6)}


def test_the_costliest_of_the_last_module_comes_first():
    found = {
        "16 bits": {"contraction 128x768": Place(2, 5), "attention 128x12x64": Place(1, 4)},
        "bytes": {"attention 128x12x64": Place(1, 24), "quantisation 128x768": Place(1, 2)},
    }
    _, _, *rows = table(found).splitlines()
    assert rows == [
        "| attention 128x12x64 | 1 x 4.00 = 4.0 | 1 x 24.00 = 24.0 |",
        "| quantisation 128x768 |  | 1 x 2.00 = 2.0 |",
        "| contraction 128x768 | 2 x 2.50 = 5.0 |  |",
        "| all | 3 x 3.00 = 9.0 | 2 x 13.00 = 26.0 |",
    ]
