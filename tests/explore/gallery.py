"""Draws the pictures of `docs/gallery.md` with the explorer's page, and writes that file.

python -m tests.explore.gallery docs
"""

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Locator, Page

import compiler
from benchmarks.scheduling.policies import AUTO, POLICIES
from compiler.artifact.module import Module
from compiler.tools.explore.collect import module_fact
from compiler.tools.explore.document import ModuleFact, SideFact
from compiler.tools.explore.page import explore_page
from compiler.tools.models import named_model
from tests.explore.browser import chromium, opened, picture, show

SHOWN = (
    *("sequential", "ppd, 4", "opara, 4", "opara, 4, balanced", "nimble, 8"),
    *("wavefront, 8", "ios, 8", "critical-path, 4", "optimal, 4"),
)
"""The policies of the gallery, by their names in `benchmarks/scheduling/policies.py`."""

NOTES = {
    "sequential": "One stream: no kernel waits for another stream, and no two run at once.",
    "ppd, 4": "PPD's partitions, round robin: they save launches, which a graph has few of.",
    "opara, 4": "Opara's chains, folded to the stream that is free first.",
    "opara, 4, balanced": "The same with balanced partitions of up to four kernels.",
    "nimble, 8": "Nimble's chains, merged where that adds no wait.",
    "wavefront, 8": "Rammer's waves with a barrier between, longest first.",
    "ios, 8": "IOS's stages: dynamic programming over the kernels that run between barriers.",
    "critical-path, 4": "HEFT with the critical path kept on stream 0.",
    "optimal, 4": "Branch and bound, begun with the best of the others.",
    AUTO: "What `compile` searches for by itself on a GPU, and how it was decided.",
}

HEAD = """# Gallery

{title} in fp16 for an H200 under each policy of [the schedulers](schedulers.md), compiled
without one: times are the simulator's, all on one scale. The colours are streams, red is the
critical path, curves are the waits between streams. Each picture is the
[explorer](explorer.md)'s own drawing of a compiled module;

    python -m tests.explore.gallery docs

draws all and writes this page.

| policy | predicted, µs | streams | waits | arena, MiB |
|---|---|---|---|---|
"""

TAIL = """
## A measured run on a CPU

The same model in fp32 where the command ran: above the prediction, below the run of median length
of fifteen, a row a thread. Pale are blocks of a kernel that another thread runs; what else the
machine did shows as gaps.

![A measured run on a CPU](gallery/cpu.png)

## The arena of `auto`

Which tensor has which bytes, and when; above it the bytes in use.

![The arena over time](gallery/memory.png)

## The roofline of its kernels

A circle is a kernel, its area the time of all its tasks; times that were not measured are
estimates.

![The roofline](gallery/roofline.png)
"""


def modules(model: Any, **options: Any) -> Iterator[tuple[str, ModuleFact]]:
    """The model under each policy of the gallery, and as `compile` decides."""
    before = compiler.DEFAULT_PIPELINE.partition("partition-graph")[0]
    for name in (*SHOWN, AUTO):
        pipeline = None if name == AUTO else before + POLICIES[name].pipeline()
        module = compiler.compile(model, pipeline=pipeline, **options)
        assert isinstance(module, Module)
        yield name, module_fact(module)


def draw_gallery(browser: Browser, title: str, model: Any, docs: Path, **options: Any) -> list[str]:
    """Write `gallery.md` with its pictures to a folder; the names of the pictures."""
    found = dict(modules(model, **options))
    folder = docs / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    side = SideFact(title, "", list(found), list(found.values()))
    on_cpu = compiler.compile(model)
    assert isinstance(on_cpu, Module)
    cpu = SideFact(title, "", ["cpu"], [module_fact(on_cpu)])
    with _page(browser, side) as page:
        drawn = _pictures(page, list(found), folder)
    with _page(browser, cpu) as page:
        show(page, "Timeline")
        _save(page.locator("section.timeline canvas"), folder / "cpu.png")
    (docs / "gallery.md").write_text(_text(title, found))
    return [*drawn, "cpu.png"]


@contextmanager
def _page(browser: Browser, side: SideFact) -> Generator[Page]:
    with TemporaryDirectory() as scratch:
        path = Path(scratch, "gallery.html")
        path.write_text(explore_page([side]))
        with opened(browser, path) as page:
            yield page


def _pictures(page: Page, names: list[str], folder: Path) -> list[str]:
    show(page, "Timeline")
    for index, name in enumerate(names):
        page.get_by_label("Graph that the views show").select_option(str(index))
        page.get_by_label("one scale for all graphs").check()
        _save(page.locator("section.timeline canvas"), folder / picture_of(name))
    show(page, "Memory")
    _save(page.locator("section.memory canvas"), folder / "memory.png")
    show(page, "Kernels")
    _save(page.locator("figure.roofline"), folder / "roofline.png")
    return [*map(picture_of, names), "memory.png", "roofline.png"]


def picture_of(policy: str) -> str:
    """The file of a policy's picture."""
    return f"{policy.replace(',', '').replace(' ', '-')}.png"


def _save(element: Locator, path: Path) -> None:
    picture(element.screenshot()).save(path, optimize=True)


def _text(title: str, found: dict[str, ModuleFact]) -> str:
    rows = "".join(_row(name, fact) for name, fact in found.items())
    pictures = "".join(
        f"\n## {name}\n\n{NOTES[name]}\n\n![{title} under {name}](gallery/{picture_of(name)})\n"
        for name in found
    )
    return HEAD.format(title=title) + rows + pictures + TAIL


def _row(name: str, fact: ModuleFact) -> str:
    streams = [task.stream for task in fact.tasks]
    waits = sum(streams[other] != task.stream for task in fact.tasks for other in task.after)
    arena = sum(a.nbytes for a in fact.memory.allocations if a.kind == "arena")
    figures = (f"{fact.makespan / 1e3:.1f}", str(fact.streams), str(waits), f"{arena / 2**20:.2f}")
    return f"| {' | '.join((f'`{name}`', *figures))} |\n"


if __name__ == "__main__":
    with chromium() as started:
        asked = {"target": "cuda", "precision": "fp16", "budget": 0}
        network = named_model(Path("zoo:inception_v3"))
        draw_gallery(started, "Inception-v3", network, Path(sys.argv[1]), **asked)
