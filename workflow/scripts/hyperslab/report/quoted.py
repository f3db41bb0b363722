"""What the answer quotes of a site: times of the layouts that it names, from rounds after the choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Cell, Table, table
from hyperslab.report.speeds import absent_words, compared, quotable
from hyperslab.results.adjusted import adjusted_means
from hyperslab.results.comparisons import of_rounds
from hyperslab.results.comparisons import table as as_ratios
from hyperslab.results.recommend import GIVEN_UP
from hyperslab.results.requests import entry_of, objectives, question_of, request_times, typical
from hyperslab.states import COLD_STATES
from hyperslab.studies.summary import case_title

OBJECTIVES = {"mix": "Expected time", "regret": "Largest regret"}


def named(data: Data, site: str) -> list[tuple[str, str]]:
    """Return the layouts that the answer names, each once, with what they are: the pick first."""
    choice = data.choice(site)
    roles = [("the pick", choice.get("pick")), ("runner-up", choice.get("runner_up"))]
    roles += [(words, name) for words, name in data.references() if name is not None]
    roles += [("for another mix", other["layout"]) for other in choice.get("alternatives") or []]
    found: dict[str, str] = {}
    for words, name in roles:
        if name is not None:
            found[str(name)] = f"{found[str(name)]}, {words}" if str(name) in found else words
    return list(found.items())


def times(data: Data, site: str, phase: str) -> pd.DataFrame:
    """Return layouts x entries ("case state") of the seconds of a request in rounds of a phase (`quotable`);
    NaN where not measured.
    """
    rows, asked = quotable(data, site, phase), question_of(data.choice(site))
    columns = {" ".join(entry): typical(request_times(rows, entry)) for entry in asked.shares}
    return pd.DataFrame(columns)


def entry_title(data: Data, site: str, entry: str) -> str:
    """Return a case in a state as one says it; the state only where several count."""
    case, state = entry_of(entry)
    states = {entry_of(key)[1] for key in data.choice(site)["shares"]}
    title = case_title(data.study, case)
    return f"{title} ({state})" if len(states) > 1 else title


def sentence(data: Data, site: str, phase: str) -> str:
    """Return the answer as one says it to a colleague: what it takes, what it gives up, and for whom."""
    choice, found = data.choice(site), times(data, site, phase)
    pick = str(choice["pick"])
    if pick not in found.index:
        return ""
    others = [(words, name) for words, name in compared(data, site) if name in found.index and name != pick]
    parts: dict[str, list[str]] = {}
    for entry in found.columns:
        verb = "write" if entry.endswith(" write") else "read"
        if not fmt.known(found.loc[pick, entry]):
            continue
        beside = ", ".join(
            f"{words} {fmt.seconds(found.loc[name, entry])}"
            for words, name in others
            if fmt.known(found.loc[name, entry])
        )
        # The verb is said once, although titles may begin with it.
        title = entry_title(data, site, entry).removeprefix(f"{verb} ")
        said = f"{title} in {fmt.seconds(found.loc[pick, entry])}"
        parts.setdefault(verb, []).append(f"{said} ({beside})" if beside else said)
    if not parts:
        return ""
    told = " and it ".join(f"{verb}s {fmt.listing(said)}" for verb, said in parts.items())
    return f"It {told}. {_given_up(data, site, found, pick, phase)}"


def _given_up(data: Data, site: str, found: pd.DataFrame, pick: str, phase: str) -> str:
    """Return what the pick gives up, and which layout to take for which other mix."""
    choice = data.choice(site)
    alternatives = choice.get("alternatives") or []
    most = _most_given_up(data, site, found, pick)
    if not alternatives:
        return most or (
            f"It gives up nothing that anybody would notice: for no case is {_another(choice, phase)} a "
            "quarter faster."
        )
    (other,), floor = alternatives, choice["imperceptible_ms"] / 1e3
    name, case = other["layout"], other["case"]
    # In several states it is the one in which most is given up, of what anybody would notice.
    entries = [key for key in found.columns if entry_of(key)[0] == case]
    counted = found[entries].clip(lower=floor)
    behind = counted.loc[pick] / counted.loc[name if name in found.index else pick]
    # A state that was not measured again gives nothing up.
    entry = str(behind.fillna(1.0).idxmax())
    title = entry_title(data, site, entry)
    lost = f"{name} is faster there"
    if fmt.known(behind[entry]) and name in found.index:
        mine, theirs = (fmt.seconds(found.loc[layout, entry]) for layout in (pick, name))
        lost = f"{mine} where {name} takes {theirs}"
        if behind[entry] < GIVEN_UP:
            again = "Measured again, it" if phase == "confirm" else "It"
            return most or f"{again} gives up nothing that anybody would notice: {title} takes {lost}."
    # The share is of the case, in all of its states.
    asked = case_title(data.study, case)
    take = f"Take {name} if more than {fmt.share_above(other['above'])} of your requests are for {asked}."
    if other["above"] == 0:
        take = f"By its expected time {name} is better whatever share of your requests is for {asked}."
    return f"It gives up {title}: {lost}. {take}"


def _most_given_up(data: Data, site: str, found: pd.DataFrame, pick: str) -> str:
    """Return what the pick gives up most to a layout whose file is small enough, by times that were found in
    the same rounds; "" where nobody would notice.
    """
    choice = data.choice(site)
    fits = [row["layout"] for row in choice["ranking"] if row["fits"]]
    counted = found[found.index.isin([pick, *fits])].clip(lower=choice["imperceptible_ms"] / 1e3)
    # What was not measured in these rounds gives nothing up.
    behind = (counted.loc[pick] / counted.min()).fillna(1.0)
    entry = str(behind.idxmax())
    if behind[entry] < GIVEN_UP:
        return ""
    name = str(counted[entry].idxmin())
    mine, theirs = (fmt.seconds(found.loc[layout, entry]) for layout in (pick, name))
    return f"It gives up {entry_title(data, site, entry)}: {mine} where {name} takes {theirs}."


def _another(choice: Mapping[str, Any], phase: str) -> str:
    """Return with which layouts the pick was compared, as "another layout that ..."."""
    limits = ["was considered"] if choice.get("left_out") else []
    limits += ["was measured again"] if phase == "confirm" else []
    limits += ["has a small enough file"] if not all(row["fits"] for row in choice["ranking"]) else []
    return f"another layout that {fmt.listing(limits)}" if limits else "another layout"


def regret_table(data: Data, site: str, phase: str) -> Table | None:
    """Return milliseconds and regret of every layout that the answer names, one column a case that counts."""
    choice, found = data.choice(site), times(data, site, phase)
    again, floor = phase == "confirm", floor_words(choice)
    layouts = [(name, words) for name, words in named(data, site) if again or name in found.index]
    if not layouts or found.empty:
        return None
    found = found.reindex([name for name, _ in layouts])
    counted = found.clip(lower=choice["imperceptible_ms"] / 1e3)
    regret = counted / counted.min()
    body = []
    for name, words in layouts:
        cells = [
            Cell(fmt.seconds(found.loc[name, entry]), _regret_text(regret.loc[name, entry], phase))
            for entry in found.columns
        ]
        size = next((row["file_bytes"] for row in choice["ranking"] if row["layout"] == name), None)
        body.append([Cell(name, words), *cells, fmt.megabytes(size)])
    columns = ["Layout", *(f"#{entry_title(data, site, entry)}" for entry in found.columns), "#File"]
    note = (
        f"What a request waits for{_opening(found.columns)}, and how many times as long as the fastest of "
        f"these layouts takes{floor and f'; a {floor}'}. "
        + ("Measured after the choice." if again else "From the rounds that chose the layout.")
    )
    return table("What each layout gives up", columns, body, note, pick=choice.get("pick"))


def floor_words(choice: Mapping[str, Any]) -> str:
    """Return what a time counts as that nobody notices; "" where all are noticed."""
    floor = fmt.seconds(choice["imperceptible_ms"] / 1e3)
    return f"time under {floor} counts as {floor}" if choice["imperceptible_ms"] else ""


def _opening(entries: Iterable[str]) -> str:
    """Return what the times of entries have of opening, which only those of cold ones have."""
    cold = {entry_of(entry)[1] in COLD_STATES for entry in entries}
    if cold == {True}:
        return " (opening included)"
    return " (a cold one with its opening)" if True in cold else ""


def _regret_text(value: float, phase: str) -> str:
    if not fmt.known(value):
        return absent_words(phase)
    return "as good as the fastest" if value < 1.005 else f"{fmt.significant(value)}x the fastest"


def objective_cell(data: Data, site: str, phase: str, name: str | None) -> Cell:
    """Return a layout's largest regret and where, or its expected time beside the pick's."""
    if name is None:
        return Cell(fmt.ABSENT, "not in this study", "muted")
    asked, pick = question_of(data.choice(site)), str(data.choice(site)["pick"])
    found = times(data, site, phase).clip(lower=asked.floor_s)
    if name not in found.index or found.loc[name].isna().any():
        return Cell(absent_words(phase), "", "muted")
    if asked.rule == "regret":
        # A file that is too large is nothing that anybody could have had.
        fits = found.index.isin([row["layout"] for row in data.choice(site)["ranking"] if row["fits"]])
        regret = found.loc[name] / found[fits if fits.any() else ~fits].min()
        entry = str(regret.idxmax())
        return Cell(
            _regret_text(regret[entry], phase),
            f"{entry_title(data, site, entry)}: {fmt.seconds(found.loc[name, entry])}",
        )
    logs = objectives(quotable(data, site, phase), asked, {})
    expected = Cell(fmt.seconds(float(np.exp(adjusted_means(logs)[name]))))
    if name == pick or pick not in logs.index:
        return expected
    row = as_ratios(of_rounds(logs.loc[[name]].to_numpy() - logs.loc[[pick]].to_numpy())).iloc[0]
    words, spread, tone = fmt.speed(row["ratio"], row["low"], row["high"], bool(row["different"]))
    said = f"cannot be told from {pick}" if words == fmt.CANNOT_TELL else f"{pick} is {words}"
    return Cell(expected.text, f"{said} ({spread})" if spread else "", tone)
