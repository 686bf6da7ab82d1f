"""Operators as tensor expressions: one lowering each."""
