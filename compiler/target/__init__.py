"""Targets of compilation, and a model of each device."""
