"""Names beside points so that none covers another: each is tried around its point, near before far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

Pixels = NDArray[np.float64]
Point = tuple[float, float]

# Points (1/72 inch) from the point to the nearest edge or corner of its name.
RADII = (9, 15, 22, 31, 42, 56, 72, 90, 112)
# A front falls from left to right, so above on the right and below on the left are free first.
ANGLES = (45, 0, -135, 180, 20, 65, -160, -115, 90, -90, 135, -45, 160, -20, 115, -65)


def place(
    axes: Axes,
    points: Mapping[str, Point],
    names: Sequence[tuple[str, str, str]],
    size: float,
    line: Sequence[Point] = (),
) -> None:
    """Write `names` (key of `points`, text, colour) beside their points, in letters of `size` points.

    `points` and the joined `line`, in data units, are kept free. Call it when the axes have their final place
    and limits. A name that finds no free place is put where it covers least; one that is not next to its
    point is joined to it.
    """
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    scale = figure.dpi / 72
    where = {key: axes.transData.transform(point) for key, point in points.items()}
    marks = np.array([*where.values()])
    track = _along([axes.transData.transform(point) for point in line], 4 * scale)
    kept_free = np.vstack([_squares(marks, 4 * scale), _squares(track, 1.5 * scale)])
    frame = np.array(axes.get_window_extent(renderer).extents)
    taken = np.empty((0, 4))
    for key, text, colour in names:
        others = np.vstack([_squares(marks[[name != key for name in where]], 4 * scale), taken])
        label = axes.annotate(
            text, points[key], xytext=(0, 0), textcoords="offset points", color=colour, fontsize=size,
            fontweight="bold", ha="left", va="center", zorder=8,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3},
        )  # fmt: skip
        label.set_in_layout(False)
        extent = label.get_window_extent(renderer)
        boxes = _candidates(where[key], extent.width, extent.height, scale)
        best = int(np.argmin(_cost(boxes, where[key], taken, kept_free, others, frame)))
        left, middle = boxes[best, 0] - where[key][0], boxes[best, [1, 3]].mean() - where[key][1]
        label.set_position((left / scale, middle / scale))
        if best < len(ANGLES) and label.arrow_patch is not None:
            label.arrow_patch.set_visible(False)
        taken = np.vstack([taken, boxes[best] + 2 * scale * np.array([-1, -1, 1, 1])])


def _candidates(point: Pixels, width: float, height: float, scale: float) -> Pixels:
    """Return the boxes (left, bottom, right, top) around a point, near ones first: one a radius and angle."""
    radius, angle = (part.ravel() for part in np.meshgrid(RADII, np.radians(ANGLES), indexing="ij"))
    along, up = np.cos(angle), np.sin(angle)
    beside = np.select([along > 0.1, along < -0.1], [0, -width], -width / 2)
    left = point[0] + radius * scale * along + beside
    bottom = point[1] + radius * scale * up + height / 2 * (up - 1)
    return np.column_stack([left, bottom, left + width, bottom + height])


def _cost(
    boxes: Pixels, point: Pixels, taken: Pixels, kept_free: Pixels, crossable: Pixels, frame: Pixels
) -> Pixels:
    """Return what each box would cover, in square pixels, and a little for its distance.

    Names count tenfold, and so does what the line from the box to its point crosses of the `crossable`; what
    lies outside the axes counts fivefold.
    """
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    steps = np.linspace(0.2, 0.9, 8)[:, None, None]
    crossed = sum(_shared(_squares(spots, 2), crossable) for spots in point + (middles - point) * steps)
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    outside = np.round(area - _shared(boxes, frame[None]), 3)
    nearness = np.repeat(np.arange(len(RADII)), len(ANGLES)) * 1e-3
    cost: Pixels = 10 * (_shared(boxes, taken) + crossed) + _shared(boxes, kept_free) + 5 * outside + nearness
    return cost


def _shared(boxes: Pixels, others: Pixels) -> Pixels:
    """Return the square pixels that each box shares with all the others."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared: Pixels = np.prod(np.clip(high - low, 0, None), axis=2).sum(axis=1)
    return shared


def _squares(middles: Pixels, radius: float) -> Pixels:
    """Return the boxes around places."""
    return np.hstack([middles - radius, middles + radius])


def _along(line: Sequence[Pixels], step: float) -> Pixels:
    """Return the places along a joined line, about `step` pixels apart."""
    places = [np.empty((0, 2))]
    for start, end in zip(line, line[1:], strict=False):
        count = max(2, int(np.hypot(*(end - start)) / step))
        places.append(start + (end - start) * np.linspace(0, 1, count)[:, None])
    return np.vstack(places)
