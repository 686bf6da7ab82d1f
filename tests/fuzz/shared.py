"""Models whose operators share weights and inputs around control flow, compiled by any pipeline."""

from tests.fuzz.case import Case
from tests.fuzz.draw import Draw
from tests.fuzz.graphs import EMULATED
from tests.fuzz.pipelines import pipeline
from tests.shared_models import feeds, shared_model


def random_shared(seed: int, target: str) -> Case | None:
    """A model of `tests.shared_models`."""
    draw = Draw(seed)
    model = shared_model(draw)
    return Case(
        "shared",
        seed,
        model.SerializeToString(),
        feeds(model, seed % 2**32),
        target=draw.choice(EMULATED) if target == "emu" else target,
        pipeline=pipeline(draw),
        threads=draw.choice([1, 2, 3]),
    )
