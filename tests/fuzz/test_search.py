"""The search with a fresh seed, in two tests that can run at once.

FLOWLOOM_FUZZ_SEED repeats a run, FLOWLOOM_FUZZ_SECONDS (default 60) is how long each test takes.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.__main__ import summarised
from tests.fuzz.search import Plan, Search, pool

SECONDS = float(os.environ.get("FLOWLOOM_FUZZ_SECONDS", "60"))


@pytest.mark.parametrize(
    "shares",
    [
        {"graphs": 0.4, "contents": 0.2, "shared": 0.2, "outside": 0.1, "texts": 0.1},
        {"invalid": 0.3, "damage": 0.2, "forged": 0.1, "data": 0.2, "folding": 0.1, "narrow": 0.1},
    ],
    ids=lambda shares: "-".join(shares),
)
def test_nothing_is_found(
    shares: dict[str, float], tmp_path: Path, record_property: Callable[[str, object], None]
):
    seed = int(os.environ["FLOWLOOM_FUZZ_SEED"])
    with pool(1) as workers:
        for kind, share in shares.items():
            plan = Plan(kind, seed, SECONDS * share, keep=tmp_path, shrinking=10)
            report = Search(plan, workers).run()
            record_property("search", report.line())
            assert not summarised(report), f"{kind}: FLOWLOOM_FUZZ_SEED={seed}; see {tmp_path}"
            assert report.counts["passed"]
