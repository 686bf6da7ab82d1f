from typing import Any, Self

from ...tirx.script import builder

tirx = builder

class IRBuilder:
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def get(self) -> Any: ...
