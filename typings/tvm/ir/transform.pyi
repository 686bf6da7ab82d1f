from collections.abc import Sequence

from . import IRModule

class Pass:
    def __call__(self, mod: IRModule) -> IRModule: ...

class Sequential(Pass):
    def __init__(self, passes: Sequence[Pass]) -> None: ...
