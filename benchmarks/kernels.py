"""Every distinct convolution and matrix product of the zoo against cuDNN and cuBLAS.

    python benchmarks/kernels.py prepare build/kernels [--models resnet50 bert128] [--tiles 8]
    python benchmarks/kernels.py measure build/kernels [--json FILE]

`prepare` writes the kernels' CUDA text and needs no GPU; `measure` needs PyTorch, NVRTC and a CUDA
device, but neither TVM nor ONNX. Each kernel is checked against float64 on random inputs and timed
in a CUDA graph of 20 launches, warm, median of 15 replays. Images lie in channel blocks. The
library's time is its best: cuDNN with the bias, the residual and the Relu fused where there is such
a call (else the convolution with bias alone, which does less than ours), cuBLAS with the bias.
With `--tiles` the most promising other tiles are timed too, to judge the choice.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.gpu_kernel import Chain, carried, compile_kernels, graph_us, load, save

BOUND = {"fp32": 2e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 2e-2}
MODELS = ("resnet50", "inception_v3", "bert128", "vit_base", "unet", "googlenet", "resnext50")


def prepare(folder: Path, models: list[str], precision: str, tiles: int) -> None:
    """Write the text of each kernel with what it computes."""
    from compiler.kernels.cuda.target import parse_cuda_target
    from tests.kernels.gpu_kernels_prepare import groups_of, in_blocks

    target = parse_cuda_target(f"cuda:sm_90:{precision}")
    cases: dict[str, dict[str, Any]] = {}
    for model in models:
        for group in map(in_blocks, groups_of(model)):
            for case in describe(group, target, tiles):
                cases.setdefault(case["key"], case | {"model": model})
    save(folder, list(cases.values()))
    print(f"{len(cases)} kernels in {folder}")


def describe(group: Any, target: Any, count: int) -> list[dict[str, Any]]:
    """The chosen kernel of a contraction and `count` others; none for any other group."""
    from compiler.kernels.cuda.contraction import CONTRACTIONS, contraction_kernel
    from compiler.kernels.cuda.problem import read_problem
    from compiler.kernels.cuda.tiles import candidates, choose_tile, estimate

    anchor = next((op for op in group.operators if op.type in CONTRACTIONS), None)
    problem = read_problem(group, anchor) if anchor else None
    library = library_call(group, anchor) if problem is not None else None
    if problem is None or library is None:
        return []
    ranked = sorted(candidates(problem, target), key=lambda t: estimate(problem, t, target))
    chosen = choose_tile(problem, target)
    found = []
    for tile in [chosen, *[t for t in ranked if t != chosen][:count]]:
        kernel = contraction_kernel(group, target, None if tile == chosen else tile)
        if kernel is not None:
            key = f"{library} {tile if tile != chosen else 'chosen'}"
            reads = [f"x{i}" for i in range(group.inputs)]
            writes = [f"y{i}" for i in range(len(group.outputs))]
            found.append(carried(kernel, group, target, reads, writes) | {"key": key,
                         "tile": repr(tile), "chosen": tile == chosen, "library": library,
                         "precision": target.precision})  # fmt: skip
    return found


def library_call(group: Any, anchor: Any) -> dict[str, Any] | None:
    """What PyTorch should compute; None for a group that it has no single call for.

    `operands` are the reads of the anchor, `residual` that of an addition behind it.
    """
    operators = [op for op in group.operators if op is not anchor]
    if any(i is not None and i >= group.inputs for i in anchor.inputs):
        return None
    if anchor.type not in ("Conv", "MatMul") or len(group.outputs) > 1:
        return None
    result = group.values[anchor.outputs[0]].shape
    call: dict[str, Any] = {"type": anchor.type, "operands": list(anchor.inputs), "residual": None}
    call["shapes"] = [group.values[i].shape for i in anchor.inputs if i is not None]
    call["attributes"] = {k: v for k, v in anchor.attributes.items() if k != "kernel_shape"}
    call["relu"] = False
    for op in operators:
        others = [i for i in op.inputs if i is not None and i < group.inputs]
        if op.type == "Relu":
            call["relu"] = True
        elif op.type == "Add" and len(others) == 1 and not call["relu"]:
            shape = group.values[others[0]].shape
            if shape == result and anchor.type == "Conv":
                call["residual"] = others[0]
            elif shape == result[-1:] and anchor.type == "MatMul":
                call["operands"] += others
            else:
                return None
        else:
            return None
    return call


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


def measure(folder: Path, out: Path) -> int:
    """Check and time all kernels; the exit status is 1 when one is wrong."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    headers, cases = load(folder)
    cubins = compile_kernels(cases, headers)
    rows: list[dict[str, Any]] = []
    known: dict[str, float] = {}
    for case, cubin in zip(cases, cubins, strict=True):
        rows.append(measure_one(torch, case, cubin, known))
        out.write_text(json.dumps(rows))
    report(rows)
    return int(any(row["error"] > BOUND[row["precision"]] for row in rows))


def measure_one(
    torch: Any, case: dict[str, Any], cubin: bytes, known: dict[str, float]
) -> dict[str, Any]:
    """One row: the error, our time, the library's."""
    torch.manual_seed(0)
    inputs = [torch.randn(r["shape"], device="cuda") for r in case["reads"]]
    names = {read["name"]: x for read, x in zip(case["reads"], inputs, strict=True)}
    chain = Chain.load(torch, [case], [cubin], names)
    chain()
    torch.cuda.synchronize()
    expected = exact(torch, case["library"], inputs)
    row = {k: case[k] for k in ("model", "tile", "chosen", "library", "precision")}
    row["error"] = float((chain.result("y0").double() - expected).norm() / expected.norm())
    row["us"] = graph_us(torch, chain)
    call = json.dumps(case["library"])
    if call not in known:
        known[call] = library_us(torch, case["library"], inputs)
    return row | {"library_us": known[call]}


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
    ratios = [row["us"] / row["library_us"] for row in chosen]
    lost = sorted(row["us"] / best[json.dumps(row["library"])] for row in chosen)
    print(f"{len(ratios)} kernels, {sum(r > 1 for r in ratios)} slower than the library;"
          f" geometric mean {geometric_mean(ratios):.2f} of its time;"
          f" the choice takes {median(lost):.2f} of the best tile's (median)")  # fmt: skip


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--precision", default="tf32", choices=("fp32", "tf32"))
    parser.add_argument("--tiles", type=int, default=0, help="further tiles of each kernel")
    parser.add_argument("--json", type=Path, default=Path("kernels.json"))
    given = parser.parse_args()
    if given.command == "measure":
        return measure(given.folder, given.json)
    prepare(given.folder, given.models, given.precision, given.tiles)
    return 0


if __name__ == "__main__":
    sys.exit(main())
