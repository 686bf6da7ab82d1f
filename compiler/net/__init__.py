"""What operators are, and the way to add one: `register`."""

from compiler.net.registration import register
from compiler.net.spec import Kind, Mismatch, OpSpec, Shape, ShapeMismatch, Use, operator

__all__ = ["Kind", "Mismatch", "OpSpec", "Shape", "ShapeMismatch", "Use", "operator", "register"]
