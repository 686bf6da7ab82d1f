"""Nodes that run on the host: registered functions by operator, and the interpreter's."""

from compiler.program.host.node import (
    HostNode,
    constant_of,
    host_obstacle,
    obstacle_on_host,
    only_on_host,
    runs_on_host,
)
from compiler.program.host.registry import HostMap, HostValue

__all__ = [
    "HostMap",
    "HostNode",
    "HostValue",
    "constant_of",
    "host_obstacle",
    "obstacle_on_host",
    "only_on_host",
    "runs_on_host",
]
