"""Timed selections: cold, warm and session. The stopwatches are those of timed_selections."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from hyperslab.cases.context import Context, Outcome
from hyperslab.cases.states import each_state
from hyperslab.cases.timed_selections import Session, counted, timed_close, timed_open, until_enough
from hyperslab.cases.wire import Wire, kernel_apart
from hyperslab.data.selections import Box, Pattern, asked_boxes, at_level
from hyperslab.formats import OpenArray
from hyperslab.measuring.pagecache import NotInState
from hyperslab.measuring.residency import NodeCache
from hyperslab.records import Row
from hyperslab.specifications import CaseSpecification
from hyperslab.states import COLD_STATES


def _opened(context: Context) -> tuple[OpenArray, Row]:
    """Return the array, opened for reading, and the columns of that."""
    wire = Wire(context.artifact)
    opened, open_s = timed_open(context)
    return opened, {"open_s": open_s, **wire.opening()}


def _on_one_open_file(
    context: Context, session: Session, cache: NodeCache, state: str, boxes: Iterable[Box]
) -> None:
    """Time all selections in order on one open file,
    as "session" (first evicted) or "warm" (first filled; of what remembers, each asked for before).
    """
    share = cache.filled() if state == "warm" else cache.evicted()
    opened, opening = _opened(context)
    if state == "warm":
        try:
            # Many FUSE file systems drop the cached pages whenever a file is opened.
            share = cache.filled()
        except NotInState:
            opened.close()
            raise
        if context.artifact.remembers:
            boxes = _asked_before(opened, boxes, context.specification["repeats"][state])
    for repeat, box in enumerate(boxes):
        row = session.timed_selection(opened, box, state, repeat, None if repeat else opening)
        row["resident_before"] = share
        share = row["resident_after"] = cache.resident()
    row["close_s"] = timed_close(opened)


def _asked_before(opened: OpenArray, boxes: Iterable[Box], count: int) -> Iterator[Box]:
    """Read `count` boxes in order, then yield these and all others; each of the others is read before."""
    left = iter(boxes)
    first = list(itertools.islice(left, count))
    for box in first:
        opened.read(box)
    yield from first
    for box in left:
        opened.read(box)
        yield box


def _each_on_a_cold_file(
    context: Context, session: Session, cache: NodeCache, state: str, boxes: Iterable[Box]
) -> None:
    """Evict, open, read one selection and close, as a web service does for a request."""
    name = context.called(state)
    for repeat, box in enumerate(boxes):
        share = cache.evicted()
        opened, opening = _opened(context)
        row = session.timed_selection(opened, box, name, repeat, opening)
        row.update(close_s=timed_close(opened), resident_before=share)
        row["resident_after"] = cache.resident()


# In this order the newly written file, still in the page cache, need not be read again to be warm.
STATES = {"warm": _on_one_open_file, "session": _on_one_open_file, "cold": _each_on_a_cold_file}


def _selected(case: CaseSpecification, box: Box) -> Box:
    """Return the box itself, or the level or pattern that a case selects in it."""
    if level := case.get("level"):
        return at_level(box, level)
    if not (pattern := case.get("pattern")):
        return box
    return Pattern(
        box.origin, box.extent, tuple(pattern["step"]), tuple(pattern["block"]), pattern["checkerboard"]
    )


def _with_predictions(context: Context, rows: list[Row]) -> Iterator[Row]:
    """Yield the rows with what the kernel counted and what arithmetic says of each selection."""
    spec = context.specification
    stored = context.format.stored_sizes(context.path, spec)
    for row in rows:
        row |= kernel_apart(context, counted(row))
        box = _selected(spec["case"], Box(tuple(row["origin"]), tuple(spec["case"]["extent"])))
        predicted = context.format.predict(box, spec, stored)
        row["chunks_touched"] = predicted["chunks_touched"]
        row["chunk_bytes"] = predicted["chunk_bytes"]
        row |= {name: predicted[name] for name in ("files_touched", "levels_touched") if name in predicted}
        if row["state"] in COLD_STATES:
            # On a file that stays open, the library's own caches decide what is asked for.
            row["requested_predicted_bytes"] = predicted["requested"]
            if "requested_reads" in predicted:
                row["requested_predicted_reads"] = predicted["requested_reads"]
        yield row


def run(context: Context) -> Outcome:
    """Measure every state of a read case; raises VerificationError where data read differ from data
    written.
    """
    spec = context.specification
    session, cache = Session(context), NodeCache(context.artifact, context.memory_resident)

    def measure(state: str) -> None:
        boxes = (_selected(spec["case"], box) for box in asked_boxes(spec, state))
        STATES[state](context, session, cache, state, until_enough(context, session, state, boxes))

    try:
        skipped = each_state(spec["case"]["states"], STATES, measure, session.rows)
        error = session.verify()
        report = {**context.format.report(context.path, spec), **error}
        return Outcome(list(_with_predictions(context, session.rows)), report, skipped)
    finally:
        cache.close()
