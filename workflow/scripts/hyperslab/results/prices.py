"""What an answer and a month cost: measured counts of requests, bytes and seconds, times prices."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.results.file_sizes import of_layouts
from hyperslab.results.statistics import by_mean
from hyperslab.states import COLD_STATES, STATES
from hyperslab.studies import case_kinds

HOURS_OF_A_MONTH = 365 * 24 / 12
GB, HOUR_S = 1e9, 3600.0


# What a repeat has of each kind of request, of which what is none of these is a `get`.
KINDS = ("lists", "heads", "puts")
PARTS = ("requests", "out", "inside", "work")
# What depends on how long it took.
TIMED = ["seconds", "work"]


def asked_rows(rows: pd.DataFrame, prices: Mapping[str, Any]) -> pd.DataFrame:
    """Return the repeats of the cases that are asked, in all states in which they were read."""
    if prices["cases"]:
        return rows[rows["case"].isin(prices["cases"]) & (rows["state"] != "write")]
    return rows[rows["kind"].isin(case_kinds.names(lambda kind: kind.reads_selections))]


def state_of_answers(read: pd.DataFrame) -> str | None:
    """Return the state whose answers count, cold where anything was read cold, else the first that was
    measured; None where none was. `read` is `asked_rows`.
    """
    # A cold answer is what somebody waits for who comes for the first time.
    return next((state for state in STATES if state in set(read["state"])), None)


def answer_words(state: str) -> str:
    """Return what is taken for an answer where those of a state count."""
    if state in COLD_STATES:
        return f"a {state} one with its opening, and with copying where that comes first"
    return "a selection of a session" if state == "session" else f"a {state} one"


def answer_costs(rows: pd.DataFrame, study: Mapping[str, Any], site: str) -> pd.DataFrame:
    """Return a row a layout and case that is asked: `seconds` of an answer and its cost by part.

    `rows` are the repeats of one site. Cold answers count, opening and copying included, where there are any,
    else those of the state that was measured. Columns are PARTS, money for one answer; `counted` says whether
    an object store counted requests. Medians over all repeats; of `seconds` and `work` means, where a limit
    holds the answers back (`statistics.by_mean`).
    """
    prices = study["prices"]
    read = asked_rows(rows, prices)
    read = read[read["state"] == state_of_answers(read)]
    # Clients ask for many answers in a repeat.
    many = read["requests"].fillna(1.0)
    spent = (read["time_s"] + read[["open_s", "fetch_s"]].fillna(0.0).sum(axis=1)) / many
    seconds = read["answer_median_s"].fillna(spent)
    workers = read["case"].map(
        {name: case.get("workers") or 1 for name, case in study["cases"].items()}
    ).astype(float)  # fmt: skip
    served = read["client_bytes"].notna()
    stored = _both(read, "wire_bytes", "open_wire_bytes")
    each = read[["layout", "case"]].assign(
        seconds=seconds,
        requests=_requests(read, prices) / many,
        out=_both(read, "client_bytes", "open_client_bytes").where(served, stored)
        * prices["out_at"].get(site, prices["out"])
        / GB
        / many,
        inside=stored.where(served, 0.0) * prices["inside"] / GB / many,
        work=spent * workers * prices["worker_hour"] / HOUR_S,
        counted=read["wire_requests"].notna(),
    )
    parts = ["seconds", *PARTS]
    grouped = each.groupby(["layout", "case"], observed=True, sort=False)
    found = grouped[parts].median().assign(counted=grouped["counted"].any())
    if by_mean(read):
        found[TIMED] = grouped[TIMED].mean()
    return found.reset_index().assign(answer=lambda table: table[list(PARTS)].sum(axis=1))


def _both(read: pd.DataFrame, selection: str, opening: str) -> pd.Series:
    """Return what a selection and the opening for it have together; 0 where neither counts."""
    return read[[selection, opening]].fillna(0.0).sum(axis=1)


def _requests(read: pd.DataFrame, prices: Mapping[str, Any]) -> pd.Series:
    """Return what the requests of each repeat cost; what is of no known kind counts as one that gets."""
    of_kind = {kind: _both(read, f"wire_{kind}", f"open_{kind}") for kind in KINDS}
    number = _both(read, "wire_requests", "open_requests")
    gets = number - sum(of_kind.values())
    lists = prices["puts"] if prices["lists"] is None else prices["lists"]
    heads = prices["gets"] if prices["heads"] is None else prices["heads"]
    price = {"lists": lists, "heads": heads, "puts": prices["puts"]}
    total = gets * prices["gets"] + sum(of_kind[kind] * price[kind] for kind in KINDS)
    return total / 1e3


def month_costs(rows: pd.DataFrame, study: Mapping[str, Any], site: str) -> pd.DataFrame:
    """Return by layout (index) what keeping it and asking it cost in a month, at one site.

    Columns: `stored_bytes`; money for `kept`, `running`, `asked` and their sum `month`; `upload`, once; and
    `seconds`, the geometric mean over `common_cases` of the time of an answer. What depends on answers is NaN
    for a layout that lacks one of these cases.
    """
    prices, answers = study["prices"], answer_costs(rows, study, site)
    common = common_cases(answers)
    each = answers[answers["case"].isin(common)].groupby("layout", observed=True, sort=False)
    complete = each["case"].nunique() == len(common)
    asked = each["answer"].mean().where(complete) * prices["questions"]
    seconds = np.exp(each["seconds"].agg(lambda one: np.log(one).mean())).where(complete)
    # Only files of the cases that are asked: another case may be measured on an array of another shape.
    files = rows[rows["layout"].isin(answers["layout"]) & rows["case"].isin(answers["case"])]
    stored = of_layouts(files, "file_bytes")
    hourly = {layout: _hourly(str(layout), prices["running_hour"]) for layout in stored.index}
    table = pd.DataFrame(
        {
            "stored_bytes": stored,
            "kept": stored / GB * prices["stored_at"].get(site, prices["stored"]),
            "running": pd.Series(hourly, dtype=float) * HOURS_OF_A_MONTH,
            "asked": asked,
            "upload": of_layouts(files, "upload_requests").fillna(0.0) * prices["puts"] / 1e3,
            "seconds": seconds,
        }
    )
    return table.assign(month=table["kept"] + table["running"] + table["asked"])


def common_cases(answers: pd.DataFrame) -> list[str]:
    """Return the cases that half of the layouts or more were asked, or else those that most were.

    By these they can be compared; the others were asked of a few alone.
    """
    layouts = answers.groupby("case", observed=True, sort=False)["layout"].nunique()
    least = min(answers["layout"].nunique() / 2, layouts.max())
    return [str(case) for case in layouts.index[layouts >= least]]


def _hourly(layout: str, running: Mapping[str, float]) -> float:
    """Return what runs for a layout costs in an hour: all entries whose pattern fits its name."""
    return sum(price for name, price in running.items() if fnmatch.fnmatchcase(layout, name))
