"""Softmax of few long rows."""
