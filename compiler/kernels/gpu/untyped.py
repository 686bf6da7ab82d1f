"""TVM's modules and classes as Any: their annotations are incomplete, some of them wrong."""

from typing import Any

import tvm_ffi as _tvm_ffi
from tvm import IRModule as _IRModule
from tvm import ir as _ir
from tvm import s_tir as _s_tir
from tvm import tirx as _tirx
from tvm.ir.transform import Sequential as _Sequential

tvm_ffi: Any = _tvm_ffi
s_tir: Any = _s_tir
tirx: Any = _tirx
ir: Any = _ir
Sequential: Any = _Sequential
IRModule: Any = _IRModule

UntypedSchedule = Any
PrimFunc = Any
UntypedModule = Any
