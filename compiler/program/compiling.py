"""Specialisation of segments: to constants, to numpy for a few small tensors, or to a module."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx

from compiler.artifact.manifest import with_sha256
from compiler.artifact.module import Module, load_placed
from compiler.backends.base import MemoryReport, backend
from compiler.backends.gpu.memory import memory_need
from compiler.backends.gpu.sharing import DeviceShare
from compiler.backends.gpu.sized import SizedExecutable
from compiler.driver.build import build_variants
from compiler.driver.settings import Settings
from compiler.driver.symbolic import build_symbolic
from compiler.driver.variants import variants
from compiler.errors import (
    ArtifactError,
    DeviceError,
    ModelError,
    ShapeError,
    SymbolicFaultWarning,
    UnsupportedOperatorError,
)
from compiler.frontend.control.unrolling import CONTROL
from compiler.frontend.domains import domain_of
from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.model import emitted
from compiler.frontend.importing.part import (
    ModelPart,
    Obstacles,
    specialise_part,
)
from compiler.frontend.importing.specialise import Problem
from compiler.frontend.rules.measured import may_measure
from compiler.graph.fusion.whole import whole_kernels
from compiler.net.graph import Graph, Value
from compiler.program.effort import segment_settings
from compiler.program.folding import FoldedGraph, folded, measured_by
from compiler.program.host import host_obstacle
from compiler.program.interpreted import InterpretedGraph, is_small
from compiler.program.request import InputArrays, SegmentRequest
from compiler.program.resident import ResidentMemory, ResidentModule, on_host, open_memory
from compiler.program.saving import SavedSegment
from compiler.program.segment import Needs, SegmentSource, SegmentSplit, Specialised
from compiler.program.static import SegmentRunner, StaticSegment
from compiler.program.symbolic import (
    SHARED_CODE,
    Sizes,
    SymbolicSegment,
    symbolic_axes,
    symbols_in,
    with_extents,
)
from compiler.program.symbolic_segments import SymbolicSegments
from compiler.program.weights import WeightStore
from compiler.target.target import parse_target
from compiler.tensors.assumptions import Assumptions, assuming
from compiler.tensors.extents import NotForAllSizes, Shape

_LOG = logging.getLogger("compiler.program")

RESIDENT_BACKENDS = ("cuda", "emu")
"""The backends whose runs take and leave tensors on the device."""

LONGEST_REASON = 200
"""Characters of the reason why a segment is not compiled for all sizes."""


@dataclass
class SegmentCompiler:
    """Compiles segments with the options of `compiler.compile`.

    `symbols` are those of the axes of the model's inputs, None for an axis of fixed size. `saved`
    are modules that were compiled before, by digest. All modules share equal weights, and their
    arenas, as far as the backend can.
    """

    context: ModelContext
    settings: Settings
    options: Mapping[str, Any]
    symbols: Mapping[str, Sequence[str | None]]
    saved: Mapping[str, SavedSegment] = field(default_factory=dict[str, SavedSegment])
    modules: dict[str, Module] = field(default_factory=dict[str, Module])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _weights: WeightStore = field(default_factory=WeightStore)
    _searched: set[str] = field(default_factory=set[str])
    _symbolic: SymbolicSegments = field(default_factory=SymbolicSegments)
    _resident: ResidentMemory | None = None

    def __post_init__(self) -> None:
        executing = backend(self.settings.target)
        executing.check_options(self.options)
        sharing = executing.sharing()
        self._shares_arenas = bool(sharing)
        self.options = {**sharing, **self.options}
        target = parse_target(self.settings.target)
        self._measures = target.backend == "cpu"
        self.context = replace(
            self.context, regions=target.runs_control_flow, has_kernel=whole_kernels(target)
        )

    def __getstate__(self) -> dict[str, Any]:
        """The state for `pickle` and `copy`, without what is on the device."""
        return {**self.__dict__, "_resident": None}

    @property
    def resident(self) -> ResidentMemory | None:
        """The device's memory for tensors between segments; None where they are the host's.

        Raises DeviceError if the device is missing.
        """
        return self._opened() if self._has_residents else None

    @property
    def _has_residents(self) -> bool:
        backend_name = parse_target(self.settings.target).backend
        return self.settings.graphs.resident and backend_name in RESIDENT_BACKENDS

    def _opened(self) -> ResidentMemory:
        if self._resident is None:
            backend_name = parse_target(self.settings.target).backend
            self._resident = open_memory(backend_name, self.options)
        return self._resident

    def specialise(
        self,
        source: SegmentSource,
        inputs: InputArrays,
        constant_inputs: frozenset[str],
        interpreted: bool = False,
    ) -> Specialised | SegmentSplit | Needs:
        arrays = {n: on_host(v) if n in constant_inputs else v for n, v in inputs.items()}
        request = SegmentRequest(source, arrays, constant_inputs)
        if interpreted:
            return self._for_these_sizes(request, interpreted)
        try:
            if segment := self._for_all_sizes(request):
                return segment
        except NotForAllSizes as reason:
            self._symbolic.fixed.add(request.key_of_any_sizes)
            folding = self._folded(request)
            divided = may_measure(source.nodes.values()) and not isinstance(folding, FoldedGraph)
            log = self._log_divided if divided else self._log_alone
            log(source.name, reason)
            return self._of_folding(request, folding)
        except (ArtifactError, DeviceError):  # of a saved segment
            raise
        except Exception as fault:
            specialised = self._for_these_sizes(request)  # raises an error of the model's again
            self._symbolic.fixed.add(request.key_of_any_sizes)
            if isinstance(specialised, SegmentSplit) and isinstance(fault, ModelError | ShapeError):
                return specialised  # the host says so when it runs the node
            self._warn_of_fault(source.name, fault)
            return specialised
        return self._for_these_sizes(request)

    def _for_these_sizes(
        self, request: SegmentRequest, interpreted: bool = False
    ) -> Specialised | SegmentSplit | Needs:
        """The segment for the shapes of a request alone."""
        return self._of_folding(request, self._folded(request), interpreted)

    def _of_folding(
        self,
        request: SegmentRequest,
        folding: FoldedGraph | SegmentSplit | Needs,
        interpreted: bool = False,
    ) -> Specialised | SegmentSplit | Needs:
        """The segment of a graph that was folded for the shapes of a request alone."""
        if not isinstance(folding, FoldedGraph):
            return folding
        if not folding.graph.outputs:
            return StaticSegment(folding.outputs, None)
        if interpreted or is_small(folding.graph):
            return StaticSegment(folding.outputs, InterpretedGraph(folding.graph))
        module = self._module(request, folding.graph)
        return StaticSegment(folding.outputs, self._on_device(request, module))

    def _for_all_sizes(self, request: SegmentRequest) -> StaticSegment | None:
        """The segment at the request's sizes; None if it is to be compiled for these alone.

        It is compiled for all sizes at its first. Raises NotForAllSizes if it cannot be.
        """
        if parse_target(self.settings.target).backend not in SHARED_CODE:
            return None
        # a module that was saved for exactly these sizes needs no compilation
        if self.saved and request.digest in self.saved:
            return None
        key = request.key_of_any_sizes
        compilations = self._symbolic.of_request(
            request, self.saved, self._weights.copies, self.options
        )
        for segment in compilations:
            if (sizes := segment.sizes_of(request.shapes)) is not None:
                return self._at_sizes(request, segment, sizes)
        if key in self._symbolic.fixed:
            return None
        axes = symbolic_axes(request.shapes, self.symbols)
        segment = self._compiled_for_all(request, axes)
        if segment is None:
            return None
        sizes = segment.sizes_of(request.shapes)
        assert sizes is not None, "its first sizes do not meet what was assumed of them"
        self._symbolic.compiled[key].append(segment)
        return self._at_sizes(request, segment, sizes)

    def _at_sizes(
        self, request: SegmentRequest, segment: SymbolicSegment, sizes: Sizes
    ) -> StaticSegment | None:
        """The segment at some sizes; None if its kernels are not for them.

        Its module is one of the modules, to be saved.
        """
        try:
            static = segment.at(sizes)
        except NotForAllSizes as reason:
            self._log_alone(str(request), reason)
            return None
        assert isinstance(static.runner, Module)
        digest = request.digest
        self.modules[digest] = static.runner
        self._symbolic.instances[digest] = segment
        return replace(static, runner=self._on_device(request, static.runner))

    def _log_alone(self, segment: str, reason: Exception) -> None:
        """Say that a segment is compiled for each size alone, or for some, and why."""
        _LOG.warning("%s is compiled for each size alone: %s", segment, _first_line(reason))
        _LOG.debug("why it is not compiled for all sizes", exc_info=reason)

    def _log_divided(self, segment: str, reason: Exception) -> None:
        """Say that a segment is not one schedule for all that data decide, and why."""
        _LOG.warning("%s is not one schedule: %s", segment, _first_line(reason))
        _LOG.debug("why sizes are not measured in it", exc_info=reason)

    def _warn_of_fault(self, segment: str, fault: Exception) -> None:
        """Warn of an error that no segment should meet, and how to see where it arose."""
        warnings.warn(
            f"{segment} is compiled for each size alone by a fault of Flowloom's, which does not"
            f" change results: {type(fault).__name__}: {fault}; please report it, with the trace"
            " that logging.getLogger('compiler.program') writes at level DEBUG",
            SymbolicFaultWarning,
            stacklevel=2,
        )
        _LOG.debug("the fault", exc_info=fault)

    def _compiled_for_all(
        self, request: SegmentRequest, axes: Mapping[str, Shape]
    ) -> SymbolicSegment | None:
        """The segment for all sizes; None where numbers do, as it is small or has no symbols.

        Raises NotForAllSizes where it cannot be compiled for more sizes than these.
        """
        start = perf_counter()
        measures = self._measures and may_measure(request.source.nodes.values())
        while measures or any(symbols_in(axes)):
            with assuming() as assumptions:
                try:
                    folding = self._folded(request, axes)
                except (ModelError, ShapeError):  # the example size may be at fault
                    _check_measured(assumptions)
                    raise
                if not isinstance(folding, FoldedGraph) or not folding.graph.outputs:
                    return None
                if is_small(folding.graph):
                    return None
                measured = measured_by(folding.graph)
                if not measured and not any(symbols_in(axes)):
                    return None
                _check_measured(assumptions)
                if values := assumptions.in_place_of_symbols():
                    axes = with_extents(axes, values)
                    continue
                built = build_symbolic(folding.graph, self._symbolic_settings(request))
            _check_measured(assumptions)
            if pinned := assumptions.pinned():
                raise NotForAllSizes(f"{', '.join(map(str, pinned))} is taken as a number")
            built = replace(built, weights=self._weights.shared(built.weights))
            self.seconds[request.source.name] = perf_counter() - start
            names = ", ".join(dict.fromkeys([*symbols_in(axes), *measured]))
            _LOG.warning(
                "compiled %s for all sizes of %s in %.1f s",
                request,
                names,
                self.seconds[request.source.name],
            )
            return SymbolicSegment(axes, assumptions, folding.outputs, built, self.options)
        return None

    def _symbolic_settings(self, request: SegmentRequest) -> Settings:
        """The settings of a build for all sizes, whose IR is dumped to a folder of its segment."""
        dump = self.settings.dump_ir
        folder = None if dump is None else Path(dump) / f"{request.source.name}-sizes"
        return replace(self.settings, dump_ir=folder)

    def _on_device(self, request: SegmentRequest, module: Module) -> SegmentRunner:
        """A module, whose tensors stay on the device where they can."""
        if not self._has_residents:
            return module
        return ResidentModule.of(module, self._opened, request.source.reread)

    def _folded(
        self, request: SegmentRequest, axes: Mapping[str, Shape] | None = None
    ) -> FoldedGraph | SegmentSplit | Needs:
        """The graph of a segment without the outputs that need no operator.

        With `axes` its inputs have these shapes.
        """
        source = request.source
        model_part = ModelPart(list(source.nodes.values()), source.writes, source.constants)
        values = {
            name: Value(
                name,
                array.dtype.name,
                array.shape if axes is None else axes[name],
                array.copy() if (name in request.known) else None,
            )
            for name, array in request.inputs.items()
        }
        context = replace(self.context, measures=self._measures and axes is not None)
        specialised = specialise_part(model_part, values, context)
        if specialised.obstacles:
            return _split(specialised.obstacles, source, self.context)
        return folded(specialised.graph)

    def _module(self, request: SegmentRequest, graph: Graph) -> Module:
        """The compiled graph, or the saved one."""
        digest = request.digest
        if digest not in self.modules:
            saved = self.saved.get(digest)
            self.modules[digest] = (
                self._compiled(request, graph, digest)
                if saved is None
                else self._loaded(request, graph, saved)
            )
        return self.modules[digest]

    def _loaded(self, request: SegmentRequest, graph: Graph, saved: SavedSegment) -> Module:
        """The saved module of a graph; raises ArtifactError for that of another one."""
        vouch = with_sha256(saved.manifest)
        module = load_placed(saved.directory, self._weights.copies, self.options, vouch)
        computed = {name for name, _ in graph.outputs}
        folded_outputs = [name for name in request.source.writes if name not in computed]
        outputs = [tensor.name for tensor in module.outputs]
        request.check_saved(saved.directory, module.inputs, [*outputs, *folded_outputs])
        if any(tensor.shape != request.shapes[tensor.name] for tensor in module.inputs):
            raise ArtifactError(f"{saved.directory} is for other sizes: save the module again")
        return module

    def _compiled(self, request: SegmentRequest, graph: Graph, digest: str) -> Module:
        """The module of a graph; a segment's first is searched like a whole model."""
        start = perf_counter()
        count = len(graph.operators)
        first = request.source.name not in self._searched
        effort = segment_settings(self.settings, count, first=first)
        if effort is self.settings:
            self._searched.add(request.source.name)
        name = f"{request.source.name}-{digest[:8]}"
        dump = self.settings.dump_ir
        folder = None if dump is None else Path(dump) / name
        packed = frozenset(name for m in self.modules.values() for name in m.weights)
        settings = replace(effort, dump_ir=folder, packed=packed)
        built = build_variants(variants(emitted(graph), settings), settings, start)
        shared = self._weights.shared(built.weights)
        if isinstance(share := self.options.get("share"), DeviceShare):
            share.expect(memory_need(built.schedule).arena)
        module = Module.of(replace(built, weights=shared), self.options)
        self.seconds[name] = perf_counter() - start
        _LOG.warning("compiled %s in %.1f s", request, self.seconds[name])
        return module

    def drop(self, specialised: Specialised) -> None:
        """Forget the module of a specialisation."""
        if isinstance(specialised, StaticSegment):
            runner = specialised.runner
            used = runner.module if isinstance(runner, ResidentModule) else runner
            for digest, module in [*self.modules.items()]:
                if module is used:
                    del self.modules[digest]
                    self._symbolic.instances.pop(digest, None)

    @property
    def fixed_modules(self) -> Mapping[str, Module]:
        """The modules that were compiled for their sizes alone, by digest."""
        instances = self._symbolic.instances
        return {
            digest: module for digest, module in self.modules.items() if digest not in instances
        }

    @property
    def symbolic_segments(self) -> Mapping[str, SymbolicSegment]:
        """The segments that were compiled for all sizes, by the names of their folders."""
        return self._symbolic.by_folder

    @property
    def compilations(self) -> int:
        """The compilations so far: one for all sizes counts once, however many it has had."""
        return len(self.fixed_modules) + len(self.symbolic_segments)

    @property
    def memory(self) -> MemoryReport:
        """Bytes of all modules: what they share, such as equal weights, counts once."""
        executables = [module.executable for module in self.modules.values()]
        # Sizes of one bucket have the memory of that.
        owners = [e.bucket if isinstance(e, SizedExecutable) else e for e in executables]
        reports = {id(owner): owner.memory for owner in owners}.values()
        arrays = {id(a): a.nbytes for m in self.modules.values() for a in m.weights.values()}
        arenas = [0, *(report.arena - report.buffers for report in reports)]
        arena = max(arenas) if self._shares_arenas else sum(arenas)
        arena += sum(report.buffers for report in reports)
        between = 0 if self._resident is None else self._resident.pool.nbytes
        code = sum(module.memory.code for module in self.fixed_modules.values())
        code += sum(segment.code.nbytes for segment in self.symbolic_segments.values())
        return MemoryReport(sum(arrays.values()), arena + between, code)

    def close(self) -> None:
        """Release idle threads and arenas of all modules."""
        for module in self.modules.values():
            module.close()
        if self._resident is not None:
            self._resident.release()


def _check_measured(assumptions: Assumptions) -> None:
    """Raise NotForAllSizes where what was computed holds for some of the sizes measured only."""
    if condition := assumptions.on_measured():
        raise NotForAllSizes(f"{condition} holds for some data only")


def _first_line(error: Exception) -> str:
    """The beginning of an error's text, with its type unless that is one of ours."""
    line = str(error).splitlines()[0]
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."


def _split(
    obstacles: Obstacles, source: SegmentSource, context: ModelContext
) -> SegmentSplit | Needs:
    """The answer to obstacles: first about the nodes that no graph can hold.

    Raises UnsupportedOperatorError for nodes that the host does not compute either.
    """
    positions = list(source.nodes)
    askers = frozenset(positions[index] for index in obstacles.askers)
    if not obstacles.problems and not obstacles.split_at:
        return Needs(obstacles.known, askers)
    for index, problems in obstacles.problems.items():
        _check_host(source.nodes[positions[index]], problems, context)
    reasons = {
        positions[index]: "; ".join(dict.fromkeys(problem.error.reason for problem in problems))
        for index, problems in obstacles.problems.items()
    }
    return SegmentSplit(reasons, obstacles.split_at)


def _check_host(node: onnx.NodeProto, problems: Sequence[Problem], context: ModelContext) -> None:
    """Raise UnsupportedOperatorError for a node that is not computed on the host either.

    Bodies are separate programs, which are checked when they are specialised.
    """
    if node.op_type in CONTROL and not domain_of(node):
        return
    for problem in problems:
        if obstacle := host_obstacle(node, context, problem.error):
            raise UnsupportedOperatorError(
                f"1 operator cannot be compiled:\n{replace(problem, error=obstacle)}"
            )
