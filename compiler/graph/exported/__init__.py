"""Operators that exporters write as several others."""
