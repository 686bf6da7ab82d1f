"""Draws times with their confidence intervals as SVG: a row and a bar each."""

from collections.abc import Mapping
from html import escape

from compiler.display.picture import STYLE, WIDTH
from compiler.schedule.choices import Timing

ROW, BAR, MARGIN = 30, 16, 16
"""Pixels: a row, the bar in it, and the space around all."""

CHARACTER = 7.2
"""Pixels of a character, on average."""


def intervals_svg(timings: Mapping[str, Timing]) -> str:
    """Bars from zero to each median in milliseconds, with a line over its 95 % interval."""
    longest = max((t.high for t in timings.values()), default=1.0) or 1.0
    left = MARGIN + CHARACTER * max(map(len, timings), default=0)
    left = min(left, WIDTH / 2)
    width = WIDTH - left - 110  # the figures are right of the bars
    elements: list[str] = []
    for row, (name, t) in enumerate(timings.items()):
        top = MARGIN + ROW * row
        middle = top + BAR / 2
        low, median, high = (left + width * ns / longest for ns in (t.low, t.median, t.high))
        label = escape(name if len(name) * CHARACTER < WIDTH / 2 else f"{name[:58]}...")
        elements += [
            f'<text x="{left - 8:.1f}" y="{middle + 4:.1f}" text-anchor="end">{label}</text>',
            f'<rect x="{left:.1f}" y="{top}" width="{median - left:.1f}" height="{BAR}" rx="2"'
            f' fill="#4c8dd6"><title>{escape(name)}: {t.count} runs</title></rect>',
            f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {top + 3}v{BAR - 6}'
            f'M{high:.1f} {top + 3}v{BAR - 6}" stroke="#e0903a" stroke-width="2"/>',
            f'<text x="{high + 8:.1f}" y="{middle + 4:.1f}">{t.median / 1e6:.4g} ms</text>',
        ]
    body = "\n".join(elements)
    height = 2 * MARGIN + ROW * len(timings)
    space = 'xmlns="http://www.w3.org/2000/svg"'
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
    return f'<svg {space} class="flowloom" {size}>\n<style>{STYLE}</style>\n{body}\n</svg>\n'
