"""The choice of a GPU module's schedule and execution mode: measured, else predicted by a model."""

from compiler.choice.decision import DEFAULT_BUDGET, Decision, Request, decide

__all__ = ["DEFAULT_BUDGET", "Decision", "Request", "decide"]
