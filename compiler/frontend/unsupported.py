"""Why an operator of a model cannot be compiled as it is."""

from compiler.net.graph import Value


class Unsupported(Exception):
    """Raised inside the frontend for an operator that cannot be compiled: the reason, a remedy."""

    def __init__(self, reason: str, remedy: str = "rewrite the model without it"):
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class NeedsHost(Unsupported):
    """Raised inside the frontend for types that no kernel has: numpy computes the node on the host.

    Every other Unsupported holds for known inputs, too.
    """


class NeedsValue(NeedsHost):
    """Raised inside the frontend for an operator that needs the content of a run-time tensor."""

    def __init__(self, value: Value, reason: str, remedy: str):
        super().__init__(reason, remedy)
        self.value = value


class Contradiction(Exception):
    """Raised inside the frontend if the inputs of an operator do not fit it."""
