"""The gallery: a picture for each policy by the explorer's page, and the docs have them all."""

from pathlib import Path

from PIL import Image

from benchmarks.scheduling.policies import POLICIES
from compiler.scheduling.policies.streams import STREAM_ASSIGNMENTS
from tests.explore.browser import chromium
from tests.explore.gallery import NOTES, SHOWN, draw_gallery, picture_of
from tests.explore.modules import branches

DOCS = Path(__file__).parents[2] / "docs"


def test_every_policy_has_a_picture(tmp_path: Path):
    model = branches(tmp_path / "model.onnx")
    with chromium() as browser:
        pictures = draw_gallery(browser, "Branches", model, tmp_path)
    assert len(pictures) == len(set(pictures)) == len(NOTES) + 3
    sizes = {name: Image.open(tmp_path / "gallery" / name).size for name in pictures}
    assert sizes[picture_of("sequential")][1] < sizes[picture_of("opara, 4")][1]
    text = (tmp_path / "gallery.md").read_text()
    assert all(f"(gallery/{name})" in text for name in pictures)
    waits = [line.split("|")[4].strip() for line in text.splitlines() if line.startswith("| `")]
    assert waits[0] == "0"
    assert waits[-1] != "0"


def test_the_gallery_has_all_policies_and_its_pictures_are_small():
    assert {POLICIES[name].streams for name in SHOWN} == set(STREAM_ASSIGNMENTS)
    text = (DOCS / "gallery.md").read_text()
    assert all(f"(gallery/{picture_of(name)})" in text for name in NOTES)
    sizes = [path.stat().st_size for path in (DOCS / "gallery").iterdir()]
    assert sum(sizes) < 250_000
