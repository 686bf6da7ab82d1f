"""Host operators of texts."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiler.net.evaluation.text import is_text, object_array, texts_in
from compiler.net.operators import check_room
from compiler.program.host.registry import HostCall, HostFunction, host_operator
from compiler.support.memory import require

Array = np.ndarray


@host_operator("StringConcat", first=20)
def string_concat(call: HostCall) -> HostFunction:
    """Texts of two tensors one after the other, in their common shape."""
    return _concatenated


def _concatenated(x: Array, y: Array) -> tuple[Array]:
    first, second = np.broadcast_arrays(x, y)
    characters = (_characters(a) * (first.size // a.size) for a in (x, y) if a.size)
    _check_room(first.shape, sum(characters))
    texts = [a + b for a, b in zip(texts_in(first), texts_in(second), strict=True)]
    return (object_array(texts, first.shape),)


def _characters(texts: Array) -> int:
    return sum(map(len, texts_in(texts)))


def _check_room(shape: tuple[int, ...], characters: int) -> None:
    """Raise ShapeMismatch or DeviceError for texts of a shape that are too many or too long."""
    check_room(np.dtype(object), shape)
    require(characters, "a result of texts")


@host_operator("StringSplit", first=20)
def string_split(call: HostCall) -> HostFunction:
    """The parts of each text along a new last axis, filled up with "", and how many there are.

    Without a delimiter whitespace separates them, and is removed at both ends. With a negative
    `maxsplit` there is no limit.
    """
    delimiter: str = call.attributes.get("delimiter", "")
    limit = max(call.attributes.get("maxsplit", -1), -1)

    def parts(text: str) -> list[str]:
        # with a limit, split would keep the whitespace at the end
        return text.split(delimiter, limit) if delimiter else text.strip().split(None, limit)

    def split(x: Array) -> tuple[Array, Array]:
        rows = [parts(text) for text in texts_in(x)]
        counts = np.array([len(row) for row in rows], np.int64).reshape(x.shape)
        width = int(counts.max(initial=0))
        _check_room((*x.shape, width), _characters(x))
        filled = [text for row in rows for text in (*row, *[""] * (width - len(row)))]
        return object_array(filled, (*x.shape, width)), counts

    return split


@host_operator("RegexFullMatch", first=20)
def regex_full_match(call: HostCall) -> HostFunction:
    """Whether each text as a whole matches a pattern in RE2's syntax."""
    import re2  # only where a model needs it

    if "pattern" not in call.attributes:
        raise ValueError("it has no attribute 'pattern'")
    pattern: str = call.attributes["pattern"]
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # whether a text matches is the automaton's answer alone
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        message = error.args[0]
        reason = message.decode() if isinstance(message, bytes) else message
        raise ValueError(
            f"its pattern {pattern!r} is not RE2's ({reason}), which has neither look-around nor"
            " back references: write it as https://github.com/google/re2/wiki/Syntax says"
        ) from error

    def matched(x: Array) -> tuple[Array]:
        matches = [compiled.fullmatch(text.encode()) is not None for text in texts_in(x)]
        return (np.array(matches, np.bool_).reshape(x.shape),)

    return matched


_LOCALE = re.compile(r"[A-Za-z]{2,3}([_-][A-Za-z]{2,4}|[_-]\d{3})*([.][\w-]+)?(@\w+)?", re.A)
_ASCII_LOCALES = ("C", "POSIX")
_TURKIC = ("tr", "az")
"""Languages in which i and I are not one letter."""
_DOTLESS = "\N{LATIN SMALL LETTER DOTLESS I}"
_DOTTED = "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}"


@host_operator("StringNormalizer", first=10)
def string_normalizer(call: HostCall) -> HostFunction:
    """Texts without the stop words, in lower or upper case; one empty text if none remains.

    A letter becomes one letter, as in the C library and onnxruntime: ß stays in upper case. The
    locale C changes ASCII's letters alone; in Turkish the dot of i stays, too.
    """
    action: str = call.attributes.get("case_change_action", "NONE")
    changes = _case_changes(call.attributes.get("locale", "en_US.UTF-8"))
    if action not in changes:
        raise ValueError(f"its case_change_action is {action!r}, not LOWER, UPPER or NONE")
    change = changes[action]
    sensitive = call.attributes.get("is_case_sensitive", 0)
    compared = changes["NONE" if sensitive else "LOWER"]
    stopwords = {compared(word) for word in call.attributes.get("stopwords", ())}

    def normalized(x: Array) -> tuple[Array]:
        if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
            raise ValueError("it takes a vector or a single row")
        texts = [change(text) for text in texts_in(x) if compared(text) not in stopwords] or [""]
        return (object_array(texts, (*x.shape[:-1], len(texts))),)

    return normalized


def _case_changes(locale: str) -> dict[str, Callable[[str], str]]:
    """The changes of case by their names in ONNX; raises ValueError for what names no locale."""
    language = re.split("[_.@-]", locale)[0].lower()
    if locale in _ASCII_LOCALES:
        lower = _ascii(str.lower)
        upper = _ascii(str.upper)
    elif locale and not _LOCALE.fullmatch(locale) and not locale.startswith("C."):
        raise ValueError(f"its locale {locale!r} is not named like en_US.UTF-8")
    else:
        turkic = language in _TURKIC
        lower = _Letters(_lower, {"I": _DOTLESS} if turkic else {})
        upper = _Letters(_upper, {"i": _DOTTED} if turkic else {})
    return {
        "NONE": str,
        "LOWER": lambda text: text.translate(lower),
        "UPPER": lambda text: text.translate(upper),
    }


class _Letters(dict[int, str]):
    """A table for `str.translate` of one letter for each, filled as letters are met."""

    def __init__(self, change: Callable[[str], str], exceptions: dict[str, str]):
        """Begin with the letters that are exceptions in a language."""
        super().__init__({ord(letter): replacement for letter, replacement in exceptions.items()})
        self._change = change

    def __missing__(self, code: int) -> str:
        self[code] = self._change(chr(code))
        return self[code]


def _ascii(change: Callable[[str], str]) -> _Letters:
    return _Letters(lambda letter: change(letter) if letter.isascii() else letter, {})


def _lower(letter: str) -> str:
    """One letter in lower case: the first where it would be several."""
    return letter.lower()[0]


def _upper(letter: str) -> str:
    """One letter in upper case: in title case where it would be several, or else itself."""
    return next((u for u in (letter.upper(), letter.title()) if len(u) == 1), letter)


@host_operator("TfIdfVectorizer", first=9)
def tf_idf_vectorizer(call: HostCall) -> HostFunction:
    """How often the n-grams of a pool are in each row: counts, weights, or both multiplied."""
    mode: str = call.attributes["mode"]
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ValueError(f"its mode is {mode!r}, not TF, IDF or TFIDF")
    ngrams = _Ngrams(call.attributes)
    scale: Array | float = 1.0 if mode == "TF" else ngrams.weights

    def vectorized(x: Array) -> tuple[Array]:
        if x.ndim > 2 or ngrams.is_text != is_text(x):
            pool = "texts" if ngrams.is_text else "integers"
            raise ValueError(f"it takes a vector or a matrix of {pool}")
        rows = x.reshape(len(x) if x.ndim == 2 else 1, x.shape[-1] if x.ndim else 1)
        counts = ngrams.counts(rows).astype(np.float32)
        scaled = (np.minimum(counts, 1) if mode == "IDF" else counts) * scale
        scaled[counts == 0] = 0  # an infinite weight makes NaN of an n-gram that does not occur
        check_room(np.dtype(np.float32), (ngrams.size, len(rows)))
        result = np.zeros((ngrams.size, len(rows)), np.float32)
        np.add.at(result, ngrams.places, scaled.T)
        return (result.T.copy() if x.ndim == 2 else result[:, 0],)

    return vectorized


class _Ngrams:
    """The n-grams of a pool with their weights, and their places in a vector of `size`."""

    def __init__(self, attributes: Any):
        """Read the pool; raises ValueError if its parts do not fit each other."""
        words, numbers = (attributes.get(f"pool_{kind}", ()) for kind in ("strings", "int64s"))
        if bool(words) == bool(numbers):
            raise ValueError("it needs one of pool_strings and pool_int64s")
        self.is_text = bool(words)
        pool = [*words, *numbers]
        self._shortest: int = attributes["min_gram_length"]
        self._longest: int = attributes["max_gram_length"]
        self._skips: int = attributes["max_skip_count"]
        starts: Sequence[int] = attributes["ngram_counts"]
        if not 1 <= self._shortest <= self._longest <= len(starts) or self._skips < 0:
            raise ValueError("its lengths of n-grams are not from 1 up to those of ngram_counts")
        self._items = {item: number for number, item in enumerate(dict.fromkeys(pool))}
        edges: dict[tuple[int, int], int] = {}
        self._state: list[int] = []
        ends = [*starts[1:], len(pool)]
        count = 0
        for length, first, end in zip(range(1, len(starts) + 1), starts, ends, strict=True):
            if not 0 <= first <= end <= len(pool) or (end - first) % length:
                raise ValueError(f"its ngram_counts do not part the pool into {length}-grams")
            for start in range(first, end, length):
                state = 0
                for item in pool[start : start + length]:
                    state = edges.setdefault((state, self._items[item]), len(edges) + 1)
                self._state.append(state)
                count += 1
        self.places = np.array(attributes["ngram_indexes"], np.int64)
        self.weights = np.array(attributes.get("weights", [1.0] * len(self.places)), np.float32)
        if not len(self.places) == len(self.weights) == count or (self.places < 0).any():
            raise ValueError(f"its ngram_indexes or weights do not fit the pool's {count} n-grams")
        self.size = int(self.places.max()) + 1

        self._states = len(edges) + 1
        keys = [state * (len(self._items) + 1) + item for state, item in edges]
        order = np.argsort(np.array(keys, np.int64))
        self._keys = np.array(keys, np.int64)[order]
        self._next = order + 1

    def counts(self, rows: Array) -> Array:
        """How often each n-gram of the pool is in each row: int64[rows, n-grams].

        All places of all rows walk the tree of the pool's n-grams together; a place that leaves it
        gets the state after the last. Items are apart by each number of skips, single ones once.
        """
        items = self._numbers(rows)
        count = self._states + 1
        total = np.zeros(len(items) * count, np.int64)
        offsets = np.arange(len(items))[:, None] * count
        for step in range(1, min(self._skips + 1, max(1, items.shape[1])) + 1):
            states = np.zeros_like(items)
            for length in range(1, self._longest + 1):
                first = (length - 1) * step
                if first >= items.shape[1]:
                    break
                states = self._after(states[:, : items.shape[1] - first], items[:, first:])
                if length >= self._shortest and (length > 1 or step == 1):
                    total += np.bincount((states + offsets).ravel(), minlength=total.size)
        return total.reshape(len(items), count)[:, self._state]

    def _numbers(self, rows: Array) -> Array:
        """The number of each item, that of others after the last."""
        outside = len(self._items)
        if self.is_text:
            numbers = [self._items.get(item, outside) for item in texts_in(rows)]
            return np.array(numbers, np.int64).reshape(rows.shape)
        pool = np.array(list(self._items), np.int64)
        order = np.argsort(pool)
        positions = np.searchsorted(pool[order], rows.astype(np.int64))
        numbers = np.append(order, outside)[positions]
        return np.where(np.append(pool, 0)[numbers] == rows, numbers, outside)

    def _after(self, states: Array, items: Array) -> Array:
        """The states that items lead to."""
        keys = states * (len(self._items) + 1) + items
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._next[at], self._states)
