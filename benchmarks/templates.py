"""Attention, rows, grouped and separable kernels against PyTorch, cuDNN and our kernels apart.

    python benchmarks/templates.py prepare build/templates [--kinds attention rows]
    python benchmarks/templates.py measure build/templates [--json FILE]

`prepare` writes the kernels' CUDA text and needs no GPU; `measure` needs PyTorch, NVRTC and a CUDA
device, but neither TVM nor ONNX. The shapes are those of the zoo's models at batch 1, in float32
with tf32 GEMMs on both sides; images are in channel blocks where they fill them. Each kernel is
checked against float64 on random inputs and timed in a CUDA graph of 20 launches, warm, median of
15 replays. The peers: `scaled_dot_product_attention`; `layer_norm` (with a residual: after an
addition) and `softmax`; cuDNN's convolution with its bias, the faster of both memory formats; of a
separable convolution two of those, and our two kernels that `fuse-depthwise-pointwise` would fuse
(`apart`).
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.gpu_kernel import Chain, carried, compile_kernels, load, save
from benchmarks.kernels import geometric_mean, graph_us, to_format

BOUND = 3e-3
"""Largest relative error in the Euclidean norm."""

ATTENTIONS = {
    "vit_base": (12, 197, 197, 64),
    "bert128": (12, 128, 128, 64),
    "bert512": (12, 512, 512, 64),
    "t5small": (8, 128, 128, 64),
    "gpt2large": (20, 1024, 1024, 64),
}
"""Heads, rows, keys and columns of a head."""

ROWS = {
    "vit_base": ("layer_norm", (197, 768)),
    "vit_base, residual": ("residual", (197, 768)),
    "bert512, residual": ("residual", (512, 768)),
    "gpt2large": ("layer_norm", (1024, 1280)),
    "scores of bert512": ("softmax", (12 * 512, 512)),
}
"""The operator of each case, its rows and its columns."""

GROUPED = {
    "nasnetmobile 5x5": (44, 44, 28, 5, 1),
    "nasnetmobile 7x7, halved": (88, 88, 28, 7, 2),
    "pnasnet5large 7x7": (216, 216, 42, 7, 1),
    "pnasnet5large 5x5": (864, 864, 11, 5, 1),
    "pnasnet5large first": (54, 54, 83, 5, 1),
    "resnext50 56": (128, 32, 56, 3, 1),
    "resnext50 14": (512, 32, 14, 3, 1),
}
"""Channels, groups, height and width, window and stride."""

SEPARABLE = {
    "nasnetmobile 28": (44, 44, 28, 5, 1),
    "nasnetmobile 28, halved": (88, 88, 28, 7, 2),
    "nasnetmobile 14": (88, 88, 14, 3, 1),
    "nasnetmobile 7": (176, 176, 7, 5, 1),
    "nasnetmobile first": (11, 11, 56, 5, 1),
    "pnasnet5large first": (54, 54, 83, 5, 1),
    "pnasnet5large 42": (216, 216, 42, 5, 1),
    "pnasnet5large 21": (432, 432, 21, 3, 1),
    "pnasnet5large 11": (864, 864, 11, 5, 1),
}
"""Channels, output channels, height and width, window and stride."""

Case = dict[str, Any]


def attentions() -> Iterator[tuple[Case, Any, str]]:
    """Attentions without a mask of Q, K and V as their projections leave them."""
    from compiler.frontend.importing import import_model
    from tests.kernels.attention_models import Attention

    for label, (heads, rows, columns, depth) in ATTENTIONS.items():
        one = Attention("heads", "none", 1, heads, rows, columns, depth, depth)
        call: Case = {"kind": "attention", "heads": heads}
        call["inputs"] = {name: x.shape for name, x in one.inputs().items()}
        yield (
            call | {"label": label},
            import_model(one.model()).module,
            "fuse-attention,fuse-operators",
        )


def rows() -> Iterator[tuple[Case, Any, str]]:
    """Normalisations and softmax of rows."""
    from tests.graphs import GraphBuilder

    for label, (kind, shape) in ROWS.items():
        build = GraphBuilder()
        inputs = (
            {"x": shape}
            if kind == "softmax"
            else {"x": shape, "scale": shape[1:], "bias": shape[1:]}
        )
        inputs |= {"y": shape} if kind == "residual" else {}
        values = {name: build.input(name, value) for name, value in inputs.items()}
        x = build.op("Add", values["x"], values["y"]) if kind == "residual" else values["x"]
        if kind == "softmax":
            last = build.op("Softmax", x, axis=-1)
        else:
            given = (x, values["scale"], values["bias"])
            last = build.op("LayerNormalization", *given, shape=shape, axis=-1, epsilon=1e-5)
        yield {"kind": kind, "inputs": inputs, "label": label}, build.finish(last), "fuse-operators"


def images(
    shapes: Mapping[str, tuple[int, ...]], separable: bool
) -> Iterator[tuple[Case, Any, str]]:
    """Grouped convolutions, or depthwise ones with a pointwise one after them."""
    import numpy

    from tests.graphs import GraphBuilder

    for label, (channels, other, size, window, stride) in shapes.items():
        groups = channels if separable else other
        reach = (size + 2 * (window // 2) - window) // stride + 1
        build = GraphBuilder()
        pads, strides = [window // 2] * 4, [stride] * 2
        attributes: dict[str, Any] = {"group": groups, "pads": pads, "strides": strides}
        inputs = {
            "x": (1, channels, size, size),
            "w0": (channels, channels // groups, window, window),
        }
        inputs |= (
            {"w1": (other, channels, 1, 1), "w2": (other,)} if separable else {"w1": (channels,)}
        )
        x = build.input("x", inputs["x"])
        weights = [
            build.weight(numpy.zeros(inputs[f"w{i}"], "float32")) for i in range(len(inputs) - 1)
        ]
        given = [x, weights[0]] if separable else [x, *weights]
        last = build.op("Conv", *given, shape=(1, channels, reach, reach), **attributes)
        if separable:
            last = build.op("Conv", last, *weights[1:], shape=(1, other, reach, reach))
        call = {"kind": "separable" if separable else "grouped", "inputs": inputs, "label": label}
        call |= {"attributes": attributes}
        yield call, build.finish(last), "fuse-operators"


KINDS: dict[str, Callable[[], Iterator[tuple[Case, Any, str]]]] = {
    "attention": attentions,
    "rows": rows,
    "grouped": lambda: images(GROUPED, False),
    "separable": lambda: images(SEPARABLE, True),
}


def prepare(folder: Path, kinds: list[str]) -> None:
    """Write the text of each case's kernels with what they compute."""
    cases = [case for kind in kinds for case in cases_of(kind)]
    save(folder, cases)
    print(f"{len(cases)} cases in {folder}")


def cases_of(kind: str) -> Iterator[Case]:
    """The cases of a kind, with their kernels."""
    for call, module, passes in KINDS[kind]():
        if kind == "separable":
            yield call | {
                "ours": kernels_of(
                    module.clone(), f"{passes},fuse-depthwise-pointwise{{policy=always}}"
                ),
                "apart": kernels_of(module, passes),
            }
        else:
            yield call | {"ours": kernels_of(module, f"canonicalize,{passes}")}


def kernels_of(module: Any, passes: str) -> list[dict[str, Any]]:
    """A module's kernels in order: reads are named after inputs, weights' keys or other results."""
    from xdsl.ir import BlockArgument

    from compiler.graph.targets import set_target
    from compiler.ir.dataflow import GraphOp, WeightOp
    from compiler.kernels.building import kernel as _lowerings
    from compiler.kernels.building.cuda_kernel import generate
    from compiler.kernels.group import extract_group
    from compiler.passes.pipeline import parse
    from compiler.passes.runner import Runner
    from compiler.target.target import parse_gpu
    from tests.kernels.gpu_kernels_prepare import in_blocks

    assert _lowerings
    target = parse_gpu("cuda:sm_90:tf32")
    set_target(module, str(target))
    Runner().run(module, parse(passes))
    (graph,) = [op for op in module.ops if isinstance(op, GraphOp)]
    made: dict[Any, str] = {}

    def name(value: Any) -> str:
        if isinstance(value, BlockArgument):
            return graph.input_names.data[value.index].data
        return value.owner.key.data if isinstance(value.owner, WeightOp) else made[value]

    found = []
    for group in graph.groups:
        reads = [name(value) for value in group.inputs]
        made |= {value: f"t{len(made) + i}" for i, value in enumerate(group.outputs)}
        plain = extract_group(group)
        image = any(op.type == "Conv" for op in plain.operators)
        laid = in_blocks(plain) if image else plain
        writes = [made[value] for value in group.outputs]
        found.append(carried(generate(laid, target), laid, target, reads, writes))
    return found


def computed(torch: Any, case: Case, given: Mapping[str, Any]) -> Any:
    """The result of a case, by PyTorch; the exact result where the inputs are in float64."""
    function: Any = torch.nn.functional
    x: Any = given.get("x")
    match case["kind"]:
        case "attention":
            q, k, v = (given[n].unflatten(-1, (case["heads"], -1)).transpose(1, 2) for n in "qkv")
            mixed = function.scaled_dot_product_attention(q, k, v, scale=0.25)
            return mixed.transpose(1, 2).flatten(2)
        case "softmax":
            return function.softmax(x, -1)
        case "layer_norm" | "residual":
            x = x + given["y"] if case["kind"] == "residual" else x
            return function.layer_norm(x, x.shape[-1:], given["scale"], given["bias"], 1e-5)
        case "separable":
            deep = convolved(torch, case, x, given["w0"], None)
            return torch.nn.functional.conv2d(deep, given["w1"], given["w2"])
        case _:
            return convolved(torch, case, x, given["w0"], given["w1"])


def convolved(torch: Any, case: Case, x: Any, weight: Any, bias: Any) -> Any:
    """A grouped convolution."""
    own = case["attributes"]
    pads, groups = own["pads"][:2], own["group"]
    return torch.nn.functional.conv2d(x, weight, bias, own["strides"], pads, 1, groups)


def library_us(torch: Any, case: Case, given: Mapping[str, Any]) -> float:
    """Microseconds of the library, with images in its better memory format."""
    forms = [torch.contiguous_format]
    if case["kind"] in ("grouped", "separable"):
        forms.append(torch.channels_last)
    times = []
    for form in forms:
        own = {name: to_format(x, form) for name, x in given.items()}
        times.append(graph_us(torch, lambda own=own: computed(torch, case, own)))
    return min(times)


def measure(folder: Path, out: Path) -> int:
    """Check and time all cases; the exit status is 1 when one is wrong."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    headers, cases = load(folder)
    kernels = [kernel for case in cases for kernel in (*case["ours"], *case.get("apart", ()))]
    cubins = iter(compile_kernels(kernels, headers))
    found = []
    for case in cases:
        torch.manual_seed(0)
        given = {name: torch.randn(shape, device="cuda") for name, shape in case["inputs"].items()}
        found.append({"kind": case["kind"], "label": case["label"]})
        exact = computed(torch, case, {name: x.double() for name, x in given.items()})
        for way in ("ours", "apart"):
            chosen = case.get(way, [])
            chain = Chain.load(torch, chosen, [next(cubins) for _ in chosen], given)
            if chosen:
                found[-1] |= timed(torch, way, chain, exact, chosen[-1]["writes"][0]["name"])
        found[-1]["library"] = library_us(torch, case, given)
        out.write_text(json.dumps(found))
    report(found)
    return int(not all(error <= BOUND for row in found for name, error in row.items()
                       if name.endswith("error")))  # fmt: skip


def timed(torch: Any, way: str, chain: Chain, exact: Any, name: str) -> dict[str, float]:
    """The error and the microseconds of kernels, by the way they are built."""
    chain()
    torch.cuda.synchronize()
    result = chain.result(name).double().reshape(exact.shape)
    error = float((result - exact).norm() / exact.norm())
    return {way: graph_us(torch, chain), f"{way} error": error}


def report(rows: list[dict[str, Any]]) -> None:
    """Print each case, and the means of each kind."""
    print("    ours   apart library  ratio    error  kind, case")
    for row in rows:
        apart = f"{row['apart']:7.2f}" if "apart" in row else "      -"
        ratio = row["ours"] / row["library"]
        figures = f"{row['ours']:8.2f} {apart} {row['library']:7.2f} {ratio:6.2f}"
        print(f"{figures} {row['ours error']:8.1e}  {row['kind']} {row['label']}")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        mean = geometric_mean([row["ours"] / row["library"] for row in own])
        print(f"{kind}: {len(own)} cases take {mean:.2f} of the library's time (geometric mean)")
        if all("apart" in row for row in own):
            mean = geometric_mean([row["ours"] / row["apart"] for row in own])
            print(f"{kind}: {mean:.2f} of the time of the kernels apart (geometric mean)")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=tuple(KINDS))
    parser.add_argument("--json", type=Path, default=Path("templates.json"))
    given = parser.parse_args()
    if given.command == "measure":
        return measure(given.folder, given.json)
    prepare(given.folder, given.kinds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
