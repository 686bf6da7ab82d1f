"""The seconds of a compilation for measuring, divided as its questions nest."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """The seconds in which one question may be answered, with all that it asks before."""

    seconds: float

    def share(self, fraction: float) -> "Budget":
        """The budget of a question that gets this part of the seconds."""
        return Budget(fraction * self.seconds)

    def among(self, count: int) -> "Budget":
        """The budget of each of some questions of equal weight."""
        return Budget(self.seconds / count)

    def after(self, spent: float) -> "Budget":
        """The budget that remains when some seconds were spent; it may be overdrawn."""
        return Budget(self.seconds - spent)
