"""Einsums of vectors by matrices that indices select."""
