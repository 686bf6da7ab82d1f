"""Draws the predicted timeline of a compiled model.

flowloom compile zoo:googlenet --target cuda --precision fp16 --budget 0 -o googlenet
python benchmarks/scheduling/picture.py googlenet --title GoogLeNet -o docs/schedule.svg
"""

import argparse
from pathlib import Path

from compiler.display.picture import picture
from compiler.tools.inspection import open_module, prediction


def main() -> None:
    """Draw the artifact that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--title", help="the model's name (default: its graph's)")
    options = parser.parse_args()
    module = open_module(options.artifact)
    tasks, streams = len(module.schedule.tasks), module.schedule.streams
    name = options.title or module.schedule.name
    title = f"{name}: {tasks} kernels on {streams} streams"
    drawn = picture(module.schedule, prediction(module).spans, title)
    options.output.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
