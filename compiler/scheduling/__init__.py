"""Pure decisions on a DAG of costs: placement, order, streams, simulation and search."""
