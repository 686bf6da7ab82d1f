"""Draws the timeline of a schedule as SVG: a row a stream, a box a task, a curve a wait."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.schedule.tasks import Schedule

WIDTH, LEFT, TOP, ROW, BOX = 900, 72, 44, 46, 26
"""Pixels: the whole picture, the margins, a stream's row and the boxes in it."""

KERNEL_COLOURS = {
    "contraction": ("convolution or GEMM", "#4c8dd6"),
    "pool": ("pooling", "#e0903a"),
    "other": ("other", "#8f8f9b"),
}
"""The label and the colour of each kind of kernel; all are legible on white and on black."""

STYLE = """
.flowloom text { font: 12px system-ui, sans-serif; fill: #59636e }
.flowloom .wait { fill: none; stroke: #8f8f9b; stroke-width: 1; opacity: .55 }
.flowloom .axis { stroke: #8f8f9b; stroke-width: 1; opacity: .35 }
.flowloom .title { font-weight: 600 }
@media (prefers-color-scheme: dark) { .flowloom text { fill: #9198a1 } }
"""

TimeSpan = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """Maps times in some unit and streams to pixels."""

    end: float
    unit: str = "µs"

    def x(self, time: float) -> float:
        """The pixel column of a time."""
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


def box(scale: Scale, kernel: str, nodes: Sequence[str], stream: int, span: TimeSpan) -> str:
    """One task."""
    start, end = span
    x = scale.x(start)
    width = max(1.5, scale.x(end) - scale.x(start) - 1)
    title = escape(f"{', '.join(nodes) or kernel}: {end - start:.1f} {scale.unit}")
    return (
        f'<rect x="{x:.1f}" y="{scale.y(stream)}" width="{width:.1f}" height="{BOX}" rx="3"'
        f' fill="{KERNEL_COLOURS[kind_of(kernel)][1]}"><title>{title}</title></rect>'
    )


def wait(scale: Scale, source: tuple[int, float], target: tuple[int, float]) -> str:
    """A curve from the end of a task to the start of one on another stream that waits for it."""
    (first, end), (second, start) = source, target
    down = second > first
    x = scale.x(end)
    y = scale.y(first) + (BOX if down else 0)
    to_x = scale.x(start)
    to_y = scale.y(second) + (0 if down else BOX)
    middle = (y + to_y) / 2
    curve = f"M{x:.1f} {y}C{x:.1f} {middle} {to_x:.1f} {middle} {to_x:.1f} {to_y}"
    return f'<path class="wait" d="{curve}"/>'


def axis(scale: Scale, bottom: float) -> Iterator[str]:
    """Vertical lines at round times, at most eleven."""
    steps = (factor * 10**power for power in count() for factor in (1, 2, 5))
    step = next(step for step in steps if scale.end / step <= 10)
    for time in range(0, int(scale.end) + 1, step):
        x = scale.x(time)
        yield f'<path class="axis" d="M{x:.1f} {TOP - 8}V{bottom:.1f}"/>'
        label = f"{time} {scale.unit}"
        yield f'<text x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{label}</text>'


def legend() -> Iterator[str]:
    """The meaning of the colours, at the top right."""
    x = WIDTH - 330
    for label, colour in KERNEL_COLOURS.values():
        yield f'<rect x="{x}" y="10" width="12" height="12" rx="2" fill="{colour}"/>'
        yield f'<text x="{x + 17}" y="20">{label}</text>'
        x += 40 + 7 * len(label)


def unit_spans(schedule: "Schedule") -> list[TimeSpan]:
    """Start and end of each task, if all tasks took one unit of time and kernels were not late."""
    ends: list[float] = []
    free: dict[int, float] = {}
    for task in schedule.tasks:
        start = max(
            (free.get(task.stream, 0.0), *(ends[predecessor] for predecessor in task.after))
        )
        ends.append(start + 1)
        free[task.stream] = start + 1
    return [(end - 1, end) for end in ends]


def picture(schedule: "Schedule", spans: Sequence[TimeSpan], title: str, unit: str = "µs") -> str:
    """The SVG of a schedule whose tasks start and end at these times."""
    scale = Scale(max((end for _, end in spans), default=1.0), unit)
    bottom = TOP + ROW * schedule.streams - (ROW - BOX) + 8
    elements = [f'<text class="title" x="8" y="20">{escape(title)}</text>', *legend()]
    elements += axis(scale, bottom)
    for stream in range(schedule.streams):
        elements.append(f'<text x="8" y="{scale.y(stream) + 17}">stream {stream}</text>')
    tasks = schedule.tasks
    for task, (start, _) in zip(tasks, spans, strict=True):
        for predecessor in task.after:
            if tasks[predecessor].stream != task.stream:
                ends = (tasks[predecessor].stream, spans[predecessor][1]), (task.stream, start)
                elements.append(wait(scale, *ends))
    # boxes come last, to cover the ends of the curves
    for task, span in zip(tasks, spans, strict=True):
        elements.append(box(scale, task.kernel, task.nodes, task.stream, span))
    body = "\n".join(elements)
    size = f'viewBox="0 0 {WIDTH} {bottom + 26:.0f}" width="{WIDTH}"'
    space = 'xmlns="http://www.w3.org/2000/svg"'
    return f'<svg {space} class="flowloom" {size}>\n<style>{STYLE}</style>\n{body}\n</svg>\n'
