"""The errors that users may catch; messages name the thing at fault and the remedy."""

import re

COMPILED_IN = (
    "an initializer is compiled in, unless `overridable` of flowloom.compile names it"
    " (--overridable on the command line)"
)
"""The remedy for inputs that a module does not know."""

THIS_RUN = "correct the model or the inputs of this run"
"""The remedy of a RunInputError."""


LONGEST_WORD = 400
"""The characters of a word of a message that are kept: a model may have names of any length."""


class FlowloomError(Exception):
    """Base of every error that Flowloom raises on purpose; long names in messages are shortened."""

    def __init__(self, *args: object):
        super().__init__(*(_LONG.sub(_shortened, a) if isinstance(a, str) else a for a in args))


_LONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def _shortened(word: re.Match[str]) -> str:
    return f"{word[0][: LONGEST_WORD // 2]}...{word[0][-LONGEST_WORD // 4 :]}"


class SemanticsWarning(UserWarning):
    """A node follows the ONNX text where onnxruntime computes something else, not by rounding only.

    The message names the node and the rule, and says how to choose; see docs/differences.md.
    """


class SymbolicFaultWarning(UserWarning):
    """A fault of Flowloom's kept a segment from being compiled for all sizes; results are right.

    The segment is compiled for each size alone, which takes longer. The message names it and the
    error; please report both.
    """


class ArgumentError(FlowloomError, TypeError):
    """An argument of a public function has a wrong type; the message names the right one."""


class ModelError(FlowloomError):
    """The model cannot be read: not ONNX, truncated, invalid, or its external data is missing."""


class UnsupportedOperatorError(FlowloomError):
    """Operators cannot be compiled; the message lists all of them."""


class ShapeError(FlowloomError):
    """A tensor's name, shape or dtype does not fit the model."""


class InvalidArgument(ShapeError, ValueError, RuntimeError):
    """An argument of a session's call does not fit its model.

    The name is onnxruntime's, and scripts for that catch this error, too.
    """


class ProviderError(ArgumentError, ValueError):
    """The providers of a session, or their options, are not lists of names and of dicts.

    It is a ValueError, too, which is onnxruntime's error for these.
    """


class MissingExtraError(FlowloomError, ImportError):
    """An optional package is missing; the message names the extra that installs it."""


class OpenShapeError(ShapeError):
    """A dimension is known only at run time, where a static shape is needed."""


class InputDataError(FlowloomError):
    """A number in the input data is invalid: an index is out of its tensor's range."""


class RunInputError(ShapeError, InputDataError):
    """A node does not fit the shapes, or the numbers that decide shapes, that a run gives it."""


class PipelineError(FlowloomError):
    """A pass or an option is unknown, or a pass failed; the message names the pass."""


class ScheduleError(FlowloomError):
    """A schedule is invalid: two tasks touch the same bytes without an order between them."""


class KernelError(FlowloomError):
    """A kernel could not be generated or compiled; the message names the group and its nodes."""


class DeviceError(FlowloomError):
    """A device, a driver or an instruction set is missing, or a device call failed."""


class ArtifactError(FlowloomError):
    """A saved artifact is missing, truncated, edited, or was written by another format version."""


class DifferenceError(FlowloomError):
    """A kernel computed something other than its operators say; see `compile(check=True)`."""


class ClusterError(FlowloomError):
    """A Ray cluster cannot be reached, has no GPU, or its nodes differ or die too often."""
