"""Resize: tables of source positions and weights, or formulas where a run decides the sizes."""
