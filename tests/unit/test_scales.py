"""Axes: round numbers with their units, few enough to be read."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hyperslab.figures.scales import BYTES, logarithmic, tick

COUNTS = (("", 1.0),)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.05, "50 ms"), (2, "2 s"), (0.0015, "1.5 ms")])
def test_times_have_a_prefix(value: float, text: str) -> None:
    assert tick(value) == text


@pytest.mark.parametrize(("value", "text"), [(300, "300"), (1000, "1,000"), (30000, "30,000")])
def test_counts_are_written_out(value: float, text: str) -> None:
    assert tick(value, COUNTS) == text


@pytest.mark.parametrize("values", [[71.6e6], [1e6, 1.1e6], [5e3, 5e9], [2e3, 9e3]])
@pytest.mark.parametrize("inches", [2.4, 4.0])
def test_numbers_of_a_logarithmic_axis_do_not_overlap(values: list[float], inches: float) -> None:
    figure = Figure(figsize=(inches / 0.8, 2))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.1, 0.3, 0.8, 0.6))
    logarithmic(axes.xaxis, values, "size", BYTES, inches=inches)
    figure.canvas.draw()
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticklabels(), axes.get_xticks(), strict=True)
    shown = [label.get_window_extent() for label, place in ticks if low <= place <= high]
    assert shown
    assert all(left.x1 < right.x0 for left, right in zip(shown, shown[1:], strict=False))
