"""Benchmarks of what happens while a model compiles."""
