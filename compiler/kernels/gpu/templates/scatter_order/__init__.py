"""ScatterOrder: the updates of a scatter sorted by their slots."""
