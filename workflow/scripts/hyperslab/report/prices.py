"""What an answer and a month cost with each layout, by the prices that the study gives."""

from __future__ import annotations

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Table, table
from hyperslab.results.prices import answer_costs, common_cases, month_costs
from hyperslab.studies.summary import case_title, in_order


def prices_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return one row a layout; None where the study gives no prices, or nothing was read."""
    rows = data.main(site)
    if "prices" not in data.study or rows.empty:
        return None
    prices = data.study["prices"]
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
    note = (
        f"Prices: {prices['source']} ({prices['date']}). Counts of requests, bytes and seconds are measured, "
        f"medians over all repeats; a month has {prices['questions']:,} questions, evenly many of each of "
        f"{fmt.listing(asked)}, which most layouts were asked; one that was not has no month here. "
        f"An answer is a cold one with its opening, and with copying where that comes first; its time is the "
        f"geometric mean over these cases. Bytes that leave a server count where there is one, else those "
        f"that leave the object store.{store}"
    )
    return table("What an answer and a month cost", columns, body, note, pick=pick)
