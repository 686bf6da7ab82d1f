"""Nodes that run on the host: a registry of numpy functions by operator."""

from compiler.program.host.node import HostNode, constant_of, runs_on_host
from compiler.program.host.registry import HostValue

__all__ = ["HostNode", "HostValue", "constant_of", "runs_on_host"]
