"""Measured times and choices: kernels, schedules, modes and buffer bindings."""
