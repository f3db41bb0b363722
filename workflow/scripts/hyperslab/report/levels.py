"""The numbers of selections that are read at several levels."""

from __future__ import annotations

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Table, table
from hyperslab.results.tables import STATES
from hyperslab.studies.case_kinds import levels
from hyperslab.studies.summary import in_order


def levels_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return time, bytes and blocks of each level and layout, coarsest level first."""
    rows, body = data.main(site), []
    families = levels(data.study["cases"])
    rows = rows[rows["case"].isin({name for cases in families.values() for name in cases.values()})]
    if rows.empty:
        return None
    states = in_order(set(rows["state"]), STATES)
    for family, cases in families.items():
        for level, name in sorted(cases.items(), reverse=True):
            mine = rows[rows["case"] == name]
            for layout in in_order(set(mine["layout"]), data.study["layouts"]):
                here = mine[mine["layout"] == layout]
                first = here[here["state"] == states[0]] if states[0] in set(here["state"]) else here
                middle = first.median(numeric_only=True)
                times = (here["time_s"][here["state"] == state].median() for state in states)
                body.append([
                    family, f"1 of {2**level}" if level else "all", layout,
                    *(fmt.seconds(time) if time == time else fmt.ABSENT for time in times),
                    fmt.megabytes(middle["asked_bytes"]), fmt.megabytes(middle["requested_bytes"]),
                    fmt.whole(middle["requested_reads"]), fmt.whole(middle["chunks_touched"]),
                ])  # fmt: skip
    columns = ["Selection", "Read of each axis", "Layout", *(f"#{STATES[state]}" for state in states),
               "#Asked", "#Requested", "#Read calls", "#Chunks or blocks"]  # fmt: skip
    note = (
        f"Medians over all repeats of all rounds; bytes, calls, chunks and blocks of the state "
        f"{STATES[states[0]]}. A contiguous array has no chunks."
    )
    return table("From coarse to fine", columns, body, note, folded=len(body) > 24, pick=pick)
