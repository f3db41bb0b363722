"""The numbers of selections that are read at several levels."""

from __future__ import annotations

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Table, table
from hyperslab.results.resolution import by_level
from hyperslab.states import STATES
from hyperslab.studies.case_kinds import levels
from hyperslab.studies.summary import case_title, in_order

# Of a level, what is shown as medians.
NUMBERS = [
    "time_s", "so_far_time_s", "asked_bytes", "requested_bytes", "so_far_requested_bytes",
    "device_bytes", "so_far_device_bytes", "chunks_touched",
]  # fmt: skip
# Of one selection at a level likewise.
COUNTS = ["asked_bytes", "requested_bytes", "requested_reads", "chunks_touched"]


def view_table(data: Data, site: str, case: str, pick: str | None) -> Table | None:
    """Return each level of a view, by itself and until it is there; None for cases without any."""
    rows = data.main(site)
    found = by_level(rows[rows["case"] == case])
    if found.empty:
        return None
    body = []
    states = in_order(set(found["state"]), STATES)
    for level in sorted(set(found["level"]), reverse=True):
        mine = found[found["level"] == level]
        for layout in in_order(set(mine["layout"]), data.study["layouts"]):
            here = {state: mine[(mine["layout"] == layout) & (mine["state"] == state)] for state in states}
            middle = {state: rows[NUMBERS].median() for state, rows in here.items()}
            counts = middle[states[0]]
            body.append([
                _every(int(level)), layout,
                *(fmt.seconds(middle[state][name]) for state in states for name in NUMBERS[:2]),
                fmt.megabytes(counts["asked_bytes"]), fmt.megabytes(counts["requested_bytes"]),
                fmt.megabytes(counts["so_far_requested_bytes"]), fmt.megabytes(counts["device_bytes"]),
                fmt.megabytes(counts["so_far_device_bytes"]), fmt.whole(counts["chunks_touched"]),
            ])  # fmt: skip
    times = [
        f"#{STATES[state].capitalize()}, {word}"
        for state in states
        for word in ("this level", "until it is there")
    ]
    columns = ["Read of each axis", "Layout", *times, "#Asked", "#Requested", "#Requested so far", "#Device",
               "#Device so far", "#Chunks or blocks"]  # fmt: skip
    note = (
        f"Medians over all views of all rounds; bytes, chunks and blocks of the state {STATES[states[0]]}. "
        "So far: of this level and all coarser ones; cold times begin with opening, of which no bytes are "
        "counted. What keeps what it has read of a view, as IDX does, asks for what a level adds; all else "
        "asks for each level whole, but for what HDF5 has in its chunk cache. A contiguous array has no "
        "chunks."
    )
    return table(
        f"Level by level: {case_title(data.study, case)}", columns, body, note, folded=True, pick=pick
    )


def _every(level: int) -> str:
    return f"1 of {2**level}" if level else "all"


def levels_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return time, bytes and blocks of each level and layout, coarsest level first."""
    rows, body = data.main(site), []
    families = levels(data.study["cases"])
    rows = rows[rows["case"].isin({name for cases in families.values() for name in cases.values()})]
    if rows.empty:
        return None
    states = in_order(set(rows["state"]), STATES)
    for family, cases in families.items():
        own = rows[rows["case"].isin(cases.values())]
        # A layout that lacks it has no counts: those of another state are others.
        first = in_order(set(own["state"]), STATES)[:1]
        for level, name in sorted(cases.items(), reverse=True):
            mine = own[own["case"] == name]
            for layout in in_order(set(mine["layout"]), data.study["layouts"]):
                here = mine[mine["layout"] == layout]
                middle = here[here["state"].isin(first)][COUNTS].median()
                times = (here["time_s"][here["state"] == state].median() for state in states)
                body.append([
                    family, _every(level), layout,
                    *(fmt.seconds(time) if time == time else fmt.ABSENT for time in times),
                    fmt.megabytes(middle["asked_bytes"]), fmt.megabytes(middle["requested_bytes"]),
                    fmt.whole(middle["requested_reads"]), fmt.whole(middle["chunks_touched"]),
                ])  # fmt: skip
    columns = ["Selection", "Read of each axis", "Layout", *(f"#{STATES[state]}" for state in states),
               "#Asked", "#Requested", "#Read calls", "#Chunks or blocks"]  # fmt: skip
    note = (
        "Medians over all repeats of all rounds; bytes, calls, chunks and blocks of the first of these "
        "states in which a selection was read. A contiguous array has no chunks."
    )
    return table("From coarse to fine", columns, body, note, folded=len(body) > 24, pick=pick)
