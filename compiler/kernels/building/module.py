"""Building a module's distinct kernels: from the cache, in threads, or in worker processes."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from compiler.emulator.compile import compile_kernels
from compiler.errors import KernelError
from compiler.graph.boundary import boundary_kernels
from compiler.graph.cost import Work, work_of
from compiler.ir.dataflow import ControlOp, GraphOp, GroupOp
from compiler.kernels.building.cache import KernelCache
from compiler.kernels.building.library import KernelLibrary, serving
from compiler.kernels.building.workers import build_in_workers
from compiler.kernels.cpu.machine import named_target, second_cache_bytes
from compiler.kernels.gpu.compilers.hip_toolchain import hip_generator
from compiler.kernels.gpu.compilers.nvrtc import check_compiler, compile_cubin
from compiler.kernels.gpu.headers import headers
from compiler.kernels.group import Group, extract_group, operand_types
from compiler.kernels.shared_packings import with_shared_packings
from compiler.net.operators.registration import REGISTERED
from compiler.progress import KernelsBegan, notify
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import ControlKind
from compiler.support.family import early_family
from compiler.target.target import GpuTarget, Target, parse_gpu, parse_target
from compiler.verify.seals import sealed_kernel

BINDING_THREADS = 64
"""The threads of the one block that sets a body's pointers."""

COPYING_THREADS = 256
"""The threads of a block that copies carried values at a loop's end."""

SYMBOLS: Mapping[ControlKind, tuple[str, ...]] = {
    "if": ("flowloom_if",),
    "loop": ("flowloom_loop_begin", "flowloom_loop_next", "flowloom_loop_end"),
}
"""The entry points of each kind: of a loop before it, after each iteration, and after the last."""


def control_kernels(kinds: Iterable[ControlKind], target: GpuTarget) -> dict[str, KernelSpec]:
    """The kernels of some kinds of control tasks, by the name that these tasks have."""
    return {kind: _built(kind, str(target)) for kind in dict.fromkeys(kinds)}


@cache
def _built(kind: ControlKind, target: str) -> KernelSpec:
    symbols = SYMBOLS[kind]
    threads = [COPYING_THREADS if "end" in symbol else BINDING_THREADS for symbol in symbols]
    launches = tuple(
        Launch(symbol, (), block=(count, 1, 1))
        for symbol, count in zip(symbols, threads, strict=True)
    )
    source = headers()["control.cuh"]
    parsed = parse_gpu(target)
    language = "emu" if parsed.emulated else "cuda"
    return KernelSpec(kind, language, _code(source, symbols, parsed), launches, (), source=source)


def _code(source: str, symbols: tuple[str, ...], target: GpuTarget) -> bytes:
    if target.emulated:
        return compile_kernels(source, symbols)
    if target.backend != "cuda":
        raise KernelError(f"{target} has no conditional nodes: divide the model into programs")
    check_compiler(target)
    return compile_cubin(source, target)


WORKERS_PAY = 12
"""From this many missing kernels on, starting worker processes costs less than it saves."""

NAMED: Mapping[str, Callable[[Any], Target]] = {"cpu": named_target}
"""The function that names this machine in a target that leaves it open, for each backend."""

KERNELS_DEPEND_ON: Mapping[str, Callable[[Any], str]] = {
    "cpu": lambda target: f"{second_cache_bytes(target)} bytes of cache",
    "hip": lambda target: hip_generator(),
}
"""The facts, besides the target, that decide the kernels of each backend, as a text."""


def build_kernels(
    module: ModuleOp,
    target: str,
    cache: KernelCache | None,
    jobs: int = 0,
    packed: Iterable[str] = (),
) -> dict[str, KernelSpec]:
    """Build each distinct kernel of a module's groups once; returns them by kernel name.

    `target` is what `parse_target` reads; `jobs` is the number of processes, or of threads for
    CUDA (0 for one a core). `packed` names weights that are in memory already, of which a CPU's
    kernels choose their packings. Each kernel has its seal. Raises KernelError, which names the
    kernel, its operators and nodes.
    """
    exact = exact_target(target)
    groups = _groups(module, exact, packed)
    kept = KeptKernels(cache, exact)
    jobs = jobs or os.cpu_count() or 1
    specs, missing = kept.load([*groups.values()], jobs)
    notify(KernelsBegan(len(missing), len(specs)))
    for group, spec in build_groups(missing, exact, jobs, kept):
        specs[group.name] = spec
        kept.store(group, spec)
    if cache is not None and missing:
        cache.trim_hourly()
    work: dict[str, Work] = {}
    for op in module.walk():
        if isinstance(op, GroupOp) and op.kernel is not None and op.kernel.data not in work:
            work[op.kernel.data] = work_of(op)
    return {
        name: sealed_kernel(
            replace(
                with_operands(specs[name], group),
                flops=work[name].flops,
                traffic_bytes=work[name].nbytes,
            )
        )
        for name, group in groups.items()
    }


def build_missing(
    modules: Iterable[ModuleOp], target: str, cache: KernelCache | None, jobs: int = 0
) -> None:
    """Build the kernels of several modules that are not in a cache, at once: all cores are busy.

    Building a module's kernels meets the error of a group that ends this.
    """
    exact = exact_target(target)
    groups = {name: g for module in modules for name, g in _groups(module, exact, ()).items()}
    kept = KeptKernels(cache, exact)
    jobs = jobs or os.cpu_count() or 1
    with suppress(KernelError):
        _, missing = kept.load([*groups.values()], jobs)
        for group, spec in build_groups(missing if cache else (), exact, jobs, kept):
            kept.store(group, spec)


def _groups(module: ModuleOp, target: Target, packed: Iterable[str]) -> dict[str, Group]:
    """The groups of a module as their kernels are built, by kernel name."""
    groups = distinct_groups(module)
    if target.is_gpu:
        return at_boundary(module, groups)
    return with_shared_packings(module, groups, packed)


class KeptKernels:
    """The kernels of a target in a cache, by the database and by configs, and in libraries, if any.

    A kernel is the same under another database that chooses the same config.
    """

    def __init__(self, cache: KernelCache | None, target: Target):
        self._cache, self._target, self._name = cache, target, str(target)
        self._compiler = compiler_text(target)
        self._configs: dict[str, str] = {}

    def load(self, groups: Sequence[Group], jobs: int) -> tuple[dict[str, KernelSpec], list[Group]]:
        """The kernels of groups that are there, by name, and the groups of which none is.

        Workers look for themselves whether there is a kernel by its config: that takes TVM.
        """
        if self._cache is None:
            return {}, [*groups]
        libraries = serving(self._target)
        loaded = {g.name: self._kept(self._cache, g, libraries) for g in groups}
        missing = [group for group in groups if loaded[group.name] is None]
        if missing and not _worth_workers(missing, self._target, jobs):
            from compiler.kernels.building.kernel import chosen_configs

            self._configs = chosen_configs(missing, self._target)
            loaded |= {group.name: self._again(group) for group in missing}
        specs = {name: spec for name, spec in loaded.items() if spec is not None}
        return specs, [group for group in missing if group.name not in specs]

    def _kept(
        self, cache: KernelCache, group: Group, libraries: Iterable[KernelLibrary]
    ) -> KernelSpec | None:
        """A group's kernel in a cache, else in one of some libraries."""
        loads = (library.load(group, self._target) for library in libraries)
        kept = cache.load(group, self._name, self._compiler)
        return kept or next((spec for spec in loads if spec is not None), None)

    def built(
        self, group: Group, config: str, build: Callable[[Group, Target], KernelSpec]
    ) -> KernelSpec:
        """A group's kernel by the config that it chooses, from the cache or built and kept."""
        self._configs = {group.name: config}
        if (spec := self._again(group)) is None:
            spec = build(group, self._target)
            self.keep(group, spec, config)
        return spec

    def _again(self, group: Group) -> KernelSpec | None:
        """A group's kernel by its config, from now on by the present database, too."""
        spec = self.with_config(group, self._configs[group.name])
        if spec is not None:
            self.keep(group, spec, "")
        return spec

    def with_config(self, group: Group, config: str) -> KernelSpec | None:
        """A group's kernel with a config, which is the same whatever memory has already."""
        if self._cache is None:
            return None
        return self._cache.load(replace(group, packed=()), self._name, self._compiler, config)

    def store(self, group: Group, spec: KernelSpec) -> None:
        """Keep a kernel that was built."""
        for config in {"", self._configs.get(group.name, "")}:
            self.keep(group, spec, config)

    def keep(self, group: Group, spec: KernelSpec, config: str) -> None:
        """Keep a kernel with a config, or the one by the present database."""
        if self._cache is not None:
            group = replace(group, packed=()) if config else group
            self._cache.store(group, self._name, spec, self._compiler, config)


def compiler_text(target: Target) -> str:
    """The facts, besides a target, that decide its kernels; empty without any."""
    return KERNELS_DEPEND_ON.get(target.backend, lambda _: "")(target)


def build_control_kernels(module: ModuleOp, target: str) -> dict[str, KernelSpec]:
    """The kernels of a module's control tasks by their names; CPUs need none."""
    kinds: set[ControlKind] = {op.form.kind for op in module.walk() if isinstance(op, ControlOp)}
    if not kinds or not parse_target(target).is_gpu:
        return {}
    built = control_kernels(sorted(kinds), parse_gpu(target))
    return {name: sealed_kernel(kernel) for name, kernel in built.items()}


def exact_target(text: str) -> Target:
    """The target of a text, with all that decides its kernels: `cpu` as this machine's by name."""
    target = parse_target(text)
    return NAMED[target.backend](target) if target.backend in NAMED else target


def with_operands(spec: KernelSpec, group: Group) -> KernelSpec:
    """The kernel of a group with the types of the tensors that it reads and writes."""
    reads, writes = operand_types(group, spec.packings)
    return replace(spec, reads=reads, writes=writes)


def distinct_groups(module: ModuleOp) -> dict[str, Group]:
    """One group of each kernel name, in launch order."""
    groups: dict[str, GroupOp] = {}
    for op in module.walk():
        if isinstance(op, GroupOp) and op.kernel is not None:
            groups.setdefault(op.kernel.data, op)
    return {name: extract_group(op) for name, op in groups.items()}


def counted_groups(module: ModuleOp) -> list[tuple[Group, int]]:
    """One group of each kernel name, and how often a run launches it."""
    uses = Counter(
        op.kernel.data for op in module.walk() if isinstance(op, GroupOp) and op.kernel is not None
    )
    return [(group, uses[name]) for name, group in distinct_groups(module).items()]


def at_boundary(module: ModuleOp, groups: Mapping[str, Group]) -> dict[str, Group]:
    """The groups, with those marked that touch the inputs or outputs of their graph."""
    found = {n for op in module.ops if isinstance(op, GraphOp) for n in boundary_kernels(op)}
    return {name: replace(group, boundary=name in found) for name, group in groups.items()}


def build_groups(
    groups: Sequence[Group], target: Target, jobs: int, kept: KeptKernels | None = None
) -> Iterator[tuple[Group, KernelSpec]]:
    """Build groups, yielding each kernel as it is ready.

    Those with an operator of the user are built here: a worker would not have its lowering. Workers
    take from the cache what is `kept` there by its config.
    """
    in_threads = jobs > 1 and target.backend == "cuda"
    if _worth_workers(groups, target, jobs):
        shared = [group for group in groups if not _is_users(group)]
        yield from build_in_workers(shared, target, jobs, kept)
        groups = [group for group in groups if _is_users(group)]
    if groups:
        from compiler.kernels.building.parallel import build_here

        yield from build_here(groups, target, jobs if in_threads else 1)


def _worth_workers(groups: Sequence[Group], target: Target, jobs: int) -> bool:
    """Whether worker processes build groups sooner than this one."""
    shared = sum(not _is_users(group) for group in groups)
    least = 1 if early_family() is not None else WORKERS_PAY
    return jobs > 1 and target.backend != "cuda" and shared >= least


def _is_users(group: Group) -> bool:
    """Whether a group has an operator of the user, which other processes do not know."""
    return any(op.type in REGISTERED for op in group.operators)
