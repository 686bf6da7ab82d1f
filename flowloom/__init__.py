"""Flowloom by its own name: the public names of `compiler`, the package that implements it.

`import flowloom` and `import compiler` give the same objects. Names that need more than loading an
artifact does, such as `InferenceSession`, are imported when they are first used.
"""

from typing import TYPE_CHECKING, Any

import compiler

if TYPE_CHECKING:
    from compiler import *  # noqa: F403

__version__ = compiler.__version__

__all__: list[str] = []
__all__ += compiler.__all__


def __getattr__(name: str) -> Any:
    if name not in (*__all__, "backend"):
        raise AttributeError(f"module 'flowloom' has no attribute {name!r}")
    return getattr(compiler, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
