"""The judges of substitutions: times of the kernels that a pipeline would make."""

from compiler.autotune.substitution.measured import MeasuredTimes, Runnable
from compiler.autotune.substitution.model import SimulatedTimes
from compiler.passes.base import CostContext

__all__ = ["CostContext", "MeasuredTimes", "Runnable", "SimulatedTimes"]
