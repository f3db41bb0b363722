"""Views that become finer, level by level until full resolution, as a viewer pans and zooms: cold and warm.

The stopwatches are those of timed_selections, one a level. A repeat is a view: a box somewhere, all of its
levels in order on one open file, of which nothing is evicted between two levels. What refines keeps what it
has read of the view when a finer level is asked for; all else reads each level anew.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.cases.context import Context, Outcome
from hyperslab.cases.states import each_state
from hyperslab.cases.timed_selections import Session, counted, timed_close, timed_open, until_enough
from hyperslab.data.levels import truth
from hyperslab.data.selections import Box, asked_boxes, at_level
from hyperslab.formats import OpenArray, Refinement
from hyperslab.measuring.residency import NodeCache
from hyperslab.records import Row

# What is added up over the levels of a view.
SUMMED = ("time_s", "asked_bytes", "requested_bytes", "requested_reads", "device_bytes", "chunks_touched",
          "chunk_bytes")  # fmt: skip
# What is kept of each level.
KEPT = ("level", *SUMMED)
# Levels of which a record keeps a picture, and pixels along each axis at most.
PICTURES, PIXELS = 4, 192
# Values further from the median than so many median deviations are drawn as the nearest that is not: what
# marks a value as missing is often far from all others.
FAR = 20


@dataclass
class View:
    """One box, the rows of its levels in the order in which they were read, and what stands around them."""

    box: Box
    around: Row
    levels: list[Row] = field(default_factory=list)

    def waited(self) -> float:
        """Return the seconds until the finest level was there, of a file opened for it."""
        return float(self.around["open_s"] + sum(row["time_s"] for row in self.levels))


def _refinement(context: Context) -> Refinement | None:
    """Return what keeps what it has read of a view; None where each level is read anew."""
    return context.format.refinement if context.layout.abilities.refines else None


def _read(context: Context, session: Session, opened: OpenArray, view: View, state: str, repeat: int) -> None:
    """Read a view level by level."""
    refinement = _refinement(context)
    source = refinement.begin(opened) if refinement else opened
    for level in context.specification["case"]["levels"]:
        view.levels.append(session.timed_selection(source, at_level(view.box, level), state, repeat))


def _cold(context: Context, session: Session, cache: NodeCache, boxes: Iterator[Box]) -> Iterator[View]:
    """Evict, open, read all levels and close, view by view."""
    name = context.called("cold")
    for repeat, box in enumerate(boxes):
        share = cache.evicted()
        opened, open_s = timed_open(context)
        view = View(box, {"open_s": open_s, "resident_before": share})
        _read(context, session, opened, view, name, repeat)
        view.around["close_s"] = timed_close(opened)
        view.around["resident_after"] = cache.resident()
        yield view


def _warm(context: Context, session: Session, cache: NodeCache, boxes: Iterator[Box]) -> Iterator[View]:
    """Fill, open, and read all views on one open file."""
    cache.filled()
    opened, open_s = timed_open(context)
    try:
        # Many FUSE file systems drop the cached pages whenever a file is opened.
        share = cache.filled()
        for repeat, box in enumerate(boxes):
            view = View(box, {"resident_before": share, **({"open_s": open_s} if repeat == 0 else {})})
            _read(context, session, opened, view, "warm", repeat)
            share = view.around["resident_after"] = cache.resident()
            yield view
    finally:
        opened.close()


# In this order the newly written file, still in the page cache, need not be read again to be warm.
STATES = {"warm": _warm, "cold": _cold}


def _aligned(box: Box, level: int) -> Box:
    """Return a box moved back to where a coarse level has elements, so that all levels show the same part."""
    return Box(tuple(start >> level << level for start in box.origin), box.extent)


def _predicted(context: Context, box: Box, stored: dict[str, Any]) -> list[dict[str, float]]:
    """Return the counts of each level of a view."""
    spec, refinement = context.specification, _refinement(context)
    boxes = [at_level(box, level) for level in spec["case"]["levels"]]
    if refinement:
        return refinement.predict(boxes, spec, stored)
    return [context.format.predict(one, spec, stored) for one in boxes]


def _row(context: Context, view: View, stored: dict[str, Any]) -> Row:
    """Return the row of a view: sums over its levels, its first picture, and each level by itself."""
    spec, able = context.specification, context.layout.abilities
    found: list[Row] = []
    for level, row, predicted in zip(
        spec["case"]["levels"], view.levels, _predicted(context, view.box, stored), strict=True
    ):
        row = {
            **counted(row),
            "level": level,
            **{key: predicted[key] for key in ("chunks_touched", "chunk_bytes")},
        }
        # Of a file that stays open the library may know indexes and pieces from the level before.
        cold = row["state"] != "warm" and (able.forgets or able.refines or not found)
        found.append({**{key: row[key] for key in KEPT}, "requested_predicted_bytes":
                      predicted["requested"] if cold else None})  # fmt: skip
    first, known = found[0], [one.pop("requested_predicted_bytes") for one in found]
    total: Row = {name: sum(one[name] for one in found) for name in SUMMED}
    if None not in known:
        total["requested_predicted_bytes"] = sum(known)
    if known[0] is not None:
        total["first_requested_predicted_bytes"] = known[0]
    return {
        "state": view.levels[0]["state"],
        "repeat": view.levels[0]["repeat"],
        "origin": list(view.box.origin),
        **view.around,
        **total,
        # What somebody waits for; a file that is warm is open already.
        "first_picture_s": first["time_s"]
        + (0.0 if view.levels[0]["state"] == "warm" else view.around["open_s"]),
        "first_requested_bytes": first["requested_bytes"],
        "first_device_bytes": first["device_bytes"],
        "levels": found,
    }


def _pictures(context: Context, box: Box) -> dict[int, Mapping[str, Any]]:
    """Return small pictures of one plane of a view at some levels: level -> shape and pixels, 0 to 255.

    They are the values that were compared with those read, thinned to `PIXELS` along an axis.
    """
    case, axes = context.specification["case"], context.specification["dataset"]["axes"]
    levels = case["levels"]
    places = sorted({round(number * (len(levels) - 1) / (PICTURES - 1)) for number in range(PICTURES)})
    shown = [axes.index(name) for name in case["picture"]]
    # The middle along the others, where every level has an element.
    middle = [start + (width // 2 >> levels[0] << levels[0])
              for start, width in zip(box.origin, box.extent, strict=True)]  # fmt: skip
    plane = Box(
        tuple(start if axis in shown else middle[axis] for axis, start in enumerate(box.origin)),
        tuple(width if axis in shown else 1 for axis, width in enumerate(box.extent)),
    )
    found: dict[int, npt.NDArray[Any]] = {}
    for level in (levels[place] for place in places):
        values = truth(context.values, at_level(plane, level), context.layout.averaged_levels)
        turned = values.transpose([*shown, *(axis for axis in range(values.ndim) if axis not in shown)])
        picture = turned.reshape(turned.shape[:2]).astype(np.float64)
        rows, columns = (-(-picture.shape[axis] // PIXELS) for axis in (0, 1))
        found[level] = picture[::rows, ::columns]
    low, high = _contrast(found[levels[-1]])
    scaled = {level: (picture - low) / ((high - low) or 1.0) for level, picture in found.items()}
    return {
        level: {
            "shape": list(share.shape),
            "pixels": base64.b64encode(
                zlib.compress((np.nan_to_num(share).clip(0, 1) * 255).astype(np.uint8).tobytes(), 9)
            ).decode("ascii"),
        }
        for level, share in scaled.items()
    }


def _contrast(picture: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the values that are drawn darkest and brightest: the ends of those not far from all others."""
    known = picture[np.isfinite(picture)]
    if not known.size:
        return 0.0, 1.0
    median = np.median(known)
    spread = np.median(np.abs(known - median))
    near = known[np.abs(known - median) <= FAR * spread] if spread else known
    low, high = np.percentile(near, [1, 99])
    return float(low), float(high)


def run(context: Context) -> Outcome:
    """Measure views in every state; raises VerificationError where data read differ from data written."""
    spec = context.specification
    coarsest = spec["case"]["levels"][0]
    session, views = Session(context), list[View]()
    cache = NodeCache(context.artifact, context.memory_resident)

    def measure(state: str) -> None:
        boxes = (_aligned(box, coarsest) for box in asked_boxes(spec, state))
        enough = until_enough(
            context, session, state, boxes, lambda count: [view.waited() for view in views[-count:]]
        )
        for view in STATES[state](context, session, cache, enough):
            # Before the next box is drawn.
            views.append(view)

    try:
        skipped = each_state(spec["case"]["states"], STATES, measure, views)
        error = session.verify()
        report = {**context.format.report(context.path, spec), **error}
        stored = context.format.stored_sizes(context.path, spec)
        rows = [_row(context, view, stored) for view in views]
        if rows and spec["round"] == "r0":
            pictures = _pictures(context, views[0].box)
            for one in rows[0]["levels"]:
                one.update({"picture": pictures[one["level"]]} if one["level"] in pictures else {})
        for row in rows:
            row["levels"] = json.dumps(row["levels"], separators=(",", ":"))
        return Outcome(rows, report, skipped)
    finally:
        cache.close()
