"""The reason and the remedy for an operator of which no form can be compiled."""

import onnx

from compiler.frontend.evaluate import schema_of
from compiler.frontend.interpreter import is_known_operator
from compiler.frontend.rules.contrib import DOMAIN
from compiler.frontend.unsupported import NeedsHost, Unsupported

RANDOM = (
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split()
)
_TRAINING = "ai.onnx.preview.training"
DATA_DEPENDENT = "Compress ConstantOfShape NonMaxSuppression NonZero Range Unique".split()
"""Operators whose result has a shape that depends on contents; none is worth a Loop."""


def unknown_operator(op_type: str, domain: str, opset: int) -> Unsupported:
    """The error for an operator of a domain's opset."""
    if domain:
        return _foreign(op_type, domain)
    if schema_of(op_type, opset) is None:
        remedy = "check the operator's name and the model's opset, or upgrade onnx"
        return Unsupported(f"onnx {onnx.__version__} has no such operator", remedy)
    if op_type in RANDOM:
        return Unsupported("it draws random numbers", "make the random tensor an input")
    kind = NeedsHost if is_known_operator(op_type) else Unsupported
    if op_type in DATA_DEPENDENT:
        reason = "the shape of its result depends on values that are computed at run time"
        return kind(reason, "split the model before it and run the rest elsewhere")
    return kind("there is no kernel for it", "rewrite the model with other operators")


def _foreign(op_type: str, domain: str) -> Unsupported:
    if domain == _TRAINING:
        return Unsupported("it is a step of training", "export the model for inference")
    if domain == DOMAIN or domain.startswith(f"{DOMAIN}."):
        remedy = "export the model without onnxruntime's optimiser, or split it there"
        return Unsupported("there is no rule for it", remedy)
    remedy = (
        f"register {domain}::{op_type} (docs/adding-an-operator.md, on the command line with"
        " --operators FILE.py), define it as a function of the"
        " model, or export the model with standard ONNX operators"
    )
    return Unsupported(f"operators of the domain {domain!r} are not known", remedy)
