"""The base of passes: their two kinds, the context, and the adapter to plain scheduling."""

from compiler.passes.base.kinds import CostContext, GraphPass, PassContext, SchedulePass

__all__ = ["CostContext", "GraphPass", "PassContext", "SchedulePass"]
