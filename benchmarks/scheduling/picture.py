"""Draws the predicted timeline of a compiled model: a row a stream, a box a task, a curve a wait.

flowloom compile zoo:googlenet --target cuda --precision fp16 --budget 0 -o googlenet
python benchmarks/scheduling/picture.py googlenet --title GoogLeNet -o docs/schedule.svg
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from compiler.schedule import Schedule
from compiler.tools.inspection import open_module, prediction

WIDTH, LEFT, TOP, ROW, BOX = 900, 72, 44, 46, 26
"""Pixels: the whole picture, the margins, a stream's row and the boxes in it."""

KINDS = {
    "contraction": ("convolution or GEMM", "#4c8dd6"),
    "pool": ("pooling", "#e0903a"),
    "other": ("other", "#8f8f9b"),
}
"""The label and the colour of each kind of kernel; all are legible on white and on black."""

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #59636e }
.wait { fill: none; stroke: #8f8f9b; stroke-width: 1; opacity: .55 }
.axis { stroke: #8f8f9b; stroke-width: 1; opacity: .35 }
.title { font-weight: 600 }
@media (prefers-color-scheme: dark) { text { fill: #9198a1 } }
"""

Span = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """Maps microseconds and streams to pixels."""

    end: float

    def x(self, time: float) -> float:
        """The pixel column of a time in microseconds."""
        return LEFT + (WIDTH - LEFT - 16) * time / self.end

    @staticmethod
    def y(stream: int) -> float:
        """The pixel row of the top of a stream's boxes."""
        return TOP + ROW * stream


def kind_of(kernel: str) -> str:
    """The kind of a kernel, by the operators that its name lists."""
    name = kernel.lower()
    if any(word in name for word in ("conv", "gemm", "matmul", "contraction")):
        return "contraction"
    return "pool" if "pool" in name else "other"


def box(scale: Scale, kernel: str, nodes: Sequence[str], stream: int, span: Span) -> str:
    """One task."""
    start, end = span
    x, width = scale.x(start), max(1.5, scale.x(end) - scale.x(start) - 1)
    title = escape(f"{', '.join(nodes)}: {end - start:.1f} us")
    return (
        f'<rect x="{x:.1f}" y="{scale.y(stream)}" width="{width:.1f}" height="{BOX}" rx="3"'
        f' fill="{KINDS[kind_of(kernel)][1]}"><title>{title}</title></rect>'
    )


def wait(scale: Scale, source: tuple[int, float], target: tuple[int, float]) -> str:
    """A curve from the end of a task to the start of one on another stream that waits for it."""
    (first, end), (second, start) = source, target
    down = second > first
    x, y = scale.x(end), scale.y(first) + (BOX if down else 0)
    to_x, to_y = scale.x(start), scale.y(second) + (0 if down else BOX)
    middle = (y + to_y) / 2
    curve = f"M{x:.1f} {y}C{x:.1f} {middle} {to_x:.1f} {middle} {to_x:.1f} {to_y}"
    return f'<path class="wait" d="{curve}"/>'


def axis(scale: Scale, bottom: float) -> Iterator[str]:
    """Vertical lines at round times, with their microseconds."""
    step = next(s for s in (5, 10, 20, 25, 50, 100, 200, 500, 1000) if scale.end / s <= 10)
    for time in range(0, int(scale.end) + 1, step):
        x = scale.x(time)
        yield f'<path class="axis" d="M{x:.1f} {TOP - 8}V{bottom:.1f}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{time} µs</text>'


def legend() -> Iterator[str]:
    """The meaning of the colours, at the top right."""
    x = WIDTH - 330
    for label, colour in KINDS.values():
        yield f'<rect x="{x}" y="10" width="12" height="12" rx="2" fill="{colour}"/>'
        yield f'<text x="{x + 17}" y="20">{label}</text>'
        x += 40 + 7 * len(label)


def picture(schedule: Schedule, spans: Sequence[Span], title: str) -> str:
    """The SVG of a schedule whose tasks start and end at these microseconds."""
    scale = Scale(max(end for _, end in spans))
    bottom = TOP + ROW * schedule.streams - (ROW - BOX) + 8
    parts = [f'<text class="title" x="8" y="20">{escape(title)}</text>', *legend()]
    parts += axis(scale, bottom)
    for stream in range(schedule.streams):
        parts.append(f'<text x="8" y="{scale.y(stream) + 17}">stream {stream}</text>')
    tasks = schedule.tasks
    for task, (start, _) in zip(tasks, spans, strict=True):
        for other in task.after:
            if tasks[other].stream != task.stream:
                ends = (tasks[other].stream, spans[other][1]), (task.stream, start)
                parts.append(wait(scale, *ends))
    for task, span in zip(tasks, spans, strict=True):
        parts.append(box(scale, task.kernel, task.nodes, task.stream, span))
    body = "\n".join(parts)
    size = f'viewBox="0 0 {WIDTH} {bottom + 26:.0f}" width="{WIDTH}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>\n{body}\n</svg>\n'
    )


def main() -> None:
    """Draw the artifact that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--title", help="the model's name (default: its graph's)")
    options = parser.parse_args()
    module = open_module(options.artifact)
    line = prediction(module).timeline
    spans = [(s / 1e3, e / 1e3) for s, e in zip(line.start, line.end, strict=True)]
    tasks, streams = len(module.schedule.tasks), module.schedule.streams
    name = options.title or module.schedule.name
    title = f"{name}: {tasks} kernels on {streams} streams"
    options.output.write_text(picture(module.schedule, spans, title), encoding="utf-8")


if __name__ == "__main__":
    main()
