"""The IR after each step of a compilation, and the first step whose IR computes something else."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from compiler.backends.memory import Array
from compiler.frontend.interpreter import interpret
from compiler.ir import dataflow
from compiler.passes.runner import Snapshot
from compiler.tools.checking.groups import as_double
from compiler.tools.comparison import Comparison, compare

NARROW_REFERENCES = {"float16": "fp16", "bfloat16": "bf16"}
"""The precision of a reference whose floats have 16 bits."""


@dataclass
class StepRecorder:
    """Keeps a copy of the IR after each step until tensors become memory; one list a build."""

    builds: list[list[Snapshot]] = field(default_factory=list[list[Snapshot]])

    def watch(self, snapshot: Snapshot) -> None:
        """Keep a copy of the IR after a step."""
        if snapshot.name == "import":
            self.builds.append([])
        if any(isinstance(op, dataflow.GraphOp) for op in snapshot.module.ops):
            self.builds[-1].append(replace(snapshot, module=snapshot.module.clone()))

    def steps(self, kernels: Mapping[str, object]) -> list[Snapshot]:
        """The steps of the build that made some kernels; else those of the last one."""
        for steps in self.builds:
            built = [step for step in steps if step.name == "kernels"]
            if built and kernels.keys() <= _kernels_of(built[0]):
                return steps
        return self.builds[-1] if self.builds else []


def _kernels_of(step: Snapshot) -> set[str]:
    groups = (op for op in step.module.walk() if isinstance(op, dataflow.GroupOp))
    return {group.kernel.data for group in groups if group.kernel is not None}


def difference_after(
    step: Snapshot, inputs: Mapping[str, Array], expected: Mapping[str, Array]
) -> Comparison:
    """The outputs of a step's IR in float64 against the reference's."""
    outputs = interpret(step.module, step.weights, inputs, precise=True)
    return compare_doubles(outputs, expected)


def compare_doubles(
    outputs: Mapping[str, Array], expected: Mapping[str, Array], precision: str | None = None
) -> Comparison:
    """Compare by values, whatever the float types; by default in the precision of the reference."""
    narrow = {NARROW_REFERENCES.get(array.dtype.name) for array in expected.values()} - {None}
    chosen = precision or next(iter(sorted(filter(None, narrow))), "fp32")
    got = {name: as_double(outputs[name]) for name in expected if name in outputs}
    return compare(got, {name: as_double(array) for name, array in expected.items()}, chosen)


def first_wrong_step(
    steps: list[Snapshot], inputs: Mapping[str, Array], expected: Mapping[str, Array]
) -> tuple[Snapshot, Comparison] | None:
    """The first step whose IR differs from the reference, by bisection; None if the last agrees.

    A step is taken to stay wrong after the pass that broke it.
    """
    if not steps or (last := difference_after(steps[-1], inputs, expected)).passed:
        return None
    low, high, difference = 0, len(steps) - 1, last
    while low < high:
        middle = (low + high) // 2
        compared = difference_after(steps[middle], inputs, expected)
        if compared.passed:
            low = middle + 1
        else:
            high, difference = middle, compared
    return steps[high], difference


def worst_of(comparison: Comparison) -> str:
    """The first output that is beyond its bound, in words."""
    return str(next(one for one in comparison.differences if not one.passed))


def operators_after(step: Snapshot, most: int = 12) -> tuple[str, ...]:
    """The types of a step's operators, in order; none if there are more than a reader takes in."""
    types = [op.type_name for op in step.module.walk() if isinstance(op, dataflow.OperatorOp)]
    return tuple(types) if len(types) <= most else ()
