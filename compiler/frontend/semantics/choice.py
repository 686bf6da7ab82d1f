"""The choice between the ONNX text and onnxruntime, for all rules or by rule."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import currentframe

from compiler.errors import ArgumentError, SemanticsWarning
from compiler.frontend.node import ModelNode
from compiler.frontend.semantics.rule import SemanticsRule
from compiler.frontend.semantics.table import SEMANTICS_RULES
from compiler.net.operators import ShapeMismatch
from compiler.support.arguments import WAYS, closest_name

OTHER_RULES = "*"
"""The key of the choice for all rules that are not listed."""

_NAMES = [rule.name for rule in SEMANTICS_RULES]
_BY_OPERATOR = {
    op_type: tuple(rule for rule in SEMANTICS_RULES if op_type in rule.operators)
    for op_type in sorted({op_type for rule in SEMANTICS_RULES for op_type in rule.operators})
}


def _checked(rule: str, way: object) -> tuple[str, str]:
    """A rule's name, or OTHER_RULES, and its way; raises ArgumentError for an unknown one."""
    if rule != OTHER_RULES and rule not in _NAMES:
        raise ArgumentError(
            f"semantics names the unknown rule {rule!r}: {closest_name(rule, _NAMES)}"
        )
    if way not in WAYS:
        raise ArgumentError(
            f"semantics of {'all rules' if rule == OTHER_RULES else rule} is {way!r}: it is"
            f" {' or '.join(map(repr, WAYS))}"
        )
    return rule, str(way)


@dataclass(frozen=True)
class Semantics:
    """Whose results a model has; a node that meets a rule without a choice follows the ONNX text.

    A SemanticsWarning names such a node, once for each rule.
    """

    ways: Mapping[str, str] = field(default_factory=dict[str, str])
    """The choices by rule; OTHER_RULES stands for those that are not listed."""
    _warned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]], compare=False)

    @classmethod
    def parse(cls, given: str | Mapping[str, str] | None) -> "Semantics":
        """From the argument of `compiler.compile`; raises ArgumentError.

        A text is one way for all rules, or has RULE=WAY for some, separated by commas.
        """
        if isinstance(given, str):
            items = [item.strip().rpartition("=") for item in given.split(",")]
            for rule, _, way in items:
                if not rule and way in _NAMES:
                    raise ArgumentError(
                        f"semantics names the rule {way!r} without a way: write {way}=onnx or"
                        f" {way}=onnxruntime"
                    )
            rules = [rule.strip() or OTHER_RULES for rule, _, _ in items]
            if twice := next((rule for rule in rules if rules.count(rule) > 1), None):
                named = "all rules" if twice == OTHER_RULES else twice
                raise ArgumentError(f"semantics chooses a way for {named} twice: name it once")
            given = dict(zip(rules, (way.strip() for _, _, way in items), strict=True))
        return cls(dict(_checked(rule, way) for rule, way in (given or {}).items()))

    def way(self, rule: SemanticsRule) -> str | None:
        """The way of a rule; None if nobody chose."""
        return self.ways.get(rule.name, self.ways.get(OTHER_RULES))

    @property
    def has_warned(self) -> bool:
        """Whether a node met a rule without a choice."""
        return bool(self._warned)

    def __str__(self) -> str:
        """The text that `parse` reads; empty without a choice."""
        return ",".join(
            way if rule == OTHER_RULES else f"{rule}={way}"
            for rule, way in sorted(self.ways.items())
        )

    def followed(self, node: str, use: ModelNode) -> list[SemanticsRule]:
        """The rules that a node meets and in which it follows onnxruntime.

        Raises ShapeMismatch for a node that the ONNX text refuses, unless it follows onnxruntime.
        """
        met = [rule for rule in _BY_OPERATOR.get(use.op_type, ()) if rule.meets(use)]
        for rule in met:
            way = self.way(rule)
            if rule.refuses and way != "onnxruntime":
                raise ShapeMismatch(f"{rule.difference} ({rule.reason}): {rule.remedy}")
            if way is None:
                self.warn(node, use.op_type, rule)
        return [rule for rule in met if self.way(rule) == "onnxruntime"]

    def warn(self, node: str, op_type: str, rule: SemanticsRule, detail: str = "") -> None:
        """Warn, once, that a node follows the ONNX text where onnxruntime differs.

        A `detail` says what of the node meets the rule.
        """
        if (node, rule.name) in self._warned:
            return
        self._warned.add((node, rule.name))
        warnings.warn(
            f"{op_type} {node!r} meets the rule {rule.name}: {rule.difference}"
            f" ({detail and f'{detail}; '}{rule.reason}); {rule.remedy}",
            SemanticsWarning,
            stacklevel=_caller(),
        )


ONNX = Semantics({OTHER_RULES: "onnx"})
"""The ONNX text, without warnings."""

PYTORCH = {rule.name: rule.pytorch for rule in SEMANTICS_RULES if rule.pytorch}
"""The semantics of a model that PyTorch exports."""


def rules_of(op_type: str) -> tuple[SemanticsRule, ...]:
    """The rules that nodes of an operator may meet."""
    return _BY_OPERATOR.get(op_type, ())


def _caller() -> int:
    """The level of the first frame outside of this package, seen from the function that calls."""
    inside = (__name__.partition(".")[0], "contextlib")  # whose decorators call our functions
    frame = currentframe()
    level = 0
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in inside:
        frame = frame.f_back
        level += 1
    return level
