"""Figures as SVG inside the page: columns, lines over time, and a distribution. Colours are classes of its style."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whylat_fleet.report.html import Html, key, tag

WIDTH, HEIGHT = 760, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 8, 26
WIDEST = 48
"""Width of a column, at most."""
LABELS = 9
"""Labels below a figure, at most."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values with a name and the name of a colour. None is drawn as a gap: it was not measured."""

    name: str
    colour: str
    values: list[float | None] | list[float]


def ticks(most: float) -> list[float]:
    """Round numbers from 0 to `most` or just above."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= rough * (1 - 1e-9))
    return [number * step for number in range(math.ceil(most / step - 1e-9) + 1)]


def _format_value(value: float) -> str:
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"


def _to_x(index: float, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * index / max(count, 1)


def _to_y(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most


def _frame(most: float, labels: Sequence[tuple[float, str]], percent: bool = False) -> list[Html]:
    """Lines across with their numbers, and labels below at their places."""
    parts = []
    for value in ticks(most):
        y = f"{_to_y(value, ticks(most)[-1]):.1f}"
        parts.append(tag("line", class_="grid", x1=str(LEFT), x2=str(WIDTH - RIGHT), y1=y, y2=y))
        words = f"{value:.0%}" if percent else _format_value(value)
        parts.append(tag("text", words, class_="axis end", x=str(LEFT - 6), y=f"{float(y) + 4:.1f}"))
    for x, label in labels:
        parts.append(tag("text", label, class_="axis middle", x=f"{x:.1f}", y=str(HEIGHT - 8)))
    return parts


def _thin_labels(names: Sequence[str]) -> list[int]:
    step = max(1, math.ceil(len(names) / LABELS))
    return list(range(0, len(names), step))


def _figure(title: str, parts: Sequence[Html], series: Sequence[Series]) -> Html:
    drawn = tag("svg", *parts, class_="figure", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=title)
    legend = [tag("li", key(one.colour, one.name)) for one in series]
    return tag("figure", tag("figcaption", title), drawn, *([tag("ul", *legend, class_="legend")] if legend else []))


def bars(title: str, names: Sequence[str], series: Sequence[Series], stacked: bool = False) -> Html:
    """Columns, one group for each name: beside each other, or on top of each other."""
    count, lanes = len(names), 1 if stacked else len(series)
    heights = [[value or 0.0 for value in one.values] for one in series]
    most = max((sum(column) if stacked else max(column) for column in zip(*heights, strict=True)), default=0.0)
    top = ticks(most)[-1]
    gap = 0.0 if count > 60 else 0.25
    width = min((WIDTH - LEFT - RIGHT) / max(count, 1) * (1 - gap) / lanes, WIDEST)
    parts = _frame(most, [(_to_x(index + 0.5, count), names[index]) for index in _thin_labels(names)])
    for index, name in enumerate(names):
        below = 0.0
        for lane, (one, values) in enumerate(zip(series, heights, strict=True)):
            value = values[index]
            if value > 0:
                x = _to_x(index + 0.5, count) + (-0.5 if stacked else lane - lanes / 2) * width
                y, foot = _to_y(below + value, top), _to_y(below, top)
                shape = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{width:.2f}", "height": f"{foot - y:.2f}"}
                parts.append(
                    tag("rect", tag("title", f"{name}: {one.name} {value:,.10g}"), class_=f"f-{one.colour}", **shape)
                )
                below += value if stacked else 0.0
    return _figure(title, parts, series if len(series) > 1 else [])


def lines(title: str, names: Sequence[str], series: Sequence[Series]) -> Html:
    """Values over steps of time. A gap where one was not measured."""
    count = len(names)
    most = max((value for one in series for value in one.values if value is not None), default=0.0)
    top = ticks(most)[-1]
    parts = _frame(most, [(_to_x(index + 0.5, count), names[index]) for index in _thin_labels(names)])
    for one in series:
        path, command = [], "M"
        for index, value in enumerate(one.values):
            if value is None:
                command = "M"
                continue
            # a step: the value holds for the whole of it, also where its neighbours are not measured
            y = f"{_to_y(value, top):.1f}"
            path.append(f"{command}{_to_x(index, count):.1f} {y}H{_to_x(index + 1, count):.1f}")
            command = "L"
        parts.append(tag("path", class_=f"line s-{one.colour}", d="".join(path)))
    return _figure(title, parts, series)


def distribution(title: str, points: Sequence[tuple[float, float]]) -> Html:
    """A cumulative distribution over a logarithmic axis."""
    if not points:
        return Html("")
    most = max(1.0, math.ceil(math.log10(max(points[-1][0], 1.0))))
    parts = _frame(1.0, [(_to_x(power, int(most)), _format_value(10.0**power)) for power in range(int(most) + 1)], True)
    path, at = [f"M{_to_x(0, 1):.1f} {_to_y(0, 1):.1f}"], 0.0
    for value, share in points:
        at = _to_x(math.log10(max(value, 1.0)) / most, 1)
        path.append(f"H{at:.1f}V{_to_y(share, 1):.1f}")
    path.append(f"H{_to_x(1, 1):.1f}")
    parts.append(tag("path", class_="line s-hosts", d="".join(path)))
    return _figure(title, parts, [])
