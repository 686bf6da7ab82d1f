"""TopK: the first elements of each row in order, by merging sorted tiles."""
