"""A line of the evaluation: what was measured, how often, how sure, and whether it is enough."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

import numpy as np


def wilson(hits: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """95 % confidence interval of a share (Wilson, 1927): right near 0 and 1, where the normal approximation isn't."""
    if not 0 <= hits <= count or count == 0:
        raise ValueError(f"{hits} hits of {count}")
    share, square = hits / count, z * z
    centre = (share + square / (2 * count)) / (1 + square / count)
    spread = z / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, centre - spread), min(1.0, centre + spread)


@dataclass(frozen=True)
class Line:
    """`passed` compares the value itself with the bar; `sure` says that the whole interval is on the right side. Lines without a bar inform only."""

    name: str
    value: float
    unit: str
    count: int | None = None
    interval: tuple[float, float] | None = None
    bar: str | None = None
    passed: bool | None = None
    sure: bool | None = None
    note: str | None = None

    def as_json(self) -> str:
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None})


def share_line(name: str, hits: int, count: int, at_least: float | None = None, note: str | None = None) -> Line:
    low, high = wilson(hits, count)
    value = hits / count
    return Line(
        name, round(value, 4), "share", count, (round(low, 4), round(high, 4)), None if at_least is None else f">= {at_least}",
        None if at_least is None else value >= at_least, None if at_least is None else low >= at_least, note,
    )


def mean_line(name: str, values: list[float] | np.ndarray, unit: str, at_least: float | None = None, note: str | None = None) -> Line:
    """A mean with its 95 % interval by the normal approximation."""
    values = np.asarray(values, float)
    mean, spread = float(values.mean()), 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values))
    return interval_line(name, mean, (mean - spread, mean + spread), unit, len(values), at_least, note)


def interval_line(
    name: str, value: float, interval: tuple[float, float], unit: str, count: int, at_least: float | None = None, note: str | None = None,
) -> Line:
    low, high = (round(float(end), 4) for end in interval)
    return Line(
        name, round(value, 4), unit, count, (low, high), None if at_least is None else f">= {at_least}", None if at_least is None else bool(value >= at_least),
        None if at_least is None else bool(low >= at_least), note,
    )


def number_line(
    name: str, value: float, unit: str, at_least: float | None = None, at_most: float | None = None, count: int | None = None, note: str | None = None,
) -> Line:
    value = float(value)  # numpy's own numbers and truth values are no JSON
    bars = [f">= {at_least}"] * (at_least is not None) + [f"<= {at_most}"] * (at_most is not None)
    passed = None if not bars else (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
    return Line(name, round(value, 4), unit, count, None, " and ".join(bars) or None, passed, None, note)
