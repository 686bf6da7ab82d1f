"""Candidates of a model's distinct contractions; needs TVM but no GPU (AutoTVM's split, 2018)."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, replace
from typing import Any

from compiler.build import set_target
from compiler.frontend import import_model
from compiler.ir.dataflow import GroupOp
from compiler.kernels.build import distinct_groups
from compiler.kernels.cuda.contraction import Stores, contraction_kernel, tiled_problem
from compiler.kernels.cuda.source import complete_text, headers
from compiler.kernels.cuda.target import CudaTarget, parse_cuda_target
from compiler.kernels.cuda.tiles import Tile, diverse
from compiler.kernels.cuda.tuned import key_of
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.kernel import LOWERING_MODULES as LOWERING_MODULES  # registers them
from compiler.pipeline import DEFAULT_PIPELINE, Runner, parse, split
from compiler.tuning.bundle import Buffer, Bundle, Candidate, Kernel

CANDIDATES = 24


def prepare(
    models: Iterable[tuple[str, Any]],
    precisions: Iterable[str],
    arch: str,
    count: int = CANDIDATES,
    told: Callable[[str], None] = lambda line: None,
) -> Bundle:
    """The candidates of every distinct contraction of some models in some precisions.

    Models come by name, each as what `import_model` reads; `told` hears of each one done.
    """
    kernels: dict[str, Kernel] = {}
    targets = [parse_cuda_target(f"cuda:{arch}:{precision}") for precision in precisions]
    for name, model in models:
        for target in targets:
            _add_model(kernels, model, target, count)
        told(f"{name}: {len(kernels)} kernels so far")
    texts = headers()
    return Bundle(arch, targets[0].compiler_arch, version(texts), texts, tuple(kernels.values()))


def version(texts: dict[str, str]) -> str:
    """What identifies the templates that candidates are instances of."""
    names = ("contraction.cuh", "operands.cuh", "instructions.cuh")
    return hashlib.sha256("".join(texts[name] for name in names).encode()).hexdigest()[:12]


def _add_model(kernels: dict[str, Kernel], model: Any, target: CudaTarget, count: int) -> None:
    for group, uses in groups_of(model, target):
        found = tiled_problem(group)
        if found is None:
            continue
        key, work = key_of(found[1], target), float(found[1].multiplications * uses)
        if key in kernels:
            kernels[key] = replace(kernels[key], weight=kernels[key].weight + work)
        elif kernel := kernel_of(group, target, diverse(found[1], target, count), key, work):
            kernels[key] = kernel


def groups_of(model: Any, target: CudaTarget) -> Iterator[tuple[Group, int]]:
    """The distinct groups of a model after the default graph passes, and how often they occur."""
    module = import_model(model).module
    set_target(module, str(target))
    Runner(None).run(module, split(parse(DEFAULT_PIPELINE))[0])
    uses = Counter(
        op.kernel.data for op in module.walk() if isinstance(op, GroupOp) and op.kernel is not None
    )
    for name, group in distinct_groups(module).items():
        yield group, uses[name]


def kernel_of(
    group: Group, target: CudaTarget, tiles: Iterable[Tile], key: str, weight: float
) -> Kernel | None:
    """A group's kernel in several tiles; None where another template must take it."""
    stores: Stores = {}
    packings, found = ("",) * group.inputs, list[Candidate]()
    for tile in tiles:
        kernel = contraction_kernel(group, target, tile, stores)
        if kernel is None:
            return None
        packings, text = kernel.packings, complete_text(kernel.text)
        launches = tuple(replace(x, programmatic=target.programmatic) for x in kernel.launches)
        found.append(Candidate(astuple(tile), text, launches, kernel.scratch))
    reads = tuple(_buffer(t, p) for t, p in zip(group.reads, packings, strict=True))
    writes = tuple(_buffer(t) for t in group.writes)
    return Kernel(key, group.name, weight, reads, writes, tuple(found)) if found else None


def _buffer(info: TensorInfo, packing: str = "") -> Buffer:
    return Buffer(info.dtype, info.shape if packing else info.stored_shape, packing)
