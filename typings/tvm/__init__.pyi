"""What the kernels use of TVM: its fields come from C++, and so most of its types are unknown."""

from . import ir as ir
from . import target as target
from .ir import IRModule as IRModule
