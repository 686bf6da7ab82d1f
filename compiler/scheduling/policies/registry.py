"""Named policies: functions that a pass's `policy` option chooses between."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

from compiler.errors import PipelineError
from compiler.support.user_files import load_object

Policy = TypeVar("Policy")


class PolicyRegistry(Mapping[str, Policy]):
    """The policies of one kind by name; an unknown name is a PipelineError that lists them all.

    `FILE.py:FUNCTION` names a function in a user's file, which is executed.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._policies: dict[str, Policy] = {}

    def register(self, name: str) -> Callable[[Policy], Policy]:
        """A decorator that adds a policy; raises ValueError for a name that is taken."""

        def add(policy: Policy) -> Policy:
            if name in self._policies:
                raise ValueError(f"there is a {self._kind} policy {name!r} already")
            self._policies[name] = policy
            return policy

        return add

    def __getitem__(self, name: str) -> Policy:
        if name in self._policies:
            return self._policies[name]
        if ".py:" in name:
            return self._load(name)
        names = ", ".join(sorted(self._policies))
        raise PipelineError(
            f"unknown {self._kind} policy {name!r}; known are {names}, or FILE.py:FUNCTION"
        )

    def _load(self, name: str) -> Policy:
        """A function of a user's file."""
        policy = load_object(name, "policy", "FUNCTION")
        if not callable(policy):
            raise PipelineError(f"{name} is not a function")
        return cast(Policy, policy)

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)
