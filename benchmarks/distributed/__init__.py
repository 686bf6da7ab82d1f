"""How `flowloom tune --ray` scales with the workers of a Ray cluster."""
