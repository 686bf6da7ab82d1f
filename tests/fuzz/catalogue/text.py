"""Operators of texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.case import Array
from tests.fuzz.draw import ANY, Draw, specials
from tests.fuzz.hosted import Hosted, any_shape, generates_hosted, hosted, runs_of

WORDS = [
    "", " ", "  ", "a", "b", "A", "É", "é", "ß", "ẞ", "İ", "\u0131", "i", "Σ", "ς", "ǆ", "ᾀ", "ﬁ",
    "日本", "🙂", "e\u0301", "a,b", ",", ",,", "a,,b,", " lead", "trail ", "a  b c", "x\ty", "\n",
    "\u00a0", "\u3000z", "aaaa", "monday", "Monday", "MONDAY", "the", "The", "a.b", "12", "٣",
    "x1_y", "ab--cd--",
]  # fmt: skip
NUMERALS = [
    "0", "1", "-1", "+7", "12", " 3", "4\n", "127", "128", "255", "256", "-129", "65536",
    "2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "18446744073709551615", "0.5", "-0.0", "3.14", ".5", "5.", "1e3", "1E-5", "1e39", "-1e400",
    "65520", "1e-46", "3.4028236e38", "NaN", "nan", "INF", "+inf", "-INF", "infinity", "", "x",
    "1x", "1,5", "0x10", "1_000", "٣", "true",
]  # fmt: skip
PATTERNS = [
    "", ".*", "a+", "[a-z]+", "\\d+", "\\w*", "\\s*", "\\pL+", "\\p{Greek}", "[[:alpha:]]*",
    "(?i)monday", "(?s).*", "(?U)a.*b", "\\Qa.b\\E", "a|b|ab", "(a)(,)?(b)?", "^a$", "\\Aa\\z",
    ".{1,2}", "\\C+", "[^,]*", "(?P<n>a)", "(?=a)", "(?<!a)b", "(a)\\1", "a{1001}", "[", "\\Z",
    "\\bA\\b", "(?m)^$", "\\x{1F642}", "é",
]  # fmt: skip


def texts(draw: Draw, shape: Sequence[int], pool: Sequence[str] = WORDS) -> Array:
    """Texts of a pool, some joined."""
    count = int(np.prod(shape))
    array = np.empty(count, object)
    array[:] = ["".join(draw.choices(pool, k=draw.choice([1, 1, 1, 2, 3]))) for _ in range(count)]
    return array.reshape(tuple(shape))


def few_words(draw: Draw) -> list[str]:
    """A small vocabulary, so that tensors of it repeat words."""
    return draw.sample(WORDS, draw.randint(2, 6))


@generates_hosted("StringConcat")
def concat(draw: Draw, op: str) -> Hosted:
    """Shapes that may be broadcast."""
    ranks = draw.randint(0, 3), draw.randint(0, 3)

    def made() -> list[Array]:
        shape = any_shape(draw, max(ranks))
        parts = [shape[len(shape) - rank :] for rank in ranks]
        return [texts(draw, [draw.choice([n, n, 1]) for n in part]) for part in parts]

    return hosted(op, runs_of(draw, made), [TensorProto.STRING], 20)


@generates_hosted("StringSplit")
def split(draw: Draw, op: str) -> Hosted:
    """Any delimiter, none too, and few or many parts."""
    rank = draw.randint(0, 3)
    runs = runs_of(draw, lambda: [texts(draw, any_shape(draw, rank))])
    return hosted(
        op,
        runs,
        [TensorProto.STRING, TensorProto.INT64],
        20,
        delimiter=draw.choice([None, "", ",", " ", "a", "aa", "--", "é"]),
        maxsplit=draw.choice([None, None, 0, 1, 2, -1, 2**40]),
    )


@generates_hosted("StringNormalizer")
def normalizer(draw: Draw, op: str) -> Hosted:
    """Stop words in any case, a vector or a single row."""
    words, row = few_words(draw), draw.chance(0.4)
    runs = runs_of(
        draw, lambda: [texts(draw, ((1,) if row else ()) + (draw.randint(1, 5),), words)]
    )
    return hosted(
        op,
        runs,
        [TensorProto.STRING],
        10,
        case_change_action=draw.choice([None, "NONE", "LOWER", "UPPER"]),
        is_case_sensitive=draw.choice([None, 0, 1]),
        stopwords=draw.choice([None, draw.sample(words, draw.randint(1, len(words)))]),
        locale=draw.choice(["C.UTF-8", "C.UTF-8", "C"]),
    )


@generates_hosted("RegexFullMatch")
def regex(draw: Draw, op: str) -> Hosted:
    """Patterns of RE2, and some that it refuses."""
    pattern = "".join(draw.choices(PATTERNS, k=draw.choice([1, 1, 2])))
    rank = draw.randint(0, 3)
    runs = runs_of(draw, lambda: [texts(draw, any_shape(draw, rank))])
    return hosted(op, runs, [TensorProto.BOOL], 20, pattern=pattern)


@generates_hosted("TfIdfVectorizer")
def tf_idf(draw: Draw, op: str) -> Hosted:
    """Pools of texts and integers, n-grams of one to three items."""
    pool_dtype = draw.choice(["text", "int32", "int64"])
    vocabulary: list[Any] = few_words(draw) if pool_dtype == "text" else [*range(-1, 4)]
    longest = draw.randint(1, 3)
    grams = [
        [*dict.fromkeys(tuple(draw.choices(vocabulary, k=n)) for _ in range(draw.randint(0, 4)))]
        for n in range(1, longest + 1)
    ]
    count = sum(map(len, grams))
    if not count:
        grams[0], count = [(vocabulary[0],)], 1
    pool = [item for group in grams for gram in group for item in gram]
    sizes = [len(group) * n for n, group in enumerate(grams, 1)]
    most = draw.randint(1, longest)
    rank = draw.randint(1, 2)

    def made() -> list[Array]:
        shape = any_shape(draw, rank)
        if pool_dtype == "text":
            return [texts(draw, shape, [*vocabulary, "other"])]
        return [draw.numpy.integers(-2, 5, shape).astype(pool_dtype)]

    named: dict[str, Any] = {"pool_strings" if pool_dtype == "text" else "pool_int64s": pool}
    indexes = draw.sample(range(count + draw.randint(0, 2)), count)
    return hosted(
        op,
        runs_of(draw, made),
        [TensorProto.FLOAT],
        9,
        mode=draw.choice(["TF", "IDF", "TFIDF"]),
        max_skip_count=draw.randint(0, 3),
        min_gram_length=draw.randint(1, most),
        max_gram_length=most,
        ngram_counts=np.cumsum([0, *sizes[:-1]]).tolist(),
        ngram_indexes=indexes,
        weights=draw.choice([None, [draw.randint(-8, 8) / 4 for _ in range(count)]]),
        **named,
    )


def _number_types(draw: Draw) -> tuple[str, int]:
    dtype = draw.choice(ANY)
    return dtype, helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@generates_hosted("Cast CastLike")
def cast(draw: Draw, op: str) -> Hosted:
    """Texts to numbers, where some are none, and numbers to texts."""
    rank, (dtype, element) = draw.randint(0, 3), _number_types(draw)
    to_text = draw.chance(0.4)
    pool = draw.sample(NUMERALS, draw.choice([1, 1, 2, 4]))

    def made() -> list[Array]:
        shape = any_shape(draw, rank)
        if not to_text:
            count = int(np.prod(shape))
            array = np.empty(count, object)
            array[:] = draw.choices(pool, k=count)
            return [array.reshape(shape)]
        numbers = draw.array(shape, dtype, -1e6, 1e6)
        special = draw.numpy.choice(specials(dtype), shape)
        return [np.where(draw.numpy.random(shape) < 0.3, special, numbers).astype(dtype)]

    target = TensorProto.STRING if to_text else element
    opset = draw.choice([19, 20, 21] if op == "CastLike" else [9, 13, 19, 21])
    if op == "Cast":
        return hosted(op, runs_of(draw, made), [target], opset, to=target)
    like = np.empty(2, object if to_text else dtype)
    like[:] = "" if to_text else 0
    return hosted(op, runs_of(draw, lambda: [*made(), like]), [target], opset)


@generates_hosted("Equal")
def equal(draw: Draw, op: str) -> Hosted:
    """Texts of shapes that may be broadcast."""
    words = few_words(draw)
    made = concat(draw, op)
    runs = [[texts(draw, x.shape, words) for x in run] for run in made.runs]
    return hosted(op, runs, [TensorProto.BOOL], draw.choice([19, 21]))
