"""A page of the explorer in Debian's Chromium, without network."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.tools import find

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
PICTURES = "FLOWLOOM_PICTURES"
"""A folder for pictures of every view; those of a docs' model if it is set, see test_pictures."""

SIZES = {1280: ViewportSize(width=1280, height=800), 1920: ViewportSize(width=1920, height=1080)}


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser; the test is skipped without it, and fails with CI=true."""
    path = find("chromium")
    if path is None:
        reason = "chromium: install the package chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, path: Path, width: int = 1280, dark: bool = False) -> Generator[Page]:
    """The page in a window; whatever it writes to the console, or asks a network for, fails."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport=SIZES[width], color_scheme=scheme)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: faults.extend(_foreign(request.url)))
    page.goto(path.as_uri())
    page.wait_for_selector("[role=tab]")
    yield page
    context.close()
    assert not faults


def picture(screenshot: bytes) -> Image.Image:
    """A screenshot in 256 colours, so that it is small: frequent ones, and rare and vivid ones."""
    shown = Image.open(BytesIO(screenshot)).convert("RGB")
    red, green, blue = np.moveaxis(np.asarray(shown).astype(np.int64), 2, 0)
    codes, places, counts = np.unique(
        red << 16 | green << 8 | blue, return_inverse=True, return_counts=True
    )
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], 1)
    vivid = shown.quantize(64, Image.Quantize.MAXCOVERAGE).getpalette() or []
    frequent = colours[np.argsort(-counts)[:192]]
    palette = np.concatenate([frequent, np.reshape(vivid, (-1, 3))]).astype(np.int64)
    distances = np.square(colours[:, None] - palette[None]).sum(2)
    nearest = distances.argmin(1)[places].reshape(red.shape).astype(np.uint8)
    reduced = Image.fromarray(nearest, "P")
    reduced.putpalette(palette.astype(np.uint8).tobytes())
    return reduced


def _foreign(url: str) -> list[str]:
    """The address, unless it is the file itself."""
    return [] if url.startswith(("file:", "data:", "blob:")) else [url]


def show(page: Page, tab: str) -> None:
    """Show a view."""
    page.get_by_role("tab", name=tab, exact=True).click()
    page.get_by_role("tabpanel").get_by_label(tab, exact=True).first.wait_for()


def drawn(page: Page, tab: str, what: str = "drawn") -> int:
    """The number of things that a view's canvas shows."""
    canvas = page.locator(f"section.{tab.lower()} canvas[data-{what}]")
    return int(canvas.get_attribute(f"data-{what}") or -1)


def colours(page: Page, selector: str) -> set[tuple[int, int, int]]:
    """The distinct opaque colours of a canvas, each channel rounded to 16 steps."""
    found: list[list[int]] = page.evaluate(
        """selector => {
            const canvas = document.querySelector(selector);
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            const found = new Set();
            for (let i = 0; i < data.length; i += 4) {
                if (data[i + 3] > 250) found.add([0, 1, 2].map(n => data[i + n] >> 4).join());
            }
            return [...found].map(text => text.split(",").map(Number));
        }""",
        selector,
    )
    return {(red, green, blue) for red, green, blue in found}
