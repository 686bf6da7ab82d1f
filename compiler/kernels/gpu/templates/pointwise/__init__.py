"""Elementwise groups with several results."""
