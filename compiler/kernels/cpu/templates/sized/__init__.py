"""Loop nests of convolutions over sizes that a run decides: lanes along planes of any pitch."""
