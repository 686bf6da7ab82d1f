"""The CUDA text of fused attention: constants and the kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import e, log2, prod
from typing import Any

from tvm.ir import Call, PrimType, Var
from tvm.tirx import Add, Div, FloatImm, Let, Mul, Select, analysis

from compiler.kernels.gpu.entries.sizes import runtime_constant, size_text, with_runtime_sizes
from compiler.kernels.gpu.epilogue import Parameter, StoreFunction, c_type, value_function
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import (
    DEVICE,
    constants,
    function_parameters,
    kernel,
    struct,
    value_struct,
)
from compiler.kernels.gpu.templates.attention.config import (
    Config,
    ahead,
    loads_early,
    resident_blocks,
    shared_bytes,
)
from compiler.kernels.gpu.templates.attention.problem import (
    EIGHT,
    FOUR,
    Problem,
    in_chunks,
    matrix_strides,
)
from compiler.kernels.gpu.templates.attention.rounding import (
    Rounding,
    as_float,
    of_type,
    rounding_of,
)
from compiler.kernels.gpu.templates.attention.wgmma import (
    STAGES,
    wgmma_resident,
    wgmma_shared_bytes,
)
from compiler.kernels.group import Group
from compiler.kernels.sizes import is_number
from compiler.kernels.template import KernelSource
from compiler.kernels.tir.attention import score_context, scores_at
from compiler.kernels.tir.loops import variable
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.arithmetic import ceil_div
from compiler.tensors.extents import Extent, NotForAllSizes
from compiler.tensors.strides import StridedWindow


@dataclass(frozen=True)
class ScoreForm:
    """The factor of an element of Q K^T in the argument of the softmax, 0 for other functions of
    it, and whether something is added that does not depend on it."""

    scale: float
    shifted: bool = False


@dataclass(frozen=True)
class Emitter:
    """Writes the CUDA text of one attention; `extremes` are the buffers of its range, if any."""

    group: Group
    problem: Problem
    target: GpuTarget
    config: Config
    extremes: tuple[int, ...] = ()

    def kernel(self) -> KernelSource:
        """The whole kernel."""
        score, form = self._score()
        rounding = rounding_of(self.group, self.problem.attention, self.target)
        entry, launch = self._launched(score, rounding.finished, self._is_early(form))
        text = "\n".join(
            [
                header("instructions"),
                header("attention"),
                *map(header, self._own_headers()),
                score.text,
                rounding.text,
                self._constants(form, rounding),
                value_struct("Score", score, "int outer, int row, int column, float dot"),
                self._fold(rounding.finished),
                entry,
            ]
        )
        flops = 2 * self.problem.attention.sizes.multiplications
        source = KernelSource(text, (launch,), flops=flops)
        return source if self.problem.sized is None else with_runtime_sizes(source, self.group)

    def _text(self, extent: Extent) -> str:
        """The C expression of an extent."""
        return size_text(extent, self.group)

    def launch(self) -> Launch:
        """The launch without its arguments."""
        exact = self.problem.exact
        blocks = ceil_div(exact.rows, self.config.rows)
        grid = (blocks, exact.batch, max(1, self.config.splits))
        needed = wgmma_shared_bytes if self.config.wgmma else shared_bytes
        shared = needed(self.problem, self.config)
        return Launch(f"{self.group.name}_0", (), grid, (self.config.threads, 1, 1), shared)

    def _own_headers(self) -> tuple[str, ...]:
        """The headers besides those of all attentions."""
        runtime = () if self.problem.sized is None else ("runtime_lengths",)
        if self.config.wgmma:
            tiles = ("runtime_key_tiles",) if runtime else ()
            plain = ("staged_attention", "warpgroups", "wgmma_registers", "wgmma_attention")
            return (*plain, *runtime, *tiles)
        return ("staged_attention",) if self.config.staged else runtime

    def _score(self) -> tuple[StoreFunction, ScoreForm]:
        """The argument of the softmax, and its form."""
        attention, operators = self.problem.exact.attention, self.group.operators
        scores = operators[attention.softmax].operand(0)
        context = score_context(self.group, attention)
        if context.symbols != self.group.symbols:
            raise NotForAllSizes("no symbolic kernel: scores have other sizes than their attention")
        z, row, column = place = [variable(name) for name in ("outer", "row", "column")]
        value = Var("value", PrimType("float32"))
        batch = scores_at(self.group, attention, z // self.problem.slices)
        at = [*batch, row, column]
        dtype = self.group.values[scores].dtype
        element = context.element(scores, at, of_type(value, context))
        score = as_float(_computed_first(element, dtype), dtype)
        name = f"{self.group.name}_score"
        function = value_function(name, context, score, [*place, value], self.target)
        return function, score_form(score, value)

    def _is_early(self, form: ScoreForm) -> bool:
        """Whether what is added to scores is loaded before keys arrive."""
        plain = self.config.staged > 0 and not self.config.wgmma
        return form.shifted and plain and loads_early(self.problem, self.config, self.target)

    def _launched(
        self, score: StoreFunction, finished: StoreFunction | None, early: bool
    ) -> tuple[str, Launch]:
        """The kernel's entry point, and its launch."""
        *sources, result = (o.source for o in self.problem.operands)
        kinds = [c_type(self.group.values[source].dtype) for source in (*sources, result)]
        parameters = [
            Parameter(f"const {kind}*", name, source)
            for kind, name, source in zip(kinds, "qkv", sources, strict=False)
        ]
        parameters.append(Parameter(f"{kinds[3]}*", "o", len(self.group.reads)))
        parameters += function_parameters(score, "buffer")
        limits = function_parameters(finished, "limit") if finished else []
        parameters += limits
        keep = self.problem.attention.value.keep
        parameters += [] if keep is None else [Parameter("const bool*", "keep", keep)]
        folded = zip(("low", "high"), self.extremes, strict=False)
        parameters += [Parameter("float*", name, number) for name, number in folded]
        form = "attend"
        bounds = f"{self.config.threads}"
        if self.config.staged:
            held = wgmma_resident if self.config.wgmma else partial(resident_blocks, early=early)
            resident = held(self.problem, self.config, self.target)
            form = "attend_staged"
            bounds = f"{bounds}, {resident}"
        form = "attend_by_wgmma" if self.config.wgmma else form
        made = [] if finished is None else [f"Finished{{{', '.join(own.name for own in limits)}}}"]
        made += ["low", "high"] if self.extremes else []
        objects = f"Score{{{', '.join(score.names)}}}, Fold{{{', '.join(made)}}}"
        passed = f"q, k, v, o, {objects}{'' if keep is None else ', keep'}"
        call = f"{form}<Problem>({passed})"
        return kernel(self.launch(), parameters, call, bounds, self.config.splits)

    def _fold(self, finished: StoreFunction | None) -> str:
        """The struct that finishes results, and folds them as they are stored, for a range."""
        kind = c_type(self.group.values[self.problem.operands[3].source].dtype)
        members = [] if finished is None else ["  Finished finish;"]
        members += ["  float *low, *high;"] if self.extremes else []
        value = "x" if finished is None else "finish(x)"
        body = [
            "#pragma unroll",
            "    for (int i = 0; i < 4; i++)",
            f"      if (const float x = ({kind})four[i]; i < valid)",
            "        *low = flowloom_minimum(*low, x), *high = flowloom_maximum(*high, x);",
        ]
        return struct(
            "Fold",
            [
                *members,
                f"  {DEVICE} float finished(float x) const {{ return {value}; }}",
                f"  {DEVICE} void operator()(const float (&four)[4], int valid) const {{",
                *(body if self.extremes else []),
                "  }",
            ],
        )

    def _constants(self, form: ScoreForm, rounding: Rounding) -> str:
        query, key, value, _ = self.problem.operands
        factor, of_values = query.factor * key.factor, value.factor * rounding.factor
        scale = 0.0 if form.shifted else form.scale
        stages = self._stages(factor * scale) if self.config.staged else {}
        scalars = self._sizes() | self._vectors() | stages
        lines = constants(scalars)
        lines += [f"  static constexpr int64_t {name} = {n};" for name, n in self._strides()]
        for letter, operand in (("Q", query), ("K", key)):
            floor = float(operand.norm_floor or 0)
            norm = {f"{letter}_NORM": operand.norm_floor is not None, f"{letter}_FLOOR": floor}
            lines += constants(norm)
        lines += constants({"FACTOR": float(factor), "V_FACTOR": float(of_values)})
        if self.config.staged:
            scale = log2(e) * (factor * scale if factor * scale > 0 else 1)
            lines += constants(
                {
                    "LOG2_SCALE": scale,
                    "SHIFTED": self._is_early(form),
                    "SHIFTED_SCALE": factor * form.scale,
                }
            )
        lines += [
            f"  __device__ static __forceinline__ int64_t {letter}_offset(int z)"
            f" {{ return {batch_offset(operand.window, self._text)}; }}"
            for letter, operand in zip("qkvo", self.problem.exact.operands, strict=True)
        ]
        parts = ["struct Problem {", *self._lengths(), *lines, rounding.member, "};"]
        return "\n".join([*parts, *self._specialised(), ""])

    def _lengths(self) -> list[str]:
        """The rows and the keys: numbers, or objects that become those of a run."""
        lines: list[str] = []
        exact = self.problem.exact
        for name, extent in (("ROWS", exact.rows), ("COLUMNS", exact.columns)):
            if is_number(extent):
                lines.append(f"  static constexpr int {name} = {extent};")
            else:
                lines += runtime_constant(name, extent, self.group)
        return lines

    def _specialised(self) -> list[str]:
        """The tiles of a problem whose keys a run decides."""
        if is_number(self.problem.exact.columns):
            return []
        tiles = ("SharedTiles", "KeyTiles") if self.config.wgmma else ("WarpTiles",)
        return [f"template <>\nstruct {x}<Problem> : Runtime{x}<Problem> {{}};" for x in tiles]

    def _sizes(self) -> dict[str, Any]:
        problem, config = self.problem, self.config
        return {
            "DEPTH": problem.depth,
            "WIDTH": problem.width,
            "PRECISION": problem.precision.upper(),
            "TILES": config.tiles,
            "WARPS": config.warps,
            "BANDS": config.bands,
            "SPLITS": max(1, config.splits),
            "PAIRS": int(problem.pairs),
            "MASKED": int(problem.attention.value.keep is not None),
            "ROUNDED": int(problem.rounded),
        }

    def _vectors(self) -> dict[str, Any]:
        """Whether operands are loaded as vectors of 4, and copied as vectors of 8 where staged."""
        vectors: dict[str, int] = {}
        sizes = {"VECTOR8": EIGHT, "VECTOR4": FOUR} if self.config.staged else {"VECTOR4": FOUR}
        for name, size in sizes.items():
            for letter, operand in zip("QKVO", self.problem.exact.operands, strict=True):
                inner = -2 if letter == "K" else -1
                vectors[f"{letter}_{name}"] = int(in_chunks(operand.window, inner, size))
        return vectors

    def _stages(self, scale: float) -> dict[str, Any]:
        rounds = ahead(self.problem, self.config)
        stages = {"KEYS": self.config.staged, "AHEAD": rounds, "SCALED": int(scale > 0)}
        more = {"STAGES": STAGES} if self.config.wgmma else {}
        return stages | more

    def _strides(self) -> Iterator[tuple[str, int]]:
        for letter, operand in zip("QKVO", self.problem.exact.operands, strict=True):
            row, column = matrix_strides(operand)
            yield f"{letter}_ROW", row
            yield f"{letter}_COLUMN", column


def _computed_first(score: Any, dtype: str) -> Any:
    """A choice between a value and a constant with the value computed before the condition is
    known: otherwise what it loads would wait for what the condition loads."""
    if not isinstance(score, Call) or getattr(score.op, "name", "") != "prim.if_then_else":
        return score
    condition, value, constant = score.args
    if not isinstance(constant, FloatImm):
        return score
    held = Var("held", PrimType(dtype))
    return Let(held, value, Select(condition, held, constant))


def score_form(score: Any, value: Var) -> ScoreForm:
    """The form of a score by the element of Q K^T."""
    if isinstance(score, Add):
        for product, shift in ((score.a, score.b), (score.b, score.a)):
            if (scale := _scale(product, value)) and not _reads(shift, value):
                return ScoreForm(scale, shifted=True)
    return ScoreForm(_scale(score, value))


def _reads(expression: Any, value: Var) -> bool:
    """Whether a variable is in an expression."""
    return any(part.same_as(value) for part in analysis.undefined_vars(expression))


def _scale(score: Any, value: Var) -> float:
    """A score's factor if it is the element of Q K^T times a constant; else 0."""
    if score.same_as(value):
        return 1.0
    if isinstance(score, Mul | Div) and score.a.same_as(value) and isinstance(score.b, FloatImm):
        other = float(score.b.value)
        return other if isinstance(score, Mul) else 1 / other if other else 0.0
    return 0.0


def batch_offset(window: StridedWindow, text: Callable[[Extent], str] = str) -> str:
    """The offset of problem z of a window, as a C expression; `text` gives that of an extent."""
    terms = [str(window.offset)] if window.offset else []
    inner = prod(window.shape[:-2])
    for extent, stride in chain.from_iterable(window.axes[:-2]):
        inner //= extent
        if stride:
            terms.append(f"(int64_t)(z / {text(inner)} % {text(extent)}) * {text(stride)}")
    return " + ".join(terms) or "0"
