"""Scheduling policies: one file each, registered by name."""
