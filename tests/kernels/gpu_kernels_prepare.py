"""Preparing what `gpu_kernels_check` checks on a GPU's machine: cubins and expected results.

    python -m tests.kernels.gpu_kernels_prepare build/gpu_check               every distinct kernel
    python -m tests.kernels.gpu_kernels_prepare build/gpu_sweep --sweep 8     tiles to choose from

Needs no GPU. A folder has ONNX's node cases and the kernels of some models of the zoo, those with
images also with all images in channel blocks.
"""

import argparse
import json
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
from xdsl.context import Context

from compiler.frontend.importing import import_model
from compiler.ir.layouts import can_block
from compiler.kernels.building.cuda_kernel import compile_kernel
from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.building.module import distinct_groups
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.read import read_problem
from compiler.kernels.group import Group
from compiler.net.operators.contractions import FLOAT_CONTRACTIONS
from compiler.passes import PASSES
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import PRECISIONS, parse_gpu, parse_target
from examples import zoo
from tests.kernels.gpu.of_template import gemm_kernel
from tests.kernels.gpu_kernels_check import random_read
from tests.kernels.harness import laid_out, logical, run_kernel
from tests.kernels.node_cases import node_case, usable_names

SAMPLES = 4096
"""Elements of a result that are compared; all of them must be written."""

BOUNDS = {"fp32": 2e-5, "tf32": 3e-3, "fp16": 3e-3, "bf16": 2e-2}
"""Largest relative error in the Euclidean norm; a single element may be ten times as far."""


class Store:
    """The file of all bytes: cubins, inputs, expected results."""

    def __init__(self, path: Path):
        self.file, self.size = path.open("wb"), 0

    def put(self, content: bytes) -> list[int]:
        """Append bytes, compressed; returns where they are."""
        content = zlib.compress(content)
        self.file.write(content)
        self.size += len(content)
        return [self.size - len(content), len(content)]


def prepare(
    folder: Path, models: list[str], arch: str, precisions: list[str], nodes: bool, sweep: int
) -> None:
    """Write the folder that the check reads."""
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(folder / "data.bin")
    cases: list[dict[str, Any]] = []
    started = time.perf_counter()
    if nodes and not sweep:
        cases += node_cases(store, arch)
    for model in models:
        if sweep:
            cases += sweep_cases(store, arch, model, sweep)
        else:
            known = {case["name"] for case in cases}
            cases += model_cases(store, arch, precisions, model, known)
    store.file.close()
    (folder / "cases.json").write_text(json.dumps(cases))
    seconds = time.perf_counter() - started
    print(f"{len(cases)} cases, {store.size / 1e6:.1f} MB, {seconds:.0f} s in {folder}")


def describe(store: Store, group: Group, spec: KernelSpec, name: str, label: str) -> dict[str, Any]:
    """The fields that launch a kernel: its code, launches and buffers."""
    launches = [
        [x.symbol, list(x.args), list(x.grid), list(x.block), x.shared_bytes] for x in spec.launches
    ]
    writes = [
        {"dtype": t.dtype, "shape": list(t.stored_shape), "aligned": t.block > 0}
        for t in group.writes
    ]
    return {
        "name": name,
        "label": label,
        "cubin": store.put(spec.code),
        "launches": launches,
        "writes": writes,
        "scratch": list(spec.workspaces),
        "flops": spec.flops,
        "traffic": spec.traffic_bytes,
    }


def node_cases(store: Store, arch: str) -> list[dict[str, Any]]:
    """ONNX's node cases, with exact inputs and results."""

    target = parse_target(f"cuda:{arch}:fp32")
    cases: list[dict[str, Any]] = []
    for name in usable_names():
        case = node_case(name)
        if sum(a.nbytes for a in (*case.inputs, *case.expected)) > 1 << 17:
            continue
        spec = build_kernel(case.group, target)
        entry = describe(store, case.group, spec, name, case.group.operators[0].type)
        entry["reads"] = [
            {
                "dtype": a.dtype.name,
                "shape": list(a.shape),
                "packing": p,
                "data": store.put(numpy.ascontiguousarray(a).tobytes()),
            }
            for a, p in zip(case.inputs, spec.packings, strict=True)
        ]
        entry["expected"] = [
            {"values": store.put(numpy.ascontiguousarray(e).tobytes())} for e in case.expected
        ]
        entry["tolerance"] = [max(case.rtol, 1e-4), max(case.atol, 1e-5)]
        cases.append(entry)
    return cases


def groups_of(model: str) -> list[Group]:
    """The distinct groups of a model of the zoo."""

    imported = import_model(zoo.load(model))
    for name in ("canonicalize", "fuse-operators"):
        PASSES[name]().apply(Context(), imported.module)
    return list(distinct_groups(imported.module).values())


def in_blocks(group: Group, block: int = 4) -> Group:
    """The group with all images in channel blocks; the group itself when it has none."""
    stored = {*range(group.inputs), *group.outputs} - {i for i, w in enumerate(group.weights) if w}
    values = tuple(
        replace(v, block=block) if i in stored and can_block(v.shape, block) else v
        for i, v in enumerate(group.values)
    )
    return (
        replace(group, name=f"{group.name}_blocks", values=values)
        if values != group.values
        else group
    )


def model_cases(
    store: Store, arch: str, precisions: list[str], model: str, known: set[str]
) -> list[dict[str, Any]]:
    """The distinct kernels of a model; contractions in every given precision."""

    cases: list[dict[str, Any]] = []
    for group in groups_of(model):
        if any(group.name in name for name in known):
            continue
        contracts = any(operator.type in FLOAT_CONTRACTIONS for operator in group.operators)
        own = precisions if contracts else ["tf32"]
        targets = {p: parse_target(f"cuda:{arch}:{p}") for p in own}
        blocked = in_blocks(group)
        for form in (group,) if blocked is group else (group, blocked):
            built = [(p, p, build_kernel(form, target)) for p, target in targets.items()]
            cases += group_cases(store, model, form, built)
    return cases


def sweep_cases(store: Store, arch: str, model: str, count: int) -> list[dict[str, Any]]:
    """The most promising tiles of a model's contractions in tf32."""

    target = parse_gpu(f"cuda:{arch}:tf32")
    cases: list[dict[str, Any]] = []
    for group in groups_of(model):
        anchor = next((op for op in group.operators if op.type in FLOAT_CONTRACTIONS), None)
        problem = read_problem(group, anchor) if anchor is not None else None
        if problem is None:
            continue
        cost = {tile: estimate(problem, tile, target) for tile in candidates(problem, target)}
        built: list[tuple[str, str, KernelSpec]] = []
        for tile in sorted(cost, key=lambda t: cost[t])[:count]:
            kernel = gemm_kernel(group, target, tile, problem=problem)
            if kernel is None:
                continue
            label = f"{tile.rows}x{tile.columns}/{tile.split_k} estimate {cost[tile]:.1f}"
            built.append(("tf32", label, compile_kernel(group, kernel, target)))
        cases += group_cases(store, model, group, built)
    return cases


def group_cases(
    store: Store, model: str, group: Group, built: list[tuple[str, str, KernelSpec]]
) -> list[dict[str, Any]]:
    """Kernels of one group (precision, label, spec) with the CPU's results at some places."""

    reads = [
        {
            "dtype": t.dtype,
            "shape": list(t.stored_shape),
            "aligned": t.block > 0 or group.weights[i],
            "seed": zlib.crc32(f"{group.name}{i}".encode()),
        }
        for i, t in enumerate(group.reads)
    ]
    arrays = [random_read(read) for read in reads]
    for read, array in zip(reads, arrays, strict=True):
        read["check"] = zlib.crc32(array.tobytes())
    given = [logical(array, info) for array, info in zip(arrays, group.reads, strict=True)]
    plain = replace(group, values=tuple(replace(v, block=0) for v in group.values))
    results = run_kernel(build_kernel(plain, parse_target("cpu")), plain, given)
    pairs = zip(results, group.writes, strict=True)
    expected = [expected_places(store, laid_out(r, info).reshape(-1)) for r, info in pairs]
    shapes = ",".join("x".join(map(str, t.shape)) for t in group.reads[:2])
    operators = "+".join(op.type for op in group.operators)
    cases: list[dict[str, Any]] = []
    for precision, label, spec in built:
        name = f"{label} {group.name}"
        entry = describe(store, group, spec, name, f"{model} {label} {operators} {shapes}")
        packed = zip(reads, spec.packings, strict=True)
        entry["reads"] = [{**read, "packing": packing} for read, packing in packed]
        entry["expected"], entry["bound"] = expected, BOUNDS[precision]
        cases.append(entry)
    return cases


def expected_places(store: Store, flat: numpy.ndarray) -> dict[str, Any]:
    """Some places of a result, and its values there."""
    count = min(flat.size, SAMPLES)
    places = numpy.random.default_rng(count).choice(flat.size, count, replace=False)
    places = places.astype("int64")
    return {"places": store.put(places.tobytes()), "values": store.put(flat[places].tobytes())}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--models", default="resnet50,inception_v3,bert128,nasnetmobile,unet")
    parser.add_argument("--precisions", default=",".join(PRECISIONS), help="of contractions")
    parser.add_argument("--no-nodes", action="store_true", help="leave ONNX's node cases out")
    parser.add_argument("--sweep", type=int, default=0, help="only this many tiles a contraction")
    given = parser.parse_args()
    models = [name for name in given.models.split(",") if name]
    precisions = given.precisions.split(",")
    prepare(given.folder, models, given.arch, precisions, not given.no_nodes, given.sweep)


if __name__ == "__main__":
    main()
