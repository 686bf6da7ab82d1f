"""Contractions of bytes in a graph: made of dequantised operands, or widened."""
