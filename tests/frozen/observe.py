"""What the compiler makes of one case for one target, as hashes of texts that are kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import compiler
from compiler.errors import FlowloomError
from tests.frozen.cases import TARGETS, loaded, with_constants
from tests.frozen.hooks import SCHEDULE_TEXT, Observer, fetched
from tests.frozen.store import short_hash

LAUNCH = ("args", "grid", "block", "shared_bytes", "programmatic")
"""The recorded fields of a launch."""

PARTS = ("kernels", "code", "schedule", "weights", "outcome")

KERNEL = ("packings", "workspaces", "flops", "traffic_bytes", "serial_ns", "estimated_ns")
"""The recorded fields of a kernel besides its text and launches."""


@dataclass(frozen=True)
class Observed:
    """The hashes of a compiled module, or an `outcome` that says why there is not exactly one.

    `kernels`, `code` (a CPU's) and `names`, which are not compared, are in the order in which the
    schedule uses kernels first.
    """

    kernels: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    schedule: str = ""
    weights: str = ""
    outcome: str = ""
    names: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, str]:
        """The parts that are compared and recorded, those that are empty left out."""
        texts = {part: getattr(self, part) for part in PARTS}
        texts |= {part: " ".join(texts[part]) for part in ("kernels", "code")}
        return {part: text for part, text in texts.items() if text}

    @classmethod
    def of(cls, parts: Mapping[str, str]) -> "Observed":
        """What was recorded as parts."""
        kernels, code = (tuple(parts.get(part, "").split()) for part in ("kernels", "code"))
        schedule, weights, outcome = (parts.get(part, "") for part in PARTS[2:])
        return cls(kernels, code, schedule, weights, outcome)


def observe(name: str, target: str, observer: Observer) -> list[Observed]:
    """Compile a case for a target by its name here: its module, or a program's, or an outcome."""
    observer.modules.clear()
    observer.runs = False
    model, inputs = loaded(name)
    try:
        outcome = "" if _compile(model, inputs, target, observer) else "program"
    except FlowloomError as error:
        outcome = f"refused by {type(error).__name__}"
    except Exception as error:  # a defect, which is reported as a difference
        outcome = f"{type(error).__name__}: {error}".splitlines()[0]
    modules = [_observed_module(module, observer) for module in observer.modules]
    return [*modules, Observed(outcome=outcome)] if outcome else modules


def _compile(model: Any, inputs: Any, target: str, observer: Observer) -> bool:
    """Compile a model; whether it is one module.

    A program is run on the CPU to compile it, and compiled once more with constants for inputs.
    """
    budget = None if target == "hip" else 0.0
    options: dict[str, Any] = {"target": TARGETS[target], "budget": budget, "semantics": "onnx"}
    made = compiler.compile(model, cache=False, **options)
    if isinstance(made, compiler.Module):
        return True
    fixed, free = with_constants(model, inputs)
    if len(free) < len(inputs):
        compiler.compile(fixed, cache=False, **options)
    if target == "cpu":
        observer.runs = True
        names = [spec.name for spec in made.inputs]
        made.run(dict(zip(names, inputs, strict=False)))
    return False


def _observed_module(module: Any, observer: Observer) -> Observed:
    """The hashes of a compiled module."""
    used = (task.kernel for task in _tasks(module.schedule))
    order = dict.fromkeys(name for name in used if name in module.kernels)
    contents = {name: kernel_content(module.kernels[name], observer) for name in order}
    hashes = {name: observer.store.add(content) for name, content in contents.items()}
    first = {content: name for name, content in reversed(hashes.items())}
    names = [name for name, content in hashes.items() if first[content] == name]
    schedule = fetched(SCHEDULE_TEXT)(module.schedule)
    for name, content in hashes.items():
        number = names.index(first[content])
        schedule = schedule.replace(f'"{name}"', f'"kernel {number}"')
    codes = [observer.code_hash(module.kernels[name]) for name in names]
    return Observed(
        kernels=tuple(hashes[name] for name in names),
        code=tuple(codes) if any(codes) else (),
        names=tuple(names),
        schedule=observer.store.add(schedule),
        weights=observer.store.add("\n".join(map(_array_line, sorted(module.weights.items())))),
    )


def _tasks(schedule: Any) -> Any:
    """All tasks of a schedule and of its bodies."""
    for task in schedule.tasks:
        yield task
        for body in task.control.bodies if task.control else ():
            yield from _tasks(body)


def kernel_content(kernel: Any, observer: Observer) -> str:
    """All that decides the results and the speed of a kernel, as lines before its text."""
    lines = [f"{field}: {json.dumps(getattr(kernel, field))}" for field in KERNEL]
    for launch in kernel.launches:
        fields = {field: getattr(launch, field) for field in LAUNCH}
        lines.append(f"launch: {json.dumps(fields | {'indirect': bool(launch.indirect)})}")
    return "\n".join([*lines, observer.text_of(kernel)])


def _array_line(named: tuple[str, Any]) -> str:
    """A packed weight on one line."""
    name, array = named
    plain = np.ascontiguousarray(array)
    return f"{name} {plain.dtype} {plain.shape} {short_hash(plain.tobytes())}"
