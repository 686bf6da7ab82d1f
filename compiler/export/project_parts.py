"""The parts of an exported project that depend on the device: see `gpu_part` and `cpu_part`."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class DevicePart(Protocol):
    """The part of one artifact's project that is for its device."""

    @property
    def name(self) -> str:
        """The name of the part's folder of `src`, and of its file of `cmake`."""
        ...

    @property
    def header(self) -> str:
        """The header of `src` that declares the tables of `plan`."""
        ...

    @property
    def foreign(self) -> Sequence[str]:
        """Patterns of the names of the project's files that belong to the other part."""
        ...

    def plan(self) -> str:
        """The end of plan.cpp: the tables that are for this device."""
        ...

    def files(self) -> Mapping[str, bytes]:
        """Kernels, and other files by their paths in the project."""
        ...

    def cmake(self) -> Mapping[str, str]:
        """Variables of model.cmake without their prefix FLOWLOOM_."""
        ...

    def sources(self) -> Sequence[str]:
        """The paths of kernels for CMake."""
        ...

    def readme(self) -> Mapping[str, str]:
        """The words of the README that depend on the device."""
        ...
