"""AutoGraph's search for substitutions (AAAI 2023): parts, backtracking, dynamic programming."""
