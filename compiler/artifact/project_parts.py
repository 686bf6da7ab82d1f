"""The part of an exported project that depends on the device: see `gpu_part` and `cpu_part`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectPart:
    """The content of one artifact's project that is for its device.

    `name` is that of a folder of the project's `src` and of a file of its `cmake`; names that match
    one of the patterns `foreign` belong to the other part. `plan` is the end of plan.cpp, whose
    tables are declared in `header`. `files` are by their paths in the project, `sources` the paths
    of kernels for CMake, `variables` those of model.cmake without FLOWLOOM_, `readme` the words of
    the README that differ.
    """

    name: str
    foreign: Sequence[str]
    header: str
    plan: str
    files: Mapping[str, bytes]
    sources: Sequence[str]
    variables: Mapping[str, str]
    readme: Mapping[str, str]
