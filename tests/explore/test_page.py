"""The explorer's page in Chromium: every view, search, keys, colours, paper, large graphs."""

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import compiler
from compiler.autotune.schedule import decision
from compiler.schedule.tasks import Schedule
from compiler.tools.cli import main
from compiler.tools.explore.page import explore_page
from tests.autotune.schedule import fakes
from tests.backends.gpu.recording import RecordingDriver
from tests.explore.browser import PICTURES, chromium, colours, drawn, opened, picture, show
from tests.explore.modules import branches, detector, on_threads, side_of, wide_schedule, with_tiles

ONE_STREAM = compiler.DEFAULT_PIPELINE.replace("policy=opara streams=4", "policy=sequential")
VIEWS = {
    "Graph": "colour by",
    "Timeline": "waits between streams",
    "Memory": "arena without reuse",
    "Kernels": "Roofs of the device model of one CPU core",
    "Passes": "plan-memory",
    "Choice": "Nothing was searched",
}
"""The views, and what each says of a module that was compiled without a search."""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def model_page(folder: Path) -> Path:
    """A model compiled for the CPU for its page."""
    page = folder / "model.html"
    assert main(["explore", str(branches(folder / "model.onnx")), "-o", str(page)]) == 0
    return page


@pytest.fixture(scope="module")
def measured(folder: Path) -> Path:
    """An artifact of a GPU whose schedule was measured, on a device that is there still."""
    driver = fakes.recorder()

    def present(target: str = "", ordinal: int = 0) -> RecordingDriver:
        return driver

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compiler.driver.build.build_kernels", fakes.kernels)
        patch.setattr(decision, "present_device", present)
        patch.setattr("compiler.backends.cuda.build.device", present)
        built = folder / "built"
        compiler.compile(fakes.model(), target="cuda", arch="sm_90", budget=0.3).save(built)
        assert main(["explore", str(built), "-o", str(folder / "measured.html")]) == 0
    return folder / "measured.html"


@pytest.fixture(scope="module")
def large_page(folder: Path) -> Path:
    """A module of 5,000 tasks of four operators each."""
    return large(wide_schedule(5000, 8), 4, folder / "large.html")


def large(schedule: Schedule, operators: int, path: Path) -> Path:
    path.write_text(explore_page([side_of(schedule, operators)]))
    return path


def test_every_view_of_a_model_renders(browser: Browser, model_page: Path):
    with opened(browser, model_page) as page:
        for view, text in VIEWS.items():
            show(page, view)
            assert text in page.inner_text("main")
            if view in ("Graph", "Timeline", "Memory"):
                assert drawn(page, view) > 4, view
                assert len(colours(page, "main canvas")) > 5, view


def test_search_selects_and_shows_the_task(browser: Browser, model_page: Path):
    with opened(browser, model_page) as page:
        page.keyboard.press("/")
        page.keyboard.type("tanh_1")
        assert page.get_by_label("Found tasks").get_by_role("option").count() == 1
        assert page.get_by_role("status").first.inner_text() == "1 found"
        page.keyboard.press("Enter")
        details = page.get_by_label("Selected task").inner_text()
        assert "Tanh_1" in details
        assert "16x16xf32" in details
        page.keyboard.press("Control+a")
        page.keyboard.type("no such node")
        assert page.get_by_role("status").first.inner_text() == "0 found"
        page.keyboard.press("Escape")
        assert page.get_by_role("combobox", name=re.compile("Search")).input_value() == ""


def test_a_click_selects_and_a_double_click_expands(browser: Browser, model_page: Path):
    with opened(browser, model_page) as page:
        canvas = page.locator("section.graph canvas")
        canvas.focus()
        page.keyboard.press("ArrowDown")
        assert "Nothing selected" not in page.get_by_label("Selected task").inner_text()
        page.keyboard.press("0")
        before = canvas.screenshot()
        page.keyboard.press("Enter")
        page.keyboard.press("0")
        page.get_by_role("button", name="Collapse all").wait_for()
        assert canvas.screenshot() != before
        page.keyboard.press("Escape")
        page.get_by_text("Nothing selected").wait_for()
        box = canvas.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 4, box["y"] + 4)
        assert "Nothing selected" in page.get_by_label("Selected task").inner_text()


def test_arrow_keys_go_along_edges_and_from_tab_to_tab(browser: Browser, model_page: Path):
    with opened(browser, model_page) as page:
        page.get_by_role("tab", name="Graph").focus()
        for view in (*[*VIEWS][1:], *[*VIEWS][:1]):
            page.keyboard.press("ArrowRight")
            tab = page.get_by_role("tab", name=view)
            assert tab.get_attribute("aria-selected") == "true"
            assert tab.evaluate("element => element === document.activeElement")
            assert tab.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
        page.locator("section.graph canvas").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert _task(page) != 0
        page.keyboard.press("ArrowUp")
        assert _task(page) < 5


def _task(page: Page) -> int:
    return int(page.locator(".details .facts td").first.inner_text().split()[0])


def test_kernels_sort_and_the_source_is_copied(browser: Browser, measured: Path):
    with opened(browser, measured) as page:
        show(page, "Kernels")
        column = "tbody tr td:nth-child(4)"
        page.get_by_role("button", name="all, µs").click()
        times = [float(t.replace(",", "")) for t in page.locator(column).all_inner_texts()]
        assert times == sorted(times)
        page.locator("tbody tr").first.focus()
        page.keyboard.press("Enter")
        assert "not recorded" in page.locator(".chosen").inner_text()
        assert page.locator("th[aria-sort=ascending]").count() == 1


def test_a_kernels_texts_are_shown_in_turn(browser: Browser, model_page: Path):
    with opened(browser, model_page) as page:
        show(page, "Kernels")
        page.locator("tbody tr").first.click()
        assert "T.Buffer" in page.locator("pre.source").inner_text()
        page.get_by_role("button", name="LLVM").click()
        assert "define internal void" in page.get_by_label("LLVM of the kernel").inner_text()
        page.get_by_role("button", name="Copy").click()
        assert page.get_by_role("status").last.inner_text() == "copied"


def test_measured_times_and_candidates_are_shown(browser: Browser, measured: Path):
    with opened(browser, measured) as page:
        show(page, "Timeline")
        tasks = drawn(page, "Timeline")
        assert page.get_by_role("table", name="Streams, measured").count() == 1
        show(page, "Choice")
        assert page.locator("figure.plot").first.inner_text().startswith("Candidates: measured")
        assert page.locator(".interval").count() > 2
        assert page.locator(".chosen-mark").count() == 1
        show(page, "Graph")
        assert tasks > drawn(page, "Graph", "shown")


def test_a_cpus_measured_run_has_a_row_a_thread(browser: Browser, folder: Path):
    path = folder / "threads.html"
    path.write_text(explore_page([on_threads(side_of(wide_schedule(12, 3), 1))]))
    with opened(browser, path) as page:
        assert "measured run" in page.inner_text(".figures")
        show(page, "Timeline")
        table = page.get_by_role("table", name="Threads, measured")
        assert table.locator("tbody tr").all_inner_texts() == [
            "0\t12\t22.80\t95.4\u00a0%\t0.00\t0",
            "1\t0\t16.80\t70.3\u00a0%\t16.80\t0",
        ]
        assert drawn(page, "Timeline") == 36
        box = page.locator("section.timeline canvas").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 150, box["y"] + box["height"] - 27)
        tip = page.locator(".tip").inner_text()
        show(page, "Kernels")
        assert "in the measured run" in page.inner_text("figure.roofline figcaption")
        row = page.locator("tbody tr").first.locator("td").all_inner_texts()
        assert row[2:6] == ["1", "1.90", "8.3\u00a0%", "1.90"]
        assert "in\u00a0the\u00a0run" in row
        assert "helps" in tip
        assert "helped by threads 1" in tip
        assert "of the bandwidth" in tip


def test_measured_tiles_are_shown_with_their_intervals(browser: Browser, folder: Path):
    path = folder / "tiles.html"
    side = side_of(wide_schedule(12, 3), 1)
    path.write_text(explore_page([with_tiles(side, "cuda:sm_90:tf32")]))
    with opened(browser, path) as page:
        show(page, "Choice")
        text = page.inner_text("section.choice")
        assert "Another than the fastest" in text
        assert "Measured on a GPU" in text
        rows = page.locator("section.choice .scroll tbody tr").all_inner_texts()
        assert [row.split("\t") for row in rows] == [
            ["1", "gemm", "64", "0.90", "0.85 to 0.99", "1.20"],
            ["✓\u00a02", "gemm", "128", "1.00", "not recorded", "not measured"],
        ]
        assert page.locator(".plot.tiles .interval").count() == 1
        assert page.locator(".plot.tiles .dot").count() == 1


def test_a_cpus_tiles_have_their_least_times_alone(browser: Browser, folder: Path):
    path = folder / "cpu-tiles.html"
    path.write_text(explore_page([with_tiles(side_of(wide_schedule(12, 3), 1), "cpu")]))
    with opened(browser, path) as page:
        show(page, "Choice")
        assert "it has no interval" in page.inner_text("section.choice")
        heads = page.locator("section.choice .scroll thead th").all_inner_texts()
        assert heads == ["tile", "template", "rows", "least, µs"]


def test_passes_are_compared_side_by_side(browser: Browser, model_page: Path):
    with opened(browser, model_page) as page:
        show(page, "Passes")
        page.locator("tbody tr", has_text="lower-to-taskflow").click()
        assert page.locator(".diff .changed").count() > 3
        assert "taskflow.launch" in page.locator(".diff").inner_text()
        page.locator("tbody tr", has_text="fuse-gathers").click()
        assert "changed nothing" in page.inner_text(".difference")
        page.locator("tbody tr", has_text="fuse-gathers").press("ArrowDown")
        assert "fuse-operators" in page.locator("tbody tr[aria-selected=true]").inner_text()


def test_an_arena_says_whose_bytes_are_reused(browser: Browser, large_page: Path):
    with opened(browser, large_page) as page:
        show(page, "Memory")
        page.locator("section.memory canvas").focus()
        for _ in range(30):
            page.keyboard.press("ArrowRight")
        assert "reuses the bytes of" in page.locator(".chosen").inner_text()


def test_two_modules_are_compared(browser: Browser, folder: Path):
    path = folder / "compared.html"
    small, wide = side_of(wide_schedule(40, 2), 1), side_of(wide_schedule(40, 4), 1)
    path.write_text(explore_page([small, wide]))
    with opened(browser, path) as page:
        text = page.inner_text("section.compare")
        assert re.search(
            r"predicted run\s+20\.00\s*µs\s+10\.00\s*µs\s+\u221210\.00\s*µs\s+0\.50", text
        )
        assert "name models" in text
        page.get_by_label("Graph that the views show").select_option("1")
        assert page.locator(".figures").inner_text().count("10.00") >= 1
        show(page, "Graph")
        assert drawn(page, "Graph", "shown") > 4


def test_a_programs_outline_leads_to_its_graphs(browser: Browser, folder: Path, tmp_path: Path):
    program: Any = compiler.compile(detector(folder / "detector.onnx"))
    for batch in (1, 2):
        program.run({"image": np.ones((batch, 3, 16, 16), np.float32)})
    program.save(folder / "detector")
    assert main(["explore", str(folder / "detector"), "-o", str(folder / "program.html")]) == 0
    with opened(browser, folder / "program.html") as page:
        text = page.inner_text("section.outline")
        assert "Steps of a run: 3, on the host: 1. Graphs compiled so far: 3." in text
        assert "8 nodes, Conv to Greater" in text
        assert "depends on values that are computed at run time" in text
        saved(page, Path(os.environ.get(PICTURES, tmp_path)) / "outline.png")
        graphs = page.get_by_label("Graph that the views show")
        labels = graphs.locator("option").all_inner_texts()
        (number,) = (i for i, label in enumerate(labels) if "image 2x3x16x16" in label)
        graphs.select_option(str(number))
        show(page, "Graph")
        assert drawn(page, "Graph", "shown") > 1
        show(page, "Passes")
        assert "flowloom explore MODEL" in page.inner_text("main")


def test_colours_follow_the_system_and_the_switch_and_paper_is_light(
    browser: Browser, model_page: Path
):
    with opened(browser, model_page, dark=True) as page:
        assert _light(page) < 60
        assert min(map(sum, colours(page, "section.graph canvas"))) < 9
        page.get_by_role("button", name="Use light colours").click()
        assert _light(page) > 230
        page.get_by_role("button", name="Use dark colours").click()
        page.emulate_media(media="print")
        assert _light(page) > 230
        assert not page.get_by_role("tablist").is_visible()
        assert page.locator("section.graph canvas").is_visible()
        assert page.pdf()[:4] == b"%PDF"


def _light(page: Page) -> int:
    """The brightness of the page's ground."""
    text: str = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return min(int(number) for number in re.findall(r"\d+", text)[:3])


def test_twenty_thousand_operators_are_searched_and_few_nodes_drawn(
    browser: Browser, large_page: Path
):
    with opened(browser, large_page) as page:
        assert drawn(page, "Graph") <= 1500
        page.get_by_role("button", name="Whole graph").click()
        page.locator(".graph canvas[data-shown='5000']").wait_for()
        assert 100 < drawn(page, "Graph") <= 1500
        page.keyboard.press("/")
        page.keyboard.type("axis=19998")
        page.keyboard.press("Enter")
        page.locator(".details td", has_text=f"{19998 // 4} of 5000").wait_for()
        assert 0 < drawn(page, "Graph") <= 1500
        assert page.locator("*").count() < 600
        page.get_by_role("button", name="Expand all").click()
        assert 0 < drawn(page, "Graph") <= 1500
        show(page, "Timeline")
        assert drawn(page, "Timeline") <= 1500 * 8


@pytest.fixture(scope="module")
def pictured(model_page: Path, folder: Path) -> Path:
    """The page whose pictures are taken: a real network's for the docs, else the small model's."""
    if PICTURES not in os.environ:
        return model_page
    options = ["--target", "cuda", "--precision", "fp16", "--budget", "0"]
    assert main(["explore", "zoo:googlenet", *options, "-o", str(folder / "zoo.html")]) == 0
    return folder / "zoo.html"


@pytest.fixture(scope="module")
def pictured_pair(folder: Path) -> Path:
    """A page of two: a real network in two precisions, else the small model on 1 and 4 streams."""
    pair = (folder / "before", folder / "after")
    options: list[list[str]] = [["--pipeline", ONE_STREAM], []]
    model = str(branches(folder / "pair.onnx"))
    if PICTURES in os.environ:
        model = "zoo:googlenet"
        on_a_gpu = ["--target", "cuda", "--budget", "0", "--precision"]
        options = [[*on_a_gpu, "tf32"], [*on_a_gpu, "fp16"]]
    for output, given in zip(pair, options, strict=True):
        assert main(["compile", model, *given, "-o", str(output)]) == 0
    assert main(["explore", *map(str, pair), "-o", str(folder / "pair.html")]) == 0
    return folder / "pair.html"


def test_a_picture_of_two_artifacts(browser: Browser, pictured_pair: Path, tmp_path: Path):
    with opened(browser, pictured_pair) as page:
        show(page, "Compare")
        assert "predicted run" in page.inner_text("section.compare")
        saved(page, Path(os.environ.get(PICTURES, tmp_path)) / "compare.png")


def saved(page: Page, path: Path) -> tuple[int, int]:
    """Save a picture of the window in few colours; its width and height."""
    shown = picture(page.screenshot())
    shown.save(path, optimize=True)
    assert path.stat().st_size < 250_000
    return shown.size


def shown_off(page: Page, view: str) -> None:
    """Show a view with something selected, as the docs' pictures have it."""
    show(page, view)
    if view in ("Graph", "Memory"):
        page.locator("main canvas").focus()
        for _ in range(9):
            page.keyboard.press("ArrowDown")
    if view == "Kernels":
        page.locator("tbody tr").first.click()
    if view == "Passes":
        page.locator("tbody tr", has_text="lower-to-taskflow").click()


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), pytest.param(1920, True, marks=pytest.mark.deep)]
)
def test_pictures_of_every_view_fit_the_window(
    browser: Browser, pictured: Path, tmp_path: Path, width: int, dark: bool
):
    pictures = Path(os.environ.get(PICTURES, tmp_path))
    with opened(browser, pictured, width, dark) as page:
        for view in VIEWS:
            shown_off(page, view)
            overflow: int = page.evaluate(
                """() => Math.max(...[document.body, ...document.querySelectorAll("main, section")]
                    .map(element => element.scrollWidth - element.clientWidth))"""
            )
            assert overflow <= 0, view
            path = pictures / f"{view.lower()}{'-dark' if dark else ''}.png"
            assert saved(page, path) == (width, page.evaluate("innerHeight"))
            if view == "Choice" and page.locator("figure.tiles").count():
                page.locator("figure.tiles").scroll_into_view_if_needed()
                saved(page, pictures / f"tiles{'-dark' if dark else ''}.png")
