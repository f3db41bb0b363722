"""About how long cells take and how much they write: how jobs are cut, and what a dry run says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.layouts import layout_of
from hyperslab.measuring.object_store.address import AT_ONCE
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.records import Cell, record_of
from hyperslab.specifications import SHORT_SECONDS
from hyperslab.studies.case_kinds import kind_of

# What a cell is assumed to take before one was measured: these decide no result, only how jobs are cut.
WRITE_BYTES_PER_S = 200e6
READ_BYTES_PER_S = 400e6
SECONDS_A_FILE = 100e-6
SECONDS_A_REPEAT = 0.005
SECONDS_A_VALUE = 6e-9
# Some 0.16 s from one cell to the next, and what stands around that which is timed: probes, the file's way to
# the device, evictions (docs/measured.md).
SECONDS_A_CELL = 0.5
# One after the other, before anything is known of a file: its size, what describes it, its index.
REQUESTS_TO_OPEN = 3


def estimated_seconds(
    study: PlannedStudy,
    layout: str,
    case: str,
    site: str = "",
    store: Mapping[str, Any] | None = None,
) -> float:
    """Return about how long one cell takes, writing its file included: arithmetic at assumed rates.

    Given a site, a cell takes its part of writing a file that cases share there. `store` is what the site
    says of its object store, if it is one: each cell puts its file there, and each request waits for it.
    """
    stored, asked = layout_of(study.layouts[layout]), study.cases[case]
    kind = kind_of(asked)
    itemsize, shape = study.dataset.itemsize, study.dataset.values_shape(asked["shape"])
    size = stored.stored_bytes(shape, itemsize)
    files = stored.largest_files(study.dataset)
    plain = size / WRITE_BYTES_PER_S + files * SECONDS_A_FILE
    latency_s = (store["latency_ms"] or 0.0) / 1e3 if store else 0.0
    line = store["bandwidth"] or math.inf if store else math.inf
    uploading = size / line + files * latency_s / AT_ONCE
    writing = plain + stored.encoding_seconds(size)
    repeats: int = sum(asked["repeats"].values())
    if kind.makes_its_file:
        # Each write also makes a plain reference, and what was written last is read back.
        written: int = asked["repeats"]["write"]
        reading_all = size / READ_BYTES_PER_S
        # Some read all of it in each repeat, the others at most one dataset of many.
        reading = reading_all if kind.reads_all else SECONDS_A_REPEAT
        # What serves a write, and what is read back, is started for it.
        starting = (written + 1) * stored.restart_seconds()
        there = written * (writing + plain + uploading) + writing + starting
        return SECONDS_A_CELL + there + reading_all + (repeats - written) * reading
    sharing = len(study.sharing(layout, case, site)) if site else 1
    if stored.abilities.writes:
        writing += stored.restart_seconds()
    writing = writing / sharing + uploading
    extent = kind.extent(asked, shape)
    touched, volume = stored.estimated_reading(extent, shape, itemsize, asked.get("level") or 0)
    opened = stored.files_touched([0] * len(shape), shape if kind.opens_all else extent)
    if kind.opens_all:
        touched, volume = touched * opened, volume * opened
    waited = opened * REQUESTS_TO_OPEN * latency_s
    one: float = (
        SECONDS_A_REPEAT + waited + touched * stored.piece_seconds() + volume / min(READ_BYTES_PER_S, line)
    )
    counts: dict[str, int] = asked["repeats"]
    if one < SHORT_SECONDS:
        counts = {**counts, **asked.get("most_repeats", {})}
    starts = sum(count if state == "cold" else 1 for state, count in counts.items())
    writing += starts * stored.restart_seconds()
    repeats = sum(counts.values()) * kind.selections(asked)
    if not kind.computes:
        return float(SECONDS_A_CELL + writing + repeats * one)
    one += math.prod(extent) * SECONDS_A_VALUE
    # The truth of every plane is made once.
    truth: float = math.prod(shape) * SECONDS_A_VALUE
    return float(SECONDS_A_CELL + writing + truth + repeats * one)


def total_bytes(study: PlannedStudy, site: str, cells: Sequence[Cell], together: bool = True) -> int:
    """Return the bytes that the test files of cells at a site hold, before filters: of one that cells share,
    where they may (`together`), once, and of every repeat of a write.

    Cells that have a record, and are measured again, have a file each: a shared one goes as soon as all have.
    """
    sizes: dict[tuple[str, ...], int] = {}
    for layout, case, round_ in cells:
        asked = study.cases[case]
        files = asked["repeats"]["write"] if kind_of(asked).makes_its_file else 1
        again = Path(record_of(study.name, site, (layout, case, round_))).exists()
        cases = study.sharing(layout, case, site) if together and not again else [case]
        sizes[layout, round_, *cases] = files * study.dataset.bytes_of(asked["shape"])
    return sum(sizes.values())
