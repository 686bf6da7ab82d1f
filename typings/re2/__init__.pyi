"""The parts of google-re2 that Flowloom uses."""

class error(Exception):
    args: tuple[bytes | str, ...]

class Options:
    log_errors: bool
    never_capture: bool

class _Match: ...

class _Regexp:
    def fullmatch(self, text: str | bytes) -> _Match | None: ...

def compile(pattern: str | bytes, options: Options | None = None) -> _Regexp: ...
