from collections.abc import Sequence

from ..ir import Expr
from ..tirx import Stmt
from . import transform as transform
from .schedule import SBlock as SBlock
from .schedule import Schedule as Schedule

class ScheduleError(RuntimeError): ...

class SBlockRealize(Stmt):
    block: SBlock
    iter_values: Sequence[Expr]
