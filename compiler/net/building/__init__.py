"""Graphs as they are written: the builder, its bounds, and what simplifies a graph in place."""
