"""What a question costs an object store: requests, bytes on the wire, and the time that both take."""

from __future__ import annotations

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Table, table
from hyperslab.results.tables import STATES
from hyperslab.studies.summary import case_title, in_order


def store_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return requests, bytes and seconds of each question, case and state by layout; None without a store."""
    rows = data.main(site)
    rows = rows[rows["wire_requests"].notna()]
    if rows.empty:
        return None
    # What stays open is opened once for all its selections.
    opened = rows[["open_requests", "open_wire_bytes", "open_s"]].fillna(0.0)
    rows = rows.assign(
        all_requests=rows["wire_requests"] + opened["open_requests"],
        all_bytes=rows["wire_bytes"] + opened["open_wire_bytes"],
        all_s=rows["time_s"] + opened["open_s"],
    )
    body = []
    for case in in_order(set(rows["case"]), data.study["cases"]):
        for state in in_order(set(rows["state"][rows["case"] == case]), STATES):
            mine = rows[(rows["case"] == case) & (rows["state"] == state)]
            for layout in in_order(set(mine["layout"]), data.study["layouts"]):
                here = mine[mine["layout"] == layout]
                middle = here.median(numeric_only=True)
                body.append([
                    case_title(data.study, case), STATES[state], layout,
                    fmt.whole(middle["all_requests"]), fmt.whole(here["all_requests"].max()),
                    fmt.megabytes(middle["all_bytes"]), fmt.megabytes(middle["asked_bytes"]),
                    fmt.seconds(middle["all_s"]), fmt.whole(here["wire_failures"].sum()),
                ])  # fmt: skip
    columns = ["Case", "State", "Layout", "#Requests", "#At most", "#On the wire", "#Asked", "#Open and read",
               "#Failed"]  # fmt: skip
    note = (
        "Medians over all repeats of all rounds, opening included where it belongs to the question: a cold "
        "one has a new client. Requests and bytes of answers are counted at the gateway, not by the client. "
        "Failed: requests of all repeats that the client had to ask again."
    )
    return table("Requests and bytes per question", columns, body, note, folded=len(body) > 60, pick=pick)
