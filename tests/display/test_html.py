"""Notebook views of modules and schedules."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from onnx import numpy_helper, parser

import compiler
from compiler.display import html
from compiler.display.picture import picture, unit_spans
from compiler.schedule.tasks import Schedule, Task

EVIL = "<script>&\"'"


class Tags(HTMLParser):
    """Collects the tags of a page, and checks that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.opened: list[str] = []
        self.feed(text)
        self.close()
        assert not self.opened

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember a tag."""
        self.found.add(tag)
        if tag not in ("br", "rect", "path"):
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that it is the one that is open."""
        if tag not in ("rect", "path"):
            assert self.opened.pop() == tag


def module(text: str = "float[2,4] x", result: str = "float[2,3] y") -> compiler.Module:
    """A module of two kernels at least; its node has a name that is markup."""
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18]> g ({text}) => ({result})'
        "{ a = MatMul (x, w)  y = Softmax (a) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 3), np.float32), "w"))
    model.graph.name = model.graph.node[0].name = EVIL
    return compiler.compile(model)


def test_a_module_shows_a_table_and_its_timeline():
    made = module()
    shown = made._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert {"table", "svg", "rect"} <= Tags(shown).found
    assert "script" not in Tags(shown).found
    for expected in ("x: float32[2, 4]", "y: float32[2, 3]", "predicted", made.target, "weights"):
        assert expected in shown


def test_a_dynamic_module_shows_what_it_compiled():
    made = module("float[n,4] x", "float[n,3] y")
    before = made._repr_html_()  # pyright: ignore[reportPrivateUsage]
    made.run({"x": np.ones((20_000, 4), np.float32)})
    after = made._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "x: float32[n, 4]" in before
    assert "0 compiled" in before
    assert "1 compiled" in after
    assert "script" not in Tags(after).found


def chain(kernels: int) -> Schedule:
    """Tasks on two streams in turn, each after the one before."""
    tasks = [
        Task(f"k{i}", i % 2, (i - 1,) if i else (), (), (), nodes=(EVIL,)) for i in range(kernels)
    ]
    return Schedule(EVIL, (), tuple(tasks))


def test_a_schedule_shows_the_order_of_its_tasks():
    schedule = chain(4)
    assert unit_spans(schedule) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    shown = schedule._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert Tags(shown).found >= {"svg", "table"}
    assert repr(schedule) == f"<Schedule {EVIL!r}: 4 tasks of 4 kernels on 2 streams>"
    assert "rect" not in Tags(chain(0)._repr_html_()).found  # pyright: ignore[reportPrivateUsage]


def test_a_large_schedule_is_not_drawn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(html, "MOST_TASKS", 3)
    shown = chain(4)._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "svg" not in Tags(shown).found
    assert "more than 3 tasks is not drawn" in shown


@pytest.mark.parametrize("end", [0.3, 7.0, 123456.0])
def test_a_picture_has_few_marks_whatever_its_length(end: float):
    schedule = chain(2)
    root = ElementTree.fromstring(picture(schedule, [(0, end / 2), (end / 2, end)], EVIL))
    marks = [path for path in root.iter() if path.get("class") == "axis"]
    assert 1 <= len(marks) <= 11
    boxes = [box for box in root.iter() if box.tag.endswith("rect") and box.get("rx") == "3"]
    assert len(boxes) == 2


def test_a_module_without_the_compilers_libraries_shows_its_table(tmp_path: Path):
    module().save(tmp_path / "saved")
    script = (
        "import sys\n"
        "sys.modules['xdsl'] = sys.modules['xdsl.dialects'] = None\n"
        "import compiler\n"
        f"module = compiler.load({str(tmp_path / 'saved')!r})\n"
        "print(module._repr_html_())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "not predicted: xdsl" in ran.stdout
    assert "<svg" in ran.stdout
