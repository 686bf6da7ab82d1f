"""If, Loop, Scan, SequenceMap and functions: checks of bodies, unrolling, inlining, and bodies that
stay graphs."""
