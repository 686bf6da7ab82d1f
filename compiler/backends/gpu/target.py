"""The architecture that a GPU's target stands for where one is needed."""

from compiler.backends.cuda import target as cuda
from compiler.backends.hip import target as hip


def main_architecture(target: str) -> str:
    """The architecture of a target, the first of several, for which times are predicted."""
    if target.partition(":")[0] == "hip":
        return hip.architectures(target)[0]
    return cuda.architecture(target)
