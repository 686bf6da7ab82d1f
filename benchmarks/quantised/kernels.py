"""GEMMs and convolutions of ResNet-50 and BERT in 8 bits against our fp16 on one device.

    python benchmarks/quantised/kernels.py prepare build/bytes [--tiles 6]
    python benchmarks/quantised/kernels.py measure build/bytes --json FILE

`prepare` compiles the kernels for sm_90 and needs no GPU; `measure` needs PyTorch and a device, and
takes under three minutes. Each kernel of bytes (uint8 by int8, a scale by channel, rounded and cast
to uint8) is compared with exact integers, each of fp16 (Relu, cast to fp16) with float64. Both are
timed in a CUDA graph of 20 launches, warm, median of 15 replays, in turns for each shape: the tiles
of least estimates, for fp16 after the one that `compile` takes. The summary compares the best of
each.
"""

import argparse
import base64
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.kernels import (  # noqa: E402
    bind,
    called,
    convolve,
    geometric_mean,
    graph_us,
    kernel_case,
    launch,
)

FP16_BOUND = 2e-3
CONVOLUTIONS = {
    # name: channels, rows, size of the image, window, stride
    "1x1 64 256 56": (64, 256, 56, 1, 1),
    "3x3 64 56": (64, 64, 56, 3, 1),
    "1x1 256 64 56": (256, 64, 56, 1, 1),
    "1x1 512 128 28": (512, 128, 28, 1, 1),
    "3x3 128 28": (128, 128, 28, 3, 1),
    "3x3 s2 128 56": (128, 128, 56, 3, 2),
    "1x1 1024 256 14": (1024, 256, 14, 1, 1),
    "3x3 256 14": (256, 256, 14, 3, 1),
    "1x1 256 1024 14": (256, 1024, 14, 1, 1),
    "1x1 512 2048 7": (512, 2048, 7, 1, 1),
    "3x3 512 7": (512, 512, 7, 3, 1),
}
"""Layers of ResNet-50."""
BATCHES = (1, 8)
ROWS = (128, 4096)
MATRICES = {"attention": (768, 768), "up": (768, 3072), "down": (3072, 768)}
"""Depth and columns of BERT's GEMMs."""


def shapes() -> dict[
    str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]
]:
    """For each case the kind, the shapes of x, w and the result, and the attributes."""
    found: dict[str, Any] = {}
    for name, (channels, rows, size, window, stride) in CONVOLUTIONS.items():
        for batch in BATCHES:
            pads = [window // 2] * 4
            x, w = (batch, channels, size, size), (rows, channels, window, window)
            own = (batch, rows, size // stride, size // stride)
            found[f"conv {name} x{batch}"] = (
                "Conv",
                x,
                w,
                own,
                {"pads": pads, "strides": [stride] * 2},
            )
    for name, (depth, columns) in MATRICES.items():
        for rows in ROWS:
            own = (rows, columns)
            found[f"gemm {name} {rows}"] = "MatMul", (rows, depth), (depth, columns), own, {}
    return found


def group_of(
    kind: str, x: Sequence[int], w: Sequence[int], shape: Sequence[int], attributes: Any, bits: int
) -> Any:
    """A contraction in 8 or 16 bits with its epilogue."""
    from compiler.kernels.group import Group, Node, TensorInfo

    image = kind == "Conv"
    types, block = (("uint8", "int8"), 16) if bits == 8 else (("float16", "float16"), 8)
    block = block if image else 0
    values = [TensorInfo(types[0], tuple(x), block), TensorInfo(types[1], tuple(w))]
    operators: list[Node[int]] = []
    constants: dict[int, numpy.ndarray] = {}

    def add(type: str, inputs: Sequence[int], dtype: str, own: Sequence[int], **kept: Any) -> int:
        values.append(TensorInfo(dtype, tuple(own)))
        operators.append(Node(type, kept, tuple(inputs), (len(values) - 1,)))
        return len(values) - 1

    if bits == 8:
        values.append(TensorInfo("float32", (shape[1], 1, 1) if image else (shape[1],)))
        reads, number = 3, add(f"{kind}Integer", [0, 1], "int32", shape, **attributes)
        number = add("Cast", [number], "float32", shape, to=1)
        number = add("Round", [add("Mul", [number, 2], "float32", shape)], "float32", shape)
        bounds = [len(values), len(values) + 1]
        for limit in (0, 255):
            constants[len(values)] = numpy.array(limit, "float32")
            values.append(TensorInfo("float32", ()))
        number = add("Clip", [number, *bounds], "float32", shape)
        number = add("Cast", [number], "uint8", shape, to=2)
    else:
        reads = 2
        wide = [add("Cast", [i], "float32", values[i].shape, to=1) for i in (0, 1)]
        number = add("Relu", [add(kind, wide, "float32", shape, **attributes)], "float32", shape)
        number = add("Cast", [number], "float16", shape, to=10)
    values[number] = replace(values[number], block=block)
    weights = (False, *[True] * (reads - 1))
    return Group("k", tuple(values), reads, weights, constants, tuple(operators), (number,))


def prepare(folder: Path, tiles: int) -> None:
    """Compile the kernels of all shapes."""
    from compiler.kernels.building.cuda_kernel import compile_text
    from compiler.kernels.building.kernel import (
        LOWERING_MODULES as LOWERING_MODULES,  # registers them
    )
    from compiler.kernels.building.select import Candidate
    from compiler.kernels.gpu.templates.byte_gemm.template import ByteGemm
    from compiler.kernels.gpu.templates.gemm.template import Gemm
    from compiler.target.target import parse_gpu

    target = parse_gpu("cuda:sm_90:fp16")
    folder.mkdir(parents=True, exist_ok=True)
    cases: list[dict[str, Any]] = []
    for name, (kind, x, w, shape, attributes) in shapes().items():
        for bits, template in ((8, ByteGemm()), (16, Gemm())):
            group = group_of(kind, x, w, shape, attributes, bits)
            (problem,) = template.match(group, target)
            own = Candidate(template, group, problem, target)
            chosen = own.choose()[0]
            ranked = sorted(own.modelled(own.configs), key=own.estimate_ns)
            for config in list(dict.fromkeys([chosen, *ranked]))[:tiles]:
                kernel = own.emit(config)
                case = kernel_case(group, kernel, target)
                cubin = compile_text(case.pop("text"), kernel.launches, target).cubin
                case |= {"name": name, "bits": bits, "config": repr(config)}
                case |= {"kind": kind, "attributes": attributes, "chosen": config == chosen}
                cases.append(case | {"cubin": base64.b64encode(cubin).decode()})
        print(f"{name}: {len(cases)} kernels", flush=True)
    (folder / "cases.json").write_text(json.dumps(cases))


def random_inputs(torch: Any, case: dict[str, Any]) -> list[Any]:
    """x, w and the scales of a case: bytes of the whole range, or numbers."""
    (x, w, *scales), bits = case["reads"], case["bits"]
    if bits == 16:
        return [torch.randn(r["shape"], device="cuda").half() for r in (x, w)]
    first = torch.randint(0, 256, x["shape"], device="cuda").to(torch.uint8)
    second = torch.randint(-128, 128, w["shape"], device="cuda").to(torch.int8)
    spread = 128.0 * 74 * (w["shape"][0] if case["kind"] == "MatMul" else
                           int(numpy.prod(w["shape"][1:]))) ** 0.5  # fmt: skip
    return [first, second, torch.rand(scales[0]["shape"], device="cuda") * 256 / spread]


def expected(torch: Any, case: dict[str, Any], inputs: list[Any]) -> Any:
    """The result from sums in float64, in which those of bytes are exact."""
    x, w = (value.double() for value in inputs[:2])
    sums = x @ w if case["kind"] == "MatMul" else convolve(torch, case, x, w, None)
    if case["bits"] == 16:
        return sums.relu()
    return (sums.to(torch.float32) * inputs[2]).round().clamp(0, 255).to(torch.uint8)


def laid_out(tensor: Any, block: int) -> Any:
    """A tensor as it is stored, blocks of channels first: see `TensorInfo`."""
    if not block:
        return tensor.contiguous()
    split = tensor.unflatten(1, (tensor.shape[1] // block, block))
    return split.movedim(2, -1).movedim(1, 0).contiguous()


def measure_one(torch: Any, driver: Any, case: dict[str, Any]) -> dict[str, Any]:
    """One row: microseconds and the error; of bytes how many results are wrong."""
    from compiler.graph.packing import apply_packing

    torch.manual_seed(0)
    inputs = random_inputs(torch, case)
    buffers = []
    for value, read, packing in zip(inputs, case["reads"], case["packings"], strict=True):
        packed = torch.from_numpy(apply_packing(value.cpu().numpy(), packing)) if packing else value
        buffers.append(packed.cuda() if packing else laid_out(value, read["block"]))
    wanted = laid_out(expected(torch, case, inputs), case["block"])
    result = torch.zeros_like(wanted, dtype=getattr(torch, case["dtype"]))
    buffers += [
        result,
        *[torch.empty(n, dtype=torch.uint8, device="cuda") for n in case["scratch"]],
    ]
    image = called(driver.cuModuleLoadData(base64.b64decode(case["cubin"])))
    calls = bind(driver, image, case["launches"], buffers)

    def run() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        for call in calls:
            launch(driver, call, stream, True)

    run()
    torch.cuda.synchronize()
    if case["bits"] == 8:
        error = float((result != wanted).sum())
    else:
        error = float((result.double() - wanted).norm() / wanted.norm())
    row = {key: case[key] for key in ("name", "bits", "config", "chosen")}
    return row | {"us": graph_us(torch, run), "error": error}


def measure(folder: Path, out: Path) -> int:
    """Check and time all kernels, written as they come; the exit status is 1 if one is wrong."""
    import torch

    driver: Any = import_module("cuda.bindings.driver")
    torch.backends.cuda.matmul.allow_tf32 = False
    rows: list[dict[str, Any]] = []
    for case in json.loads((folder / "cases.json").read_text()):
        rows.append(measure_one(torch, driver, case))
        out.write_text(json.dumps(rows, indent=0))
    report(rows)
    return int(any(r["error"] > (0 if r["bits"] == 8 else FP16_BOUND) for r in rows))


def report(rows: list[dict[str, Any]]) -> None:
    """Print the best of each width for each shape, and the mean of their ratios."""
    ratios: list[float] = []
    for name in dict.fromkeys(row["name"] for row in rows):
        best = {
            bits: min(
                (r for r in rows if (r["name"], r["bits"]) == (name, bits)), key=lambda r: r["us"]
            )
            for bits in (8, 16)
        }
        ratios.append(best[8]["us"] / best[16]["us"])
        print(f"{name:24} {best[8]['us']:8.2f} {best[16]['us']:8.2f} {ratios[-1]:6.2f}"
              f"  wrong {best[8]['error']:.0f}  {best[8]['config']}")  # fmt: skip
    print(f"geometric mean of 8 bits to fp16: {geometric_mean(ratios):.3f}")


def main() -> int:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tiles", type=int, default=6)
    parser.add_argument("--json", type=Path, default=Path("bytes.json"))
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.folder, options.tiles)
        return 0
    return measure(options.folder, options.json)


if __name__ == "__main__":
    sys.exit(main())
