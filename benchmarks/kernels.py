"""Every distinct convolution and GEMM of the zoo against cuDNN and cuBLAS.

    python benchmarks/kernels.py prepare build/kernels [--models resnet50 bert128] [--tiles 8]
    python benchmarks/kernels.py measure build/kernels [--programmatic] [--json FILE]

    python benchmarks/kernels.py prepare build/wide --models resnet50 unet inception_v3 hrnet_w18 \
        --only Conv --kinds mma wide early release --tiles 4

`prepare` writes the kernels' CUDA text and needs no GPU; `measure` needs PyTorch, NVRTC and a CUDA
device, but neither TVM nor ONNX. Each kernel is checked against float64 on random inputs and timed
in a CUDA graph of 20 launches, warm, median of 15 replays. Tensors have the models' layouts and
types, in fp16 the library's in 16 bits throughout. The library's time is its best: cuDNN with the
bias, the residual and the Relu fused where there is such a call (else the convolution with bias
alone, which does less than ours), cuBLAS with the bias.

The tile is the one that `compile` takes, chosen in its model where that was measured. With
`--recorded` so many of the tuner's fastest alone are timed too, and the summary has the best of
all, as the library's time is of its algorithms. With `--tiles` the most promising other tiles are
timed too, to judge the choice; with `--kinds` so many of each kind: tiles of warps (`mma`), of
warpgroups (`wide`), and both with early copies of weights (`early`), or also releasing the next
launch after the last step (`release`); these need `--programmatic`: launches that begin before the
one before has ended, as in graphs of models.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy

from compiler.target.nvrtc import compile_cuda

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

LAUNCHES, REPLAYS = 20, 15
BOUND = {"fp32": 2e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 2e-2}
TYPES = ("Conv", "ConvTranspose", "Gemm", "MatMul")
KINDS = ("mma", "wide", "early", "release")
MODELS = (
    "resnet50", "inception_v3", "bert128", "vit_base", "unet", "googlenet", "resnext50", "t5small",
    "nasnetmobile", "pnasnet5large", "hrnet_w18", "deepfm", "rnntc_sru", "bert512", "nasnetalarge",
    "gpt2large",
)  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """How many further tiles (of each kind, if any is named) of which operators.

    `recorded` ones are those that the tuner measured to be the fastest alone.
    """

    count: int = 0
    recorded: int = 0
    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = TYPES


def prepare(folder: Path, models: list[str], precision: str, wanted: Wanted) -> None:
    """Write the text of each kernel with what it computes."""
    from compiler.autotune.kernels.prepare import fused_groups
    from compiler.frontend.importing import import_model
    from compiler.kernels.gpu.source import headers
    from compiler.target.target import parse_gpu
    from examples import zoo

    target = parse_gpu(f"cuda:sm_90:{precision}")
    folder.mkdir(parents=True, exist_ok=True)
    cases: dict[str, dict[str, Any]] = {}
    for model in models:
        for group in fused_groups(import_model(zoo.load(model)).module, target).values():
            for case in describe(group, target, wanted):
                cases.setdefault(case["key"], case | {"model": model})
    content = {"headers": headers(), "cases": list(cases.values())}
    (folder / "cases.json").write_text(json.dumps(content))
    print(f"{len(cases)} kernels in {folder}")


def describe(group: Any, target: Any, wanted: Wanted) -> list[dict[str, Any]]:
    """The chosen kernel of a contraction and the others wanted; none for any other group."""
    from compiler.kernels.building.select import Candidate
    from compiler.kernels.gpu.epilogue import is_fusible
    from compiler.kernels.gpu.templates.gemm.read import read_problem
    from compiler.kernels.gpu.templates.gemm.template import Gemm

    anchor = next((op for op in group.operators if op.type in wanted.types), None)
    problem = read_problem(group, anchor) if anchor else None
    library = library_call(group, anchor) if problem is not None else None
    if anchor is None or problem is None or library is None:
        return []
    own, found = Candidate(Gemm(), group, problem, target), []
    chosen, _ = own.choose()
    if is_fusible(group, anchor):
        for tile in [chosen, *[t for t in others(own, wanted) if t != chosen]]:
            kernel = own.emit(tile)
            key = f"{library} {tile if tile != chosen else 'chosen'}"
            kinds = ((tile.release, "release"), (tile.prefetch, "early"), (tile.wgmma, "wide"))
            kind = next((name for is_kind, name in kinds if is_kind), "mma")
            found.append(kernel_case(group, kernel, target) | {"key": key, "tile": repr(tile),
                         "chosen": tile == chosen, "library": library, "kind": kind,
                         "precision": target.precision})  # fmt: skip
    return found


def others(own: Any, wanted: Wanted) -> list[Any]:
    """The most promising tiles, of each kind where kinds are wanted, and recorded ones."""
    from compiler.kernels.gpu.templates.gemm.candidates import candidates
    from compiler.kernels.gpu.templates.gemm.config import overlapping
    from compiler.kernels.gpu.templates.gemm.estimate import estimate

    if wanted.recorded:
        measured = own.entry.configs if own.entry else ()
        alone = sorted(measured, key=lambda result: result.warm)[: wanted.recorded]
        return [own.template.config(result.config) for result in alone]
    problem, target = own.problem, own.target
    ranked = sorted(candidates(problem, target), key=lambda t: estimate(problem, t, target))
    if not wanted.kinds:
        return ranked[: wanted.count]
    found = [t for wide in (False, True) if KINDS[wide] in wanted.kinds
             for t in [t for t in ranked if t.wgmma == wide][: wanted.count]]  # fmt: skip
    overlaps = [(True, name == "release") for name in KINDS[2:] if name in wanted.kinds]
    further = [t for tile in found for t in overlapping(problem, tile, target)]
    return found + [t for t in further if (t.prefetch, t.release) in overlaps]


def kernel_case(group: Any, kernel: Any, target: Any) -> dict[str, Any]:
    """A kernel to launch: its text, launches and buffers."""
    from compiler.kernels.gpu.source import complete_text

    reads = [{"dtype": t.dtype, "shape": t.shape, "block": t.block} for t in group.reads]
    return {
        "text": complete_text(kernel.text),
        "arch": target.compiler_architecture,
        "launches": [[x.symbol, x.args, x.grid, x.block, x.shared_bytes] for x in kernel.launches],
        "reads": reads,
        "packings": kernel.packings,
        "scratch": kernel.workspaces,
        "block": group.writes[0].block,
        "dtype": group.writes[0].dtype,
    }


def library_call(group: Any, anchor: Any) -> dict[str, Any] | None:
    """The PyTorch call of a group; None where there is not a single one.

    `operands` are the reads of the anchor, `residual` that of an addition after it; conversions
    between types are looked through.
    """
    casts = {op.outputs[0]: op.inputs[0] for op in group.operators if op.type == "Cast"}

    def source(i: int) -> int:
        return source(casts[i]) if i in casts else i

    given = [None if i is None else source(i) for i in anchor.inputs]
    if anchor.type not in ("Conv", "MatMul") or len(group.outputs) > 1:
        return None
    if any(i is not None and i >= group.inputs for i in given):
        return None
    result = group.values[anchor.outputs[0]].shape
    call: dict[str, Any] = {"type": anchor.type, "operands": given, "residual": None}
    call["shapes"] = [group.values[i].shape for i in given if i is not None]
    call["attributes"] = {k: v for k, v in anchor.attributes.items() if k != "kernel_shape"}
    call["relu"] = False
    for op in group.operators:
        others = [source(i) for i in op.inputs if i is not None and source(i) < group.inputs]
        if op is not anchor and op.type != "Cast" and not _is_part(call, op, others, group, result):
            return None
    return call


def _is_part(call: dict[str, Any], op: Any, others: list[int], group: Any, result: Any) -> bool:
    """Whether an operator after the anchor is a part of PyTorch's call, in which it is noted."""
    if op.type == "Relu":
        call["relu"] = True
        return True
    if op.type != "Add" or len(others) != 1 or call["relu"] or call["residual"] is not None:
        return False
    shape = group.values[others[0]].shape
    if call["type"] == "Conv" and shape == result:
        call["residual"] = others[0]
        return True
    if call["type"] == "MatMul" and shape == result[-1:] and len(call["operands"]) == 2:
        call["operands"] += others
        return True
    return False


def compile_case(case: dict[str, Any], headers: dict[str, str]) -> bytes:
    """The cubin of a case; raises KernelError with the compiler's log."""
    return compile_cuda(case["text"], case["arch"], headers)


def called(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call; raises RuntimeError for an error."""
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(status.name)
    return values[0] if values else None


def graph_us(torch: Any, run: Callable[[], Any]) -> float:
    """Median microseconds of one call within a graph of many."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(LAUNCHES):
                run()
        times = []
        for _ in range(REPLAYS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / LAUNCHES)
    return median(times)


def laid_out(tensor: Any, block: int) -> Any:
    """A tensor in the layout that is stored."""
    if not block:
        return tensor.contiguous()
    split = tensor.unflatten(1, (tensor.shape[1] // block, block))
    return split.movedim(2, -1).contiguous()


def exact(torch: Any, call: dict[str, Any], inputs: list[Any]) -> Any:
    """The result in float64."""
    wide = [x.double() for x in inputs]
    x, w, *bias = (wide[i] for i in call["operands"] if i is not None)
    if call["type"] == "MatMul":
        result = x @ w + (bias[0] if bias else 0)
    else:
        result = convolve(torch, call, x, w, bias[0] if bias else None)
    if call["residual"] is not None:
        result = result + wide[call["residual"]]
    return result.relu() if call["relu"] else result


def convolve(torch: Any, call: dict[str, Any], x: Any, w: Any, bias: Any) -> Any:
    """A convolution with ONNX's attributes."""
    rank, given = x.dim() - 2, call["attributes"]
    pads = given.get("pads") or [0] * (2 * rank)
    if pads[:rank] != pads[rank:]:
        sides = [p for axis in reversed(range(rank)) for p in (pads[axis], pads[axis + rank])]
        x, pads = torch.nn.functional.pad(x, sides), [0] * (2 * rank)
    function = getattr(torch.nn.functional, f"conv{rank}d")
    strides, dilations = (given.get(n) or [1] * rank for n in ("strides", "dilations"))
    return function(x, w, bias, strides, pads[:rank], dilations, given.get("group", 1))


def library_us(torch: Any, call: dict[str, Any], inputs: list[Any]) -> float:
    """Microseconds of the fastest library call."""
    if call["type"] == "MatMul":
        x, w, *bias = (inputs[i] for i in call["operands"])
        if not bias or x.dim() != 2:
            flat = x.reshape(-1, x.shape[-1]) if w.dim() == 2 else x
            return graph_us(torch, lambda: torch.matmul(flat, w))
        return graph_us(torch, lambda: torch.addmm(bias[0], x, w))
    return min(
        library_convolution(torch, call, [to_format(x, form) for x in inputs])
        for form in (torch.contiguous_format, torch.channels_last)
    )


def to_format(tensor: Any, form: Any) -> Any:
    """An image in a memory format of PyTorch."""
    return tensor.contiguous(memory_format=form) if tensor.dim() == 4 else tensor


def library_convolution(torch: Any, call: dict[str, Any], inputs: list[Any]) -> float:
    """Microseconds of one convolution by cuDNN, fused where it can be."""
    given, rank = call["attributes"], 2
    x, w, *bias = (inputs[i] for i in call["operands"] if i is not None)
    pads = given.get("pads") or [0] * 4
    even = pads[:rank] == pads[rank:] and x.dim() == 4
    if not (even and bias and call["relu"]):
        return graph_us(torch, lambda: convolve(torch, call, x, w, bias[0] if bias else None))
    rest = (given.get("strides") or [1, 1], pads[:2], given.get("dilations") or [1, 1],
            given.get("group", 1))  # fmt: skip
    if call["residual"] is None:
        return graph_us(torch, lambda: torch.cudnn_convolution_relu(x, w, bias[0], *rest))
    z = inputs[call["residual"]]
    return graph_us(torch, lambda: torch.cudnn_convolution_add_relu(x, w, z, 1.0, bias[0], *rest))


def measure(folder: Path, out: Path, programmatic: bool) -> int:
    """Check and time all kernels; the exit status is 1 when one is wrong."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    content = json.loads((folder / "cases.json").read_text())
    cases, compiled = content["cases"], partial(compile_case, headers=content["headers"])
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        cubins = list(pool.map(compiled, cases, chunksize=4))
    rows: list[dict[str, Any]] = []
    known: dict[str, float] = {}
    for case, cubin in zip(cases, cubins, strict=True):
        rows.append(measure_one(torch, case, cubin, known, programmatic))
        out.write_text(json.dumps(rows))
    report(rows)
    return int(any(row["error"] > BOUND[row["precision"]] for row in rows))


def measure_one(
    torch: Any, case: dict[str, Any], cubin: bytes, known: dict[str, float], programmatic: bool
) -> dict[str, Any]:
    """One row: the error, our time, the library's."""
    from compiler.graph.packing import apply_packing

    driver: Any = import_module("cuda.bindings.driver")
    torch.manual_seed(0)
    types = [getattr(torch, read["dtype"]) for read in case["reads"]]
    shapes = [read["shape"] for read in case["reads"]]
    inputs = [torch.randn(s, device="cuda").to(t) for s, t in zip(shapes, types, strict=True)]
    buffers = []
    for x, read, packing in zip(inputs, case["reads"], case["packings"], strict=True):
        packed = torch.from_numpy(apply_packing(x.cpu().numpy(), packing)) if packing else x
        buffers.append(packed.cuda() if packing else laid_out(x, read["block"]))
    expected = exact(torch, case["library"], inputs)
    written = getattr(torch, case["dtype"])
    result = torch.full_like(laid_out(expected, case["block"]), math.nan, dtype=written)
    buffers += [
        result,
        *[torch.empty(n, dtype=torch.uint8, device="cuda") for n in case["scratch"]],
    ]
    calls = bind(driver, called(driver.cuModuleLoadData(cubin)), case["launches"], buffers)

    def run() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        for call in calls:
            launch(driver, call, stream, programmatic)

    run()
    torch.cuda.synchronize()
    wanted = laid_out(expected, case["block"])
    row = {k: case[k] for k in ("model", "tile", "kind", "chosen", "library", "precision")}
    row["error"] = float((result.double() - wanted).norm() / wanted.norm())
    row["us"] = graph_us(torch, run)
    call = json.dumps(case["library"])
    if call not in known:
        peer = torch.float16 if case["precision"] == "fp16" else torch.float32
        known[call] = library_us(torch, case["library"], [x.to(peer) for x in inputs])
    return row | {"library_us": known[call]}


def launch(driver: Any, call: Any, stream: int, programmatic: bool) -> None:
    """Launch a kernel; `programmatic`, it may begin before the one before has ended."""
    function, grid, block, shared, _, pointers = call
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes, config.hStream = shared, driver.CUstream(stream)
    names = driver.CUlaunchAttributeID
    attribute = driver.CUlaunchAttribute()
    attribute.id = names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config.attrs, config.numAttrs = ([attribute], 1) if programmatic else ([], 0)
    called(driver.cuLaunchKernelEx(config, function, pointers.ctypes.data, 0))


def bind(driver: Any, module: Any, launches: list[Any], buffers: list[Any]) -> list[Any]:
    """Functions with the addresses of their arguments."""
    calls = []
    for symbol, arguments, grid, block, shared in launches:
        function = called(driver.cuModuleGetFunction(module, symbol.encode()))
        limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        called(driver.cuFuncSetAttribute(function, limit, shared))
        values = numpy.array([buffers[i].data_ptr() for i in arguments], numpy.uint64)
        pointers = values.ctypes.data + 8 * numpy.arange(len(values), dtype=numpy.uint64)
        calls.append((function, grid, block, shared, values, pointers.astype(numpy.uint64)))
    return calls


def geometric_mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def report(rows: list[dict[str, Any]]) -> None:
    """Print the kernels from the worst to the best, their mean, and how good the choice was."""
    chosen = [row for row in rows if row["chosen"]]
    best = {json.dumps(r["library"]): math.inf for r in rows}
    for row in rows:
        key = json.dumps(row["library"])
        best[key] = min(best[key], row["us"])
    print("  ours library  ratio    best    error  model, shapes, tile")
    for row in sorted(chosen, key=lambda r: -r["us"] / r["library_us"]):
        call = row["library"]
        shapes = " ".join("x".join(map(str, s)) for s in call["shapes"][:2])
        ratio, least = row["us"] / row["library_us"], best[json.dumps(call)]
        figures = f"{row['us']:6.2f} {row['library_us']:7.2f} {ratio:6.2f} {least:7.2f}"
        label = f"{row['model']} {call['type']} {shapes} {row['tile']}"
        print(f"{figures} {row['error']:8.1e}  {label}")
    report_kinds(rows)
    ratios = [row["us"] / row["library_us"] for row in chosen]
    library = {json.dumps(row["library"]): row["library_us"] for row in rows}
    fastest = [best[key] / library[key] for key in best]
    lost = sorted(row["us"] / best[json.dumps(row["library"])] for row in chosen)
    print(f"{len(ratios)} kernels, {sum(r > 1 for r in ratios)} slower than the library;"
          f" geometric mean {geometric_mean(ratios):.2f} of its time;"
          f" the choice takes {median(lost):.2f} of the best tile's (median)")  # fmt: skip
    if len(rows) > len(chosen):
        print(f"the best of the tiles timed: {sum(r > 1 for r in fastest)} slower,"
              f" {geometric_mean(fastest):.2f}")  # fmt: skip


def report_kinds(rows: list[dict[str, Any]]) -> None:
    """Print the best of each kind for each kernel, and how often each kind is the fastest."""
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        own = times.setdefault(json.dumps(row["library"]), {"library": row["library_us"]})
        own[row["kind"]] = min(own.get(row["kind"], math.inf), row["us"])
    kinds = [kind for kind in KINDS if any(kind in own for own in times.values())]
    if len(kinds) < 2:
        return
    print(" ".join(f"{name:>7}" for name in (*kinds, "library")), " shapes, attributes")
    for key, own in sorted(times.items(), key=lambda row: -row[1]["library"]):
        call = json.loads(key)
        figures = " ".join(f"{own.get(name, math.nan):7.2f}" for name in (*kinds, "library"))
        shapes = " ".join("x".join(map(str, s)) for s in call["shapes"][:2])
        print(f"{figures}  {shapes} {json.dumps(call['attributes'])}")
    for kind in kinds:
        having = [own for own in times.values() if kind in own]
        first = sum(own[kind] == min(own.get(k, math.inf) for k in kinds) for own in having)
        mean = geometric_mean([own[kind] / own["library"] for own in having])
        print(f"{kind}: fastest kind of {first} of {len(having)}; {mean:.2f} of the library's time")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--precision", default="tf32", choices=("fp32", "tf32", "fp16"))
    parser.add_argument("--tiles", type=int, default=0, help="further tiles of each kernel")
    parser.add_argument("--recorded", type=int, default=0, help="of the tuner's fastest alone")
    parser.add_argument("--kinds", nargs="+", default=[], choices=KINDS, help="of further tiles")
    parser.add_argument("--only", nargs="+", default=list(TYPES), choices=TYPES)
    parser.add_argument("--programmatic", action="store_true", help="launches that begin early")
    parser.add_argument("--json", type=Path, default=Path("kernels.json"))
    given = parser.parse_args()
    if given.command == "measure":
        return measure(given.folder, given.json, given.programmatic)
    wanted = Wanted(given.tiles, given.recorded, tuple(given.kinds), tuple(given.only))
    prepare(given.folder, given.models, given.precision, wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
