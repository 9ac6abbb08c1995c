"""Training curves: one JSON object a line while training, drawn as a PNG afterwards.

`python -m segue_drive.training.curves LOG.jsonl PICTURE.png`
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from PIL import Image, ImageDraw

PANEL = (420, 200)
MARGIN = (56, 26, 14, 24)  # left, top, right, bottom
COLOURS = ("#1f5fa8", "#c4551a", "#2a7f48", "#7a3fa0")


class CurveLog:
    """Appends numbers with step and wall-clock; a resumed run goes on in the same file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", buffering=1)

    def write(self, step: int, **values: float | str) -> None:
        row = {"step": step, "time": round(time.time(), 1), **{k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}}
        self._file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Series by name, of (step, value)."""
    series: dict[str, list[tuple[int, float]]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        for name, value in row.items():
            if name not in ("step", "time") and isinstance(value, (int, float)):
                series.setdefault(name, []).append((row["step"], float(value)))
    return series


def draw(series: dict[str, list[tuple[int, float]]], path: Path) -> None:
    """One panel a series, three in a row."""
    columns = 3
    rows = -(-len(series) // columns)
    image = Image.new("RGB", (columns * PANEL[0], rows * PANEL[1]), "white")
    canvas = ImageDraw.Draw(image)
    for index, (name, points) in enumerate(series.items()):
        x0, y0 = index % columns * PANEL[0], index // columns * PANEL[1]
        _panel(canvas, (x0, y0), name, points, COLOURS[index % len(COLOURS)])
    image.save(path, optimize=True)


def _panel(canvas: ImageDraw.ImageDraw, origin: tuple[int, int], name: str, points: list[tuple[int, float]], colour: str) -> None:
    left, top = origin[0] + MARGIN[0], origin[1] + MARGIN[1]
    right, bottom = origin[0] + PANEL[0] - MARGIN[2], origin[1] + PANEL[1] - MARGIN[3]
    steps, values = [p[0] for p in points], [p[1] for p in points]
    low, high = min(values), max(values)
    span, width = (high - low) or 1.0, (max(steps) - min(steps)) or 1
    canvas.rectangle((left, top, right, bottom), outline="#999999")
    canvas.text((left, origin[1] + 6), f"{name}: {values[-1]:.4g}", fill="black")
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (bottom - top)
        canvas.text((origin[0] + 4, y - 6), f"{low + share * span:.4g}", fill="#555555")
    canvas.text((left, bottom + 4), str(min(steps)), fill="#555555")
    canvas.text((right - 36, bottom + 4), str(max(steps)), fill="#555555")
    line = [(left + (s - min(steps)) / width * (right - left), bottom - (v - low) / span * (bottom - top)) for s, v in points]
    if len(line) > 1:
        canvas.line(line, fill=colour, width=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("picture", type=Path)
    args = parser.parse_args()
    draw(read(args.log), args.picture)


if __name__ == "__main__":
    main()
