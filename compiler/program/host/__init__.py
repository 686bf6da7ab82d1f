"""Nodes that run on the host: registered functions by operator, and the interpreter's."""

from compiler.program.host.node import (
    ONLY_HOST,
    HostNode,
    constant_of,
    host_obstacle,
    obstacle_of_types,
    obstacle_on_host,
    only_on_host,
    runs_on_host,
)
from compiler.program.host.registry import HostMap, HostSequence, HostValue

__all__ = [
    "ONLY_HOST",
    "HostMap",
    "HostNode",
    "HostSequence",
    "HostValue",
    "constant_of",
    "host_obstacle",
    "obstacle_of_types",
    "obstacle_on_host",
    "only_on_host",
    "runs_on_host",
]
