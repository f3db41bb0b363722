"""The opening: per site which layout to use, how much faster it is than the usual ones, and how sure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.fastest import fastest_table, recommends
from hyperslab.report.model import Cell, Fact, SiteAnswer, Table, table
from hyperslab.report.numbers import raw_bytes
from hyperslab.report.quoted import (
    OBJECTIVES,
    entry_title,
    floor_words,
    objective_cell,
    regret_table,
    sentence,
)
from hyperslab.report.scores import absolute_text, matched_text
from hyperslab.report.speeds import speed_phase, speed_table, unconfirmed
from hyperslab.results.comparisons import ALPHA
from hyperslab.results.requests import question_of
from hyperslab.results.scoring import bounds_words
from hyperslab.studies.summary import Meta

FLATTERS = "the speed-ups come from the rounds that chose the layout, and flatter it."
NOTHING = "nothing was measured here that is valid today"
READS_NOTHING = "this study reads no selections, so it recommends no layout; the table says what was fastest"


def overview(data: Data) -> tuple[Table, str]:
    """Return one row a site, for reading at a glance, and where its speed-ups come from.

    Where nothing is read, and nothing recommended, the fastest layout of each case instead.
    """
    if not recommends(data):
        return fastest_table(data), ""
    references = [f"With {words}" for words, _ in data.references()]
    columns = [
        "Site",
        "Use this layout",
        OBJECTIVES[_rule(data)],
        *references,
        "#File size",
        *(["Score"] if _scored(data) else []),
        "Cannot be told from the best",
    ]
    rows = [_overview_row(data, site) for site in data.sites]
    return table("The answer", columns, rows), _overview_note(data)


def _rule(data: Data) -> str:
    """Return by what the layouts of this study are judged."""
    return next((choice["rule"] for choice in map(data.choice, data.sites) if choice.get("pick")), "regret")


def _overview_row(data: Data, site: str) -> list[Any]:
    """Return the answer for one site in one line."""
    choice = data.choice(site)
    pick = choice.get("pick")
    if pick is None:
        absent = [fmt.ABSENT] * (len(data.references()) + 3 + _scored(data))
        return [site, Cell("no recommendation", choice.get("reason") or NOTHING, "unknown"), *absent]
    phase = speed_phase(data, site, pick)
    return [
        Cell(site, "" if phase == "confirm" else "not confirmed"),
        Cell(pick, layout_text(data.study, pick), "pick"),
        objective_cell(data, site, phase, pick),
        *(
            Cell("is the pick", "", "muted") if name == pick else objective_cell(data, site, phase, name)
            for _, name in data.references()
        ),
        _size_cell(data, choice),
        *([Cell(absolute_text(data, site, pick), matched_text(data, site, pick))] if _scored(data) else []),
        _tied_text(choice, 6),
    ]


def _overview_note(data: Data) -> str:
    """Return what the layouts are judged by, and which rounds the numbers come from."""
    picks = {site: data.choice(site).get("pick") for site in data.sites}
    picked = {site: pick for site, pick in picks.items() if pick is not None}
    if not picked:
        return ""
    late: dict[str, list[str]] = {}
    for site, pick in picked.items():
        if why := unconfirmed(data, site, pick):
            late.setdefault(why, []).append(site)
    source = "".join(
        f" {_flatters(why)}" if len(sites) == len(picked) else f" At {fmt.listing(sites)}, {why}: {FLATTERS}"
        for why, sites in late.items()
    )
    source = source or " Measured again in fresh rounds after the choice."
    said = {
        "mix": "Expected time: what a request waits for, weighted by how often each case is asked.",
        "regret": "Largest regret: how many times as long a request takes as with the fastest layout within "
        "the size, in the case where that is most; nobody said how often each case is asked.",
    }[_rule(data)]
    if _rule(data) == "regret" and not late:
        source += " The fastest is that of the layouts in these rounds."
    floor = floor_words(data.choice(next(iter(picked))))
    return f"{said}{floor and f' A {floor}.'}{source}"


def _flatters(why: str) -> str:
    """Return that figures flatter a pick and why (`unconfirmed`); "" where there is no reason."""
    return f"{why[0].upper()}{why[1:]}: {FLATTERS}" if why else ""


def _tied_text(choice: Mapping[str, Any], most: int | None = None) -> str:
    """Return the layouts that cannot be told from the fastest, the pick itself left out."""
    others = [name for name in choice.get("tied", []) if name != choice["pick"]]
    if not choice.get("tied"):
        return "unknown"
    return fmt.listing(others, most) or "no other layout"


def ranked(choice: Mapping[str, Any], layout: str | None) -> Mapping[str, Any]:
    """Return the entry of a layout in the ranking; empty where it is not ranked."""
    return next((entry for entry in choice.get("ranking", []) if entry["layout"] == layout), {})


def _size_cell(data: Data, choice: Mapping[str, Any]) -> Cell:
    """Return the file size of the pick and its ratio to the raw array."""
    size = ranked(choice, choice["pick"]).get("file_bytes")
    return Cell(
        fmt.megabytes(size),
        "" if size is None else f"{fmt.significant(size / _raw_bytes(data, choice), 4)} x raw",
    )


def _raw_bytes(data: Data, choice: Mapping[str, Any]) -> float:
    """Return the bytes of the largest array among the cases that count, as sizes of files are of these."""
    cases = data.study["cases"]
    counted = {case for case, _ in question_of(choice).shares if case in cases}
    return max((raw_bytes(data, cases[case]) for case in counted), default=float(data.study["raw_bytes"]))


def layout_text(study: Meta, layout: str) -> str:
    """Return what a layout says of itself: chunk shape by axis, bytes of a chunk, axis order, filters."""
    described = study["layouts"].get(layout)
    return "not in today's study" if described is None else str(described["words"])


def _weights(data: Data, site: str) -> str:
    """Return the cases that count, each with its share of the requests where a mix says so."""
    choice = data.choice(site)
    names = {key: entry_title(data, site, key) for key in choice["shares"]}
    if choice["rule"] == "regret":
        return f"{fmt.listing(names.values())}, each by its own regret"
    return fmt.listing(f"{names[key]} {fmt.share(share)}" for key, share in choice["shares"].items())


def site_answer(data: Data, site: str, anchor: str) -> SiteAnswer:
    """Return the answer for one site in full."""
    choice = data.choice(site)
    pick = choice.get("pick")
    if pick is None:
        reason = choice.get("reason") or (NOTHING if not choice else "no reason was recorded")
        if not recommends(data):
            reason = NOTHING if data.main(site).empty else READS_NOTHING
        return SiteAnswer(site, anchor, None, "", lead=f"{reason}.", ranking=_ranking(choice))
    phase = speed_phase(data, site, pick)
    return SiteAnswer(
        site,
        anchor,
        str(pick),
        layout_text(data.study, pick),
        lead=_lead(data, site, phase),
        facts=_facts(data, site),
        regrets=regret_table(data, site, phase),
        speeds=speed_table(data, site, pick, phase),
        ranking=_ranking(choice),
        warnings=[text for text in (choice.get("reason"), _flatters(unconfirmed(data, site, pick))) if text],
    )


def _lead(data: Data, site: str, phase: str) -> str:
    """Return the answer in one breath: what it takes, what it gives up, and how large the file is."""
    size = _size_cell(data, data.choice(site))
    large = f"Its file has {size.text}, {size.note}." if size.note else ""
    text = " ".join(filter(None, [sentence(data, site, phase), large]))
    return text if phase == "confirm" or not text else f"{text} Not confirmed: these figures flatter it."


def _facts(data: Data, site: str) -> list[Fact]:
    """Return why the pick was picked, what else would do, and its size and score."""
    choice = data.choice(site)
    pick, size = choice["pick"], _size_cell(data, choice)
    mine = ranked(choice, pick).get("objective")
    better = [
        f"{row['layout']} ({fmt.megabytes(row['file_bytes'])})"
        for row in choice.get("ranking", [])
        if not row["fits"] and mine is not None and row["objective"] < mine
    ]
    facts = [
        Fact("Why", _why(choice)),
        Fact("Cannot be told from the best", _tied_text(choice)),
        Fact("Runner-up", _runner_up(data, site)),
        Fact("Better, but too large", fmt.listing(better, 8)),
        Fact("File", f"{size.text}, {size.note} ({fmt.megabytes(_raw_bytes(data, choice))})"),
        Fact("Score", _score_text(data, site, pick)),
        Fact("Cases that count", _weights(data, site)),
    ]
    return [fact for fact in facts if fact.text]


def _scored(data: Data) -> bool:
    """Tell whether the study names criteria, of which layouts meet so many."""
    return bool(data.score.get("criteria"))


def _score_text(data: Data, site: str, pick: str) -> str:
    """Return the criteria met as bounded and matched; empty in a study without criteria."""
    if not _scored(data):
        return ""
    said = [f"{absolute_text(data, site, pick)} {bounds_words(data.score)}", matched_text(data, site, pick)]
    return "; ".join(filter(None, said))


def _why(choice: Mapping[str, Any]) -> str:
    """Return why this layout and no other."""
    pick, best, tied = choice["pick"], choice.get("best"), choice.get("tied", [])
    fitting = sum(bool(row["fits"]) for row in choice.get("ranking", []))
    bound = choice.get("size_bound_bytes")
    within = f" whose file has at most {fmt.megabytes(bound)}" if bound else ""
    among = f"the least {_objective(choice)} of {fmt.count(fitting, 'layout')}{within}"
    first = next((row["layout"] for row in choice.get("ranking", []) if row["fits"]), best)
    if best not in (None, first):
        # One with fewer rounds, which some other surely beats, has a lesser mean.
        among = f"the least {_objective(choice)} of those that no other surely beats{within}"
    if fitting == 1:
        return f"It is the only layout in the ranking{within}."
    if not tied:
        return f"It has {among}; whether others tie with it is unknown."
    how = choice.get("chosen_by") or {}
    if pick != best and how.get("measured") not in (None, pick):
        steady = how.get("steady", pick)
        smaller = f"; {pick} is as good as {steady} within 5 %, and its file is smaller"
        return (
            f"{best} has {among}; {steady} cannot be told from it, and is the best where times are drawn "
            f"towards what was predicted{smaller if steady != pick else ''}."
        )
    if pick != best:
        return f"{best} has {among}; {pick} is as good within 5 %, and its file is smaller."
    if len(tied) == 1:
        return f"It has {among}; all others of these are measurably worse."
    return f"It has {among}; {fmt.count(len(tied) - 1, 'layout')} cannot be told from it."


def _objective(choice: Mapping[str, Any]) -> str:
    return OBJECTIVES[choice["rule"]].lower()


def _objective_text(choice: Mapping[str, Any], value: float) -> str:
    return fmt.seconds(value) if choice["rule"] == "mix" else f"{fmt.significant(value)}x"


def _runner_up(data: Data, site: str) -> str:
    """Return the runner-up and what was found of it after the choice; nothing of the rounds that chose."""
    choice = data.choice(site)
    name = choice.get("runner_up")
    if name is None:
        larger = not all(row["fits"] for row in choice["ranking"])
        return "none within the size bound" if larger else "none: no other layout is ranked"
    if name == choice.get("best"):
        sizes = {row["layout"]: row["file_bytes"] for row in choice["ranking"]}
        larger = sizes[name] > sizes[choice["pick"]]
        return f"{name}: the best{', with a larger file' if larger else ' by its times alone'}"
    if speed_phase(data, site, name) != "confirm":
        return str(name)
    found = objective_cell(data, site, "confirm", name)
    return f"{name}: {', '.join(filter(None, (found.text, found.note)))}, measured again after the choice"


def _ranking(choice: Mapping[str, Any]) -> Table | None:
    """Return every layout in the order of what it is judged by."""
    rows: list[list[Any]] = []
    alpha = choice.get("alpha", ALPHA)
    for entry in choice.get("ranking", []):
        told = "no" if entry["tied"] else "yes" if entry["low"] is not None else fmt.ABSENT
        told = "is the best" if entry["layout"] == choice.get("best") else told
        rows.append([
            entry["layout"], Cell(_objective_text(choice, entry["objective"]), f"worst: {entry['worst']}"),
            Cell(fmt.significant(entry["to_best"]), fmt.interval(entry["low"], entry["high"], alpha)), told,
            fmt.megabytes(entry["file_bytes"]), "yes" if entry["fits"] else "no", entry["rounds"],
        ])  # fmt: skip
    left_out = choice.get("left_out") or {}
    rows += [[name, Cell("not ranked", reason), "", "", "", "", ""] for name, reason in left_out.items()]
    if not rows:
        return None
    columns = ["Layout", f"#{OBJECTIVES[choice['rule']]}", "#To the best", "Can be told from it", "#File",
               "File small enough", "#Rounds"]  # fmt: skip
    note = (
        "From the choosing rounds. The best: of those whose file is small enough. It can be told from a "
        "layout that is surely worse than some other one (Hsu's multiple comparisons with the best, adjusted "
        "for the number of layouts). An interval is of its layout by itself, not adjusted: it may leave out "
        "1 where the two cannot be told apart."
    )
    return table("Ranking of all layouts", columns, rows, note, folded=True, pick=choice.get("pick"))
