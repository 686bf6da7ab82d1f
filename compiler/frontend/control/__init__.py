"""If, Loop and Scan: checks of their bodies, unrolling, and bodies that stay graphs."""
