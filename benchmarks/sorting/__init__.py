"""Sorts and running sums against other libraries."""
