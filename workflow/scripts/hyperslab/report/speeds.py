"""How much faster the recommended layout is than the usual ones, from rounds measured after the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Cell, Table, table
from hyperslab.results.comparisons import MIN_ROUNDS
from hyperslab.results.requests import question_of
from hyperslab.results.statistics import compare
from hyperslab.states import STATES
from hyperslab.studies.summary import case_title, in_order


def unconfirmed(data: Data, site: str, layout: str) -> str:
    """Return why a layout does not count as measured again: no confirming rounds, or too few of a case that
    counts, with how many there are; "" where it does count.
    """
    known = data.confirming_rounds
    if not any(cell[:2] == (site, layout) for cell in known):
        return "no confirming rounds"
    few = []
    for case, state in question_of(data.choice(site)).shares:
        rounds = known.get((site, layout, case, state), 0)
        if rounds < MIN_ROUNDS:
            few.append(f"{case_title(data.study, case)}, {state}: {rounds} of {MIN_ROUNDS}")
    return f"too few confirming rounds ({'; '.join(few)})" if few else ""


def quotable(data: Data, site: str, phase: str) -> pd.DataFrame:
    """Return the summary of a site in a phase; of confirming rounds that of layouts which count as measured
    again.
    """
    rows = data.summary_of(site, phase)
    if phase != "confirm":
        return rows
    again = {layout for layout in set(rows["layout"]) if not unconfirmed(data, site, layout)}
    return rows[rows["layout"].isin(again)]


def absent_words(phase: str) -> str:
    """Return what is said of a layout that `quotable` lacks."""
    return "not measured again" if phase == "confirm" else "not measured"


def speed_phase(data: Data, site: str, pick: str) -> str:
    """Return the rounds that speed-ups come from: "confirm" where the pick was measured again in enough of
    them, else "main".
    """
    return "main" if unconfirmed(data, site, pick) else "confirm"


def compared(data: Data, site: str) -> list[tuple[str, str]]:
    """Return what the pick of a site is compared with, as words and name: the usual layouts,
    else the runner-up.
    """
    choice = data.choice(site)
    usual = [(words, name) for words, name in data.references() if name is not None]
    if any(name != choice["pick"] for _, name in usual):
        return usual
    second = choice.get("runner_up")
    return [(second, second)] if second else []


def _by_case(
    rows: pd.DataFrame, site: str, case: str, state: str, phase: str, pick: str, others: Sequence[str]
) -> pd.DataFrame:
    """Return the time of each other layout over that of the pick, indexed by layout;
    empty where not measured.
    """
    measured = set(rows["layout"])
    names = [name for name in dict.fromkeys(others) if name in measured and name != pick]
    if pick not in measured or not names:
        return pd.DataFrame()
    return compare(rows, site, case, state, phase, pick, names).set_index("layout")


def speed_cell(found: pd.DataFrame, name: str | None, pick: str, absent: str) -> Cell:
    """Return how much faster the pick is than layout `name`, as a cell."""
    if name is None:
        return Cell(fmt.ABSENT, "not in this study", "muted")
    if name == pick:
        return Cell("is the pick", "", "muted")
    if name not in found.index:
        return Cell(absent, "", "muted")
    entry = found.loc[name]
    words, spread, tone = fmt.speed(entry["ratio"], entry["low"], entry["high"], bool(entry["different"]))
    return Cell(words, fmt.with_deviation(spread, entry["sd_log"]), tone)


def speed_table(data: Data, site: str, pick: str, phase: str) -> Table:
    """Return how much faster the pick is than each reference, one row a case and state;
    what counts comes first.
    """
    rows, main = quotable(data, site, phase), data.summary_of(site)
    pairs = pd.concat([rows, main])[["case", "state"]]
    known = set(pairs.itertuples(index=False, name=None))
    counted: Mapping[str, float] = data.choice(site).get("shares", {})
    others = compared(data, site)
    absent = absent_words(phase)
    body, rounds = [], set(map(int, rows[rows["layout"] == pick]["rounds"]))
    for case in in_order({case for case, _ in known}, data.study["cases"]):
        for state in in_order({state for name, state in known if name == case}, STATES):
            here = rows[(rows["case"] == case) & (rows["state"] == state)]
            found = _by_case(here, site, case, state, phase, pick, [name for _, name in others])
            mine = here[here["layout"] == pick]["pooled_median_s"]
            rounds |= set(map(int, found["rounds"])) if len(found) else set()
            counts = f"{case} {state}" in counted
            tone = "" if counts else "muted"
            body.append([
                Cell(case_title(data.study, case), "", tone),
                Cell(state, "" if counts else "not counted", tone),
                fmt.seconds(mine.iloc[0]) if len(mine) else absent,
                *(speed_cell(found, name, pick, absent) for _, name in others),
            ])  # fmt: skip
    columns = ["Case", "State", f"#Typical of {pick}", *(f"Against {words}" for words, _ in others)]
    made = "measured after the choice" if phase == "confirm" else "that chose it"
    note = (
        f"From {fmt.span(rounds, 'round')} {made}. Typical: geometric mean over the rounds of a round's "
        "median, of a session's geometric mean, of the mean of throttled cold reads and writes. Cold: the "
        "selection alone; what a request waits for, opening included, is in the other tables. Intervals: "
        "95 %, adjusted for the comparisons of a row; sd: deviation of the ratio between rounds."
    )
    return table(f"How much faster {pick} is", columns, body, note)
