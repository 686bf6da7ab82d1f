"""Contractions of bytes in the frontend's graph: made of dequantised operands, or widened."""
