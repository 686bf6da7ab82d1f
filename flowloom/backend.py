"""Flowloom as a backend of `onnx.backend`, which ONNX's own node tests run on."""

from compiler.backend import *  # noqa: F403
