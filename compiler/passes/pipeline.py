"""The default pipeline, and pipelines as texts: parsed, and with other passes."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from xdsl.passes import ModulePass, get_pass_option_infos
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from compiler.errors import PipelineError, ScheduleError
from compiler.passes.base import GraphPass
from compiler.passes.user import known_passes
from compiler.support.caches import read_regular

LOWERING = "lower-to-taskflow"
"""The pass that replaces groups by kernel launches."""


LOWER_QUANTISED = "lower-quantised"
"""The pass that contracts quantised operands in a way, its option; that of the target without."""


def default_pipeline(partition: str = "policy=none", streams: int = 4) -> str:
    """The default pipeline, with the given options of `partition-graph` and number of streams."""
    return f"""
    lower-quantised,
    conv-to-gemm,
    canonicalize,
    fuse-group-norm,
    order-scatters,
    substitute,
    batch-gemv,
    fuse-siblings,
    fuse-attention,
    fuse-squeeze-excite,
    fuse-ranges,
    fuse-gathers,
    fuse-operators,
    fuse-channels-last,
    fuse-depthwise-pointwise,
    reduce-precision,
    assign-layouts,
    emplace-concats,
    fold-ranges,
    share-kernels,
    partition-graph{{{partition}}},
    assign-streams{{policy=opara streams={streams}}},
    order-launches{{policy=critical-path}},
    keep-weights,
    lower-to-taskflow,
    insert-sync,
    elide-sync,
    plan-memory{{reuse=concurrent}}
"""


DEFAULT_PIPELINE = default_pipeline()
"""From the imported model to the schedule. Kernels are built before the first schedule pass."""


def parse(spec: str) -> tuple[ModulePass, ...]:
    """The passes of a pipeline such as `fuse-operators,partition-graph{policy=ppd max-nodes=8}`.

    White space around commas does not matter. Raises PipelineError for an unknown pass or option.
    """
    return _parsed(spec, tuple(known_passes().items()))


@lru_cache(maxsize=64)
def _parsed(spec: str, known: tuple[tuple[str, type[ModulePass]], ...]) -> tuple[ModulePass, ...]:
    """The passes of a pipeline, which cannot be changed: a compilation asks for them ten times."""
    try:
        text = re.sub(r"\s*,\s*", ",", spec.strip())
        # xDSL reads `40..120` only in quotes; texts that have some stay as they are.
        pieces = re.split(r'("[^"]*")', text)
        pieces[::2] = [re.sub(r"=(\d+\.\.\d+)", r'="\1"', piece) for piece in pieces[::2]]
        specs = list(parse_pipeline("".join(pieces)))
    # It derives from BaseException: an `except Exception` would let it pass.
    except ArgSpecParseError as error:
        raise PipelineError(f"the pipeline {spec.strip()!r} cannot be parsed: {error}") from None
    passes: list[ModulePass] = []
    kinds = dict(known)
    for step in specs:
        if step.name not in kinds:
            raise PipelineError(
                f"unknown pass {step.name!r}; the passes are {', '.join(kinds)}, or your own"
                " (passes=[...], --pass FILE.py:CLASS)"
            )
        try:
            passes.append(kinds[step.name].from_spec(step))
        except Exception as error:
            options = ", ".join(option_names(kinds[step.name])) or "none"
            raise PipelineError(
                f"pass '{step}': {first_line(error)}; the options of {step.name} are {options}"
            ) from error
    return tuple(passes)


def without_pass(spec: str, name: str) -> str:
    """A pipeline without the passes of a name."""
    return ",".join(str(step.spec()) for step in parse(spec) if step.name != name)


def with_decisions(spec: str, decided: Mapping[str, str | None]) -> str:
    """A pipeline with the decided specs of its passes; without those of None, which did nothing."""
    specs = [decided.get(text := str(step.spec()), text) for step in parse(spec)]
    return ",".join(decision for decision in specs if decision is not None)


def option_names(kind: type[ModulePass]) -> list[str]:
    """The options of a pass in pipeline notation, with their defaults or types."""
    infos = get_pass_option_infos(kind)
    return [f"{i.name.replace('_', '-')}={i.default_value or i.expected_type}" for i in infos]


def with_schedule(pipeline: str, file: str | os.PathLike[str]) -> str:
    """A pipeline that applies the constraints, or imports the schedule, of a file.

    Raises ScheduleError for a file that holds neither.
    """
    path = os.fspath(file)
    try:
        kind = json.loads(read_regular(path))["format"]
    except OSError as error:
        raise ScheduleError(f"cannot read the schedule {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ScheduleError(
            f"{path} is neither a schedule.json nor constraints ({error}): `flowloom report DIR"
            " --constraints` writes some"
        ) from None
    if any(character in path for character in '"\\\n'):
        raise ScheduleError(f"the path {path!r} has a quote or a backslash: rename the file")
    specs = [str(step.spec()) for step in parse(pipeline)]
    if kind == "flowloom-schedule":
        return ",".join([*specs, f'import-schedule{{file="{path}"}}'])
    if kind != "flowloom-constraints" or LOWERING not in specs:
        raise ScheduleError(
            f"{path} has format {kind!r}; it must be 'flowloom-schedule', or 'flowloom-constraints'"
            " and the pipeline must hold lower-to-taskflow"
        )
    specs.insert(specs.index(LOWERING) + 1, f'apply-constraints{{file="{path}"}}')
    return ",".join(specs)


def split_phases(passes: Sequence[ModulePass]) -> tuple[list[ModulePass], list[ModulePass]]:
    """The passes before and after kernels are built: up to the last graph pass, and the rest.

    Raises PipelineError for a graph pass after `lower-to-taskflow`.
    """
    count = max((i + 1 for i, p in enumerate(passes) if isinstance(p, GraphPass)), default=0)
    if any(step.name == LOWERING for step in passes[:count]):
        raise PipelineError(
            f"pass '{passes[count - 1].spec()}' decides what kernels compute and comes after"
            f" {LOWERING}, where there are only kernels: move it before partition"
        )
    return list(passes[:count]), list(passes[count:])


def check_used(names: Iterable[str], pipeline: str | None) -> None:
    """Raise PipelineError if a pipeline does not name one of the user's passes."""
    used = {step.name for step in parse(DEFAULT_PIPELINE if pipeline is None else pipeline)}
    if unused := [name for name in names if name not in used]:
        raise PipelineError(
            f"the pipeline does not name your pass '{unused[0]}': write a pipeline that has it"
            " where it must run (`flowloom passes` prints the default one)"
        )


def first_line(error: BaseException) -> str:
    """The message of an error; xDSL's errors append the whole module to it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^-|\t")]
    carets = [line.strip(" ^|-") for line in str(error).splitlines() if "^^^" in line]
    message = next((line for line in carets if line), lines[-1] if lines else type(error).__name__)
    return message[:500]
