"""Checks of schedules: structure, happens-before, memory, kernels and equivalence."""
