"""Contractions by AMD's matrix cores: emulated against float64, and as hipcc compiles them."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy
import pytest

from compiler.errors import DeviceError
from compiler.kernels.gpu.compilers.hipcc import compile_hip
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.gemm import mfma
from compiler.kernels.gpu.templates.gemm.candidates import SHAPES
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.mfma import STAGES, WAVE
from compiler.kernels.gpu.templates.gemm.read import read_problem
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import GpuTarget, parse_gpu
from tests.artifact.code_objects import code_objects
from tests.kernels.gpu.emulator import COMPILER, Order, run
from tests.kernels.gpu.of_template import estimated, gemm_kernel
from tests.kernels.gpu.templates.test_blocked_contraction import CASES, DTYPES, group_of
from tests.kernels.gpu.templates.test_contraction import draw, exact
from tests.kernels.harness import single

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
compiled = pytest.mark.skipif(
    not (shutil.which("hipcc") and shutil.which("llvm-objdump")),
    reason="hipcc compiles HIP kernels and llvm-objdump shows them",
)
BOUNDS = {"fp32": 1e-6, "fp16": 2e-3, "bf16": 1e-2}
MFMA = {"fp32": "16x16x4f32", "fp16": "16x16x16f16", "bf16": "16x16x16bf16_1k"}
WAVEFRONTS = Order(3, 64)
SMALL = Tile(32, 32, 16, 16, 1, STAGES, WAVE)
HIP_HEADERS = Path(__file__).parents[4] / "compiler" / "artifact" / "project" / "kernels" / "hip"


def error(kernel: KernelSource, group: Group, order: Order = WAVEFRONTS) -> float:
    """The emulated kernel's error against float64, relative to the result's norm."""
    kinds = [ml_dtypes.bfloat16 if v.dtype == "bfloat16" else v.dtype for v in group.reads]
    pairs = enumerate(zip(group.reads, kinds, strict=True))
    inputs = [draw(*v.shape, seed=i).astype(kind) for i, (v, kind) in pairs]
    (result,) = run(kernel, group, inputs, order=order)
    anchor = next(op for op in group.operators if op.type in ("Conv", "MatMul"))
    if anchor.type == "Conv":
        sums = exact("Conv", inputs[:3], dict(anchor.attributes))
        expected = numpy.maximum(sums + inputs[3].astype("float64"), 0)
    else:
        expected = inputs[0].astype("float64") @ inputs[1].astype("float64")
    return float(
        numpy.linalg.norm(result.astype("float64") - expected) / numpy.linalg.norm(expected)
    )


def matmul_group(left: tuple[int, ...], right: tuple[int, ...]) -> Group:
    """A float32 MatMul."""
    given = [draw(*left), draw(*right)]
    shape = numpy.matmul(*given).shape
    return single("MatMul", given, [TensorInfo("float32", shape)])[0]


def kernel_of(group: Group, target: str, tile: Tile | None = SMALL) -> KernelSource:
    """The kernel of a contraction for AMD."""
    kernel = gemm_kernel(group, parse_gpu(target), tile)
    assert kernel is not None
    return kernel


@emulated
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("name", ["pointwise", "window"])
def test_convolutions_with_a_fused_epilogue(name: str, precision: str):
    group = group_of("Conv", *CASES[name], (0, 0))
    kernel = kernel_of(group, f"hip:gfx90a:{precision}")
    assert "mfma_gemm<" in kernel.text
    found = error(kernel, group)
    assert found < BOUNDS[precision]
    assert precision == "fp32" or found > BOUNDS["fp32"], "nothing was rounded"


@emulated
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("blocks", [(0, 0), (8, 8)])
def test_elements_of_two_bytes(blocks: tuple[int, int], precision: str):
    group = group_of("Conv", *CASES["window"], blocks, DTYPES[precision])
    assert error(kernel_of(group, f"hip:gfx90a:{precision}"), group) < BOUNDS[precision]


@emulated
def test_channel_blocks_of_floats():
    group = group_of("Conv", *CASES["grouped"], (4, 4))
    assert error(kernel_of(group, "hip:gfx942:fp32"), group) < BOUNDS["fp32"]


@emulated
@pytest.mark.parametrize("shapes", [((70, 100), (100, 72)), ((2, 20, 33), (2, 33, 17))])
def test_matmuls(shapes: tuple[tuple[int, ...], tuple[int, ...]]):
    group = matmul_group(*shapes)
    assert error(kernel_of(group, "hip:gfx90a:fp32", None), group) < BOUNDS["fp32"]


@emulated
@pytest.mark.parametrize("shape", [(16, 128, 16, 32), (64, 64, 32, 16), (128, 64, 64, 32)])
def test_tiles_and_split_k(shape: tuple[int, int, int, int]):
    group = matmul_group((130, 200), (200, 132))
    kernel = kernel_of(group, "hip:gfx90a:fp32", Tile(*shape, 3, STAGES, WAVE))
    assert len(kernel.launches) == 2
    assert error(kernel, group) < BOUNDS["fp32"]


@emulated
def test_a_warp_of_32_lanes_is_refused():
    group = matmul_group((20, 33), (33, 17))
    with pytest.raises(DeviceError, match="wavefront of 64 lanes"):
        error(kernel_of(group, "hip:gfx90a:fp32"), group, Order(0, 32))


@emulated
@pytest.mark.parametrize("precision", BOUNDS)
def test_other_architectures_multiply_by_shuffles(precision: str):
    group = group_of("Conv", *CASES["window"], (0, 0))
    kernel = kernel_of(group, f"hip:gfx1030:{precision}", Tile(32, 32, 16, 16, 1))
    body = (HIP_HEADERS / "instructions.cuh").read_text()
    shared = next(line for line in body.splitlines() if line.startswith("#define DYNAMIC_SHARED"))
    own = body.replace(shared, "#define DYNAMIC_SHARED float* shared = (float*)emulator_shared()")
    text = kernel.text.replace('#include "instructions.cuh"', own)
    assert "row_of" in text
    assert "gemm<Problem>" in text
    for lanes in (32, 64):
        assert error(replace(kernel, text=text), group, Order(1, lanes)) < BOUNDS[precision]


LARGE = Tile(128, 128, 64, 32, 1, STAGES, WAVE)


def disassembly(kernel: KernelSource, target: GpuTarget, folder: Path) -> str:
    """The instructions and notes of a kernel's code objects."""
    symbols = [launch.symbol for launch in kernel.launches]
    built = compile_hip(complete_text(kernel.text), symbols, target)
    found = dict(code_objects(built))
    assert tuple(found) == target.architectures
    return "\n".join(text_of(code, folder, each) for each, code in found.items())


def text_of(code: bytes, folder: Path, architecture: str) -> str:
    """The instructions and notes of one code object."""
    place = folder / "code"
    place.write_bytes(code)
    commands = [["llvm-objdump", "-d", f"--mcpu={architecture}"], ["llvm-readelf", "--notes"]]
    return "\n".join(
        subprocess.run([*c, place], capture_output=True, text=True, check=True).stdout
        for c in commands
    )


def check_resources(text: str) -> None:
    """No kernel may spill registers or keep anything on its stack."""
    fields = (".vgpr_spill_count:", ".sgpr_spill_count:", ".private_segment_fixed_size:")
    lines = [line.split() for line in text.splitlines() if line.strip().startswith(fields)]
    assert len(lines) >= 3
    assert {value for _, value in lines} == {"0"}


@compiled
@pytest.mark.parametrize(
    ("precision", "tile"),
    [
        ("fp32", None),
        ("fp16", LARGE),
        *(
            pytest.param(*case, marks=pytest.mark.deep)
            for case in (("bf16", None), ("fp16", None), ("fp32", LARGE), ("bf16", LARGE))
        ),
    ],
)
def test_hipcc_compiles_matrix_instructions(tile: Tile | None, precision: str, tmp_path: Path):
    group = group_of("Conv", *CASES["window"], (0, 0))
    target = parse_gpu(f"hip:gfx90a:{precision}")
    kernel = kernel_of(group, str(target), tile)
    text = disassembly(kernel, target, tmp_path)
    assert f"v_mfma_f32_{MFMA[precision]}" in text
    check_resources(text)


@compiled
@pytest.mark.parametrize(
    "precision", ["fp32", *(pytest.param(p, marks=pytest.mark.deep) for p in ("fp16", "bf16"))]
)
def test_hipcc_compiles_for_other_architectures(precision: str, tmp_path: Path):
    group = group_of("Conv", *CASES["window"], (0, 0))
    target = parse_gpu(f"hip:gfx1030:{precision}")
    kernel = kernel_of(group, str(target), Tile(32, 32, 16, 16, 1))
    text = disassembly(kernel, target, tmp_path)
    assert "v_mfma" not in text
    check_resources(text)


def test_the_tile_fits_and_gives_every_unit_work():
    group = matmul_group((1024, 4096), (4096, 1024))
    problem = read_problem(group, group.operators[0])
    assert problem is not None
    target = parse_gpu("hip:gfx90a:fp32")
    tiles = list(mfma.tiles(problem, target))
    assert {(t.rows, t.columns, t.warp_rows, t.warp_columns) for t in tiles} <= set(SHAPES)
    chosen = estimated("gemm", problem, target)
    assert chosen in tiles
    blocks = (1024 // chosen.rows) * (1024 // chosen.columns) * chosen.split_k
    assert blocks >= 64


def test_matrix_cores_are_used_where_all_architectures_have_them():
    both, mixed = parse_gpu("hip:gfx942,gfx90a"), parse_gpu("hip:gfx90a,gfx1030:fp16")
    assert (both.has_mfma, mixed.has_mfma) == (True, False)
    assert mixed.architectures == ("gfx90a", "gfx1030")
    group = matmul_group((64, 64), (64, 64))
    assert "mfma_gemm<" in kernel_of(group, str(both), None).text
    assert "gemm<Problem>" in kernel_of(group, str(mixed), None).text
