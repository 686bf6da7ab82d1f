"""TopK of few elements of each row, which are selected and then sorted."""
