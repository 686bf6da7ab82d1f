"""Normalisations and softmax of rows."""
