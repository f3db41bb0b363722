"""What a question costs an object store: requests, bytes on the wire, and the time that both take."""

from __future__ import annotations

from hyperslab import text as fmt
from hyperslab.report.data import CELL, Data
from hyperslab.report.model import Table, table
from hyperslab.states import STATES
from hyperslab.studies.summary import case_title, in_order

# Words for the objects of the control, and the ends of their columns' names.
CONTROLS = {"a request of 1 KiB": "small", "a request of 1 MiB": "large"}


def store_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return requests, bytes and seconds of each question, case and state by layout; None without a store."""
    rows = data.main(site)
    # A repeat of clients is many questions.
    rows = rows[rows["wire_requests"].notna() & rows["requests"].isna()]
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
                    fmt.seconds(middle["fetch_s"]), fmt.seconds(middle["all_s"]),
                    fmt.whole(here["wire_failures"].sum()), fmt.whole(here["wire_refused"].sum()),
                    fmt.seconds(middle["upload_s"]),
                ])  # fmt: skip
    columns = ["Case", "State", "Layout", "#Requests", "#At most", "#On the wire", "#Asked", "#Copied first",
               "#Open and read", "#Failed", "#Refused", "#Put before"]  # fmt: skip
    note = (
        "Medians over all repeats of all rounds, opening included where it belongs to the question: a cold "
        "one has a new client. Requests and bytes of answers are counted at the gateway, not by the client. "
        "Failed: requests of all repeats that went wrong at the store or on the way, and that the client had "
        "to make again. Refused: those that the gateway did not let pass, because they were none of the "
        "cell's. Copied first: how long it took to copy all objects, which is no part of opening and "
        "reading. Put before: how long it took to put all of the array into the store, before any question."
    )
    return table("Requests and bytes per question", columns, body, note, folded=len(body) > 60, pick=pick)


def gateway_table(data: Data, site: str, _: str | None) -> Table | None:
    """Return what the gateway itself costs a request, by its size; None where no cell told."""
    cells = data.main(site).drop_duplicates(CELL)
    body = []
    for words, name in CONTROLS.items():
        own, straight = cells[f"gateway_{name}_s"].dropna(), cells[f"straight_{name}_s"].dropna()
        if len(own):
            low, high = own.quantile([0.05, 0.95])
            body.append([
                words, fmt.seconds(straight.median()), fmt.seconds(own.median()),
                f"{fmt.seconds(low)} to {fmt.seconds(high)}", fmt.whole(len(own)),
            ])  # fmt: skip
    if not body:
        return None
    columns = ["", "#Straight from the store", "#The gateway adds", "#90 % of the cells", "#Cells"]
    note = (
        "Each cell gets two objects five times straight from the store and five times through its gateway, "
        "in turn. What the gateway adds by itself is the difference of the medians, without the latency and "
        "the bandwidth that the site asks for. It is part of every time above, once for each request that "
        "waits for the one before it. Where the site limits bandwidth, a large object may come a little "
        "sooner than the limit says, since the line lets short bursts pass."
    )
    return table("What the gateway itself costs", columns, body, note)
