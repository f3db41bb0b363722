"""What an answer and a month cost with each layout, by the prices that the study gives."""

from __future__ import annotations

import pandas as pd

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Table, table
from hyperslab.results.prices import (
    answer_costs,
    answer_words,
    asked_rows,
    common_cases,
    month_costs,
    state_of_answers,
)
from hyperslab.results.statistics import by_mean
from hyperslab.studies.summary import case_title, in_order


def prices_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return one row a layout; None where the study gives no prices, or nothing was read."""
    rows = data.main(site)
    if "prices" not in data.study or rows.empty:
        return None
    prices = data.study["prices"]
    read = asked_rows(rows, prices)
    state = str(state_of_answers(read))
    answers = answer_costs(rows, data.study, site)
    if answers.empty:
        return None
    months = month_costs(rows, data.study, site)
    cases = in_order(set(answers["case"]), data.study["cases"])
    each = answers.pivot(index="layout", columns="case", values="answer")
    body = [
        [
            layout, fmt.megabytes(months.loc[layout, "stored_bytes"]),
            *(fmt.significant(1e3 * each.loc[layout, case]) for case in cases),
            *(fmt.significant(months.loc[layout, part]) for part in ("kept", "running", "asked", "month")),
            fmt.significant(months.loc[layout, "upload"]), fmt.seconds(months.loc[layout, "seconds"]),
        ]
        for layout in in_order(set(months.index), data.study["layouts"])
    ]  # fmt: skip
    money = prices["currency"]
    columns = [
        "Layout", "#Kept", *(f"#{money} for 1,000 × {case_title(data.study, case)}" for case in cases),
        f"#{money} a month: kept", "#running", "#asked", "#all", f"#{money} once: put there", "#An answer",
    ]  # fmt: skip
    common = in_order(set(common_cases(answers)), data.study["cases"])
    asked = [case_title(data.study, case) for case in common]
    store = "" if answers["counted"].any() else " No object store counts requests here: they cost nothing."
    held = ", of seconds means, since a limit holds reads back" * by_mean(read[read["state"] == state])
    note = (
        f"Prices: {prices['source']} ({prices['date']}). Counts of requests, bytes and seconds are measured, "
        f"medians over all repeats{held}; a month has {prices['questions']:,} questions, evenly many of each "
        f"of {fmt.listing(asked)}, which most layouts were asked; one that was not has no month here. "
        f"An answer is {answer_words(state)}; its time is the geometric mean over these cases. Bytes that "
        "leave a server count where there is one, else those that leave the object store."
        f"{store}{_left_out(read, state)}"
    )
    return table("What an answer and a month cost", columns, body, note, pick=pick)


def _left_out(read: pd.DataFrame, state: str) -> str:
    """Return how many layouts and cases are not in the table, since they were read in other states alone."""
    here = read[read["state"] == state]
    gone = {name: len(set(read[name]) - set(here[name])) for name in ("layout", "case")}
    counts = [fmt.count(number, name) for name, number in gone.items() if number]
    return f" Left out, as not measured {state}: {fmt.listing(counts)}." if counts else ""
