"""Graphs as terms, and rules that rewrite them."""
