"""Differences between recorded hashes and those of the present tree, and the texts that differ."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path

from tests.frozen.cases import is_network
from tests.frozen.hashes import Hashes, Key, observed_of
from tests.frozen.observe import Observed
from tests.frozen.store import TextStore

EXCEPTIONS = Path(__file__).parent / "exceptions.toml"
TOKEN = re.compile(r"[A-Za-z_]\w*|\S|\s+")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
MOST_NAMES = 4
"""The most renamed identifiers that a line lists."""


@dataclass(frozen=True)
class Difference:
    """One difference: the part, a text for people, and the hashes of texts before and after."""

    case: str
    target: str
    part: str
    text: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{' '.join(filter(None, (self.case, self.target)))}: {self.text}"


@dataclass(frozen=True)
class Exemption:
    """Patterns of cases, targets and parts that may differ, and the reason."""

    cases: str
    reason: str
    targets: str = "*"
    parts: str = "*"

    def covers(self, difference: Difference) -> bool:
        """Whether it allows a difference."""
        pairs = (
            (difference.case, self.cases),
            (difference.target, self.targets),
            (difference.part, self.parts),
        )
        return all(fnmatchcase(value, pattern) for value, pattern in pairs)


def read_exemptions(file: Path = EXCEPTIONS) -> list[Exemption]:
    """The entries of a file of exceptions; raises TypeError for one without cases or a reason."""
    entries = tomllib.loads(file.read_text()).get("exception", [])
    return [Exemption(**entry) for entry in entries]


def header_differences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Difference]:
    """The CUDA headers that differ, by file name."""
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            how = "differs" if name in old and name in new else "is new or gone"
            yield Difference(name, "", "headers", f"the header {how}")


def differences(old: Hashes, new: Hashes, key: Key, found: Sequence[Observed], store: TextStore
) -> Iterator[Difference]:  # fmt: skip
    """The differences of one case for one target, whose modules were `found` anew."""
    name, target = key
    if is_network(name):
        if old.networks[key] != new.networks[key]:
            after = found if len(found) == 1 else [Observed.of(new.networks[key])]
            yield from of_modules(key, [Observed.of(old.networks[key])], after, store)
    elif old.nodes[key] != new.nodes[key]:
        text = store.text(old.nodes[key])
        if text is None:
            yield Difference(name, target, "case", "it differs; its texts were recorded elsewhere")
        else:
            yield from of_modules(key, observed_of(text), found, store)


def of_modules(
    key: Key, before: Sequence[Observed], after: Sequence[Observed], store: TextStore
) -> Iterator[Difference]:
    """The differences between the modules of a case."""
    for old, new in zip_longest(before, after, fillvalue=Observed(outcome="no module")):
        yield from of_kernels(key, old, new, store)
        for part in ("schedule", "weights"):
            pair = getattr(old, part), getattr(new, part)
            if pair[0] != pair[1]:
                yield Difference(*key, part, f"the {part} differ", *pair)
        if old.outcome != new.outcome:
            text = f"{old.outcome or 'compiled'} before, {new.outcome or 'compiled'} after"
            yield Difference(*key, "outcome", text)


def of_kernels(key: Key, old: Observed, new: Observed, store: TextStore) -> Iterator[Difference]:
    """The kernels of two modules that differ, those that stand at the same place as pairs."""
    matcher = SequenceMatcher(None, old.kernels, new.kernels, autojunk=False)
    for kind, first, end, begin, last in matcher.get_opcodes():
        if kind == "equal":
            for i, j in zip(range(first, end), range(begin, last), strict=True):
                if old.code and new.code and old.code[i] != new.code[j]:
                    where = f"{_kernel(new, j)}: other machine code of the same text"
                    yield Difference(*key, "code", where)
            continue
        for i, j in zip_longest(range(first, end), range(begin, last)):
            if j is None:
                where = f"kernel {i + 1} of {len(old.kernels)} before is not there after"
                yield Difference(*key, "kernels", where, old.kernels[i])
            elif i is None:
                where = f"{_kernel(new, j)} was not there before"
                yield Difference(*key, "kernels", where, "", new.kernels[j])
            else:
                pair = old.kernels[i], new.kernels[j]
                part, how = how_texts_differ(*(store.text(name) for name in pair))
                if old.code and new.code:
                    same = old.code[i] == new.code[j]
                    how += ", the machine code is the same" if same else ", so does machine code"
                yield Difference(*key, part, f"{_kernel(new, j)}: {how}", *pair)


def _kernel(module: Observed, index: int) -> str:
    """A kernel by its place and name."""
    name = f" ({module.names[index]})" if module.names else ""
    return f"kernel {index + 1} of {len(module.kernels)}{name}"


def how_texts_differ(before: str | None, after: str | None) -> tuple[str, str]:
    """The part and a text for two kernels: `names` if only identifiers were renamed."""
    if before is None or after is None:
        return "kernels", "the text differs"
    if not (renamed := renamings(before, after)):
        return "kernels", "the text differs"
    pairs = [f"{old} to {new}" for old, new in renamed.items()]
    more = f" and {len(pairs) - MOST_NAMES} more" if len(pairs) > MOST_NAMES else ""
    return "names", f"identifiers alone differ: {', '.join(pairs[:MOST_NAMES])}{more}"


def renamings(before: str, after: str) -> dict[str, str]:
    """The identifiers that a one-to-one renaming of one text changes; empty if it is not one."""
    forth, back = dict[str, str](), dict[str, str]()
    for old, new in zip_longest(TOKEN.findall(before), TOKEN.findall(after), fillvalue=""):
        if old == new or (IDENTIFIER.fullmatch(old) and IDENTIFIER.fullmatch(new)):
            if forth.setdefault(old, new) != new or back.setdefault(new, old) != old:
                return {}
        else:
            return {}
    return {old: new for old, new in forth.items() if old != new}


def text_diff(difference: Difference, store: TextStore) -> Iterator[str]:
    """The lines of a unified diff of the texts of a difference."""
    texts: list[list[str]] = []
    for name in (difference.before, difference.after):
        text = store.text(name) if name else ""
        texts.append([f"({name} was recorded elsewhere)"] if text is None else text.splitlines())
    if difference.before or difference.after:
        yield from unified_diff(texts[0], texts[1], "before", "after", lineterm="")
