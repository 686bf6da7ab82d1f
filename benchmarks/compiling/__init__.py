"""Benchmarks of what happens while a model compiles, and when it is loaded."""
