"""The numbers of cases of several clients: requests a second, latencies, fairness, errors, memory."""

from __future__ import annotations

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Cell, Table, table
from hyperslab.results.statistics import round_words
from hyperslab.states import STATES
from hyperslab.studies.case_kinds import families, shown_by
from hyperslab.studies.summary import in_order

FIGURE = "clients"


def clients_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return one row a layout, state and number of clients."""
    rows, summary = data.main(site), data.summary_of(site)
    body = []
    for family, teams in families(data.study["cases"], FIGURE).items():
        for clients, case in sorted(
            (count, name) for counts in teams.values() for count, name in counts.items()
        ):
            mine = rows[rows["case"] == case]
            for layout in in_order(set(mine["layout"]), data.study["layouts"]):
                for state in in_order(set(mine["state"]), STATES):
                    here = mine[(mine["layout"] == layout) & (mine["state"] == state)]
                    if here.empty:
                        continue
                    own = summary[
                        (summary["case"] == case)
                        & (summary["layout"] == layout)
                        & (summary["state"] == state)
                    ]
                    middle = here.median(numeric_only=True)
                    number = middle["requests"]
                    entry = own.iloc[0]
                    low, high = (number / entry[f"pooled_{end}_s"] for end in ("high", "low"))
                    rate = Cell(fmt.significant(number / entry["pooled_median_s"]), fmt.interval(low, high))
                    memory = here["server_memory_bytes"].max()
                    body.append([
                        family, layout, state, clients, fmt.whole(number), rate,
                        fmt.seconds(middle["answer_median_s"]), fmt.seconds(middle["answer_p95_s"]),
                        fmt.seconds(here["answer_max_s"].max()), fmt.significant(middle["fairness"]),
                        fmt.whole(here["errors"].sum()), fmt.whole(here["refused"].sum()),
                        fmt.megabytes(memory),
                    ])  # fmt: skip
    columns = ["Case", "Layout", "State", "#Clients", "#Requests a run", "#Requests a second",
               "#Median latency", "#95 % within", "#Longest", "#Fastest over slowest client", "#Failed",
               "#Never answered", "#Memory of the server"]  # fmt: skip
    asked = rows[rows["case"].isin(shown_by(data.study["cases"], FIGURE))]
    note = (
        f"Requests a second: geometric mean of the rounds' {round_words(asked)}, with its 95 % interval; "
        "latencies and the ratio of clients: medians over all runs; failed: tries that a server or "
        "a connection did not answer; never answered: requests that the server turned away each time, whose "
        "time counts in requests a second and in no latency; memory: the largest of each of the server's "
        "processes, summed. Every answer was compared with the truth."
    )
    return table("Several clients", columns, body, note, folded=len(body) > 24, pick=pick) if body else None
