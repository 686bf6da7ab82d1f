"""Choices by time: alternatives, what judges them, and the one rule by which one is kept."""
