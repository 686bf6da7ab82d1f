"""AutoGraph's table and its ablations."""
