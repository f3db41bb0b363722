"""The opening: per site which layout to use, how much faster it is than the usual ones, and how sure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.fastest import fastest_table, reads
from hyperslab.report.model import Cell, Fact, SiteAnswer, Table, table
from hyperslab.report.scores import absolute_text, matched_text
from hyperslab.report.speeds import against, compared, overall, speed_cell, speed_phase, speed_table
from hyperslab.studies.summary import Meta

FLATTERS = "No confirming rounds: the speed-ups come from the rounds that chose the layout, and flatter it."
NOTHING = "nothing was measured here that is valid today"
READS_NOTHING = "this study reads no selections, so it recommends no layout; the table says what was fastest"


def overview(data: Data) -> tuple[Table, str]:
    """Return one row a site, for reading at a glance, and where its speed-ups come from.

    Where nothing is read, and nothing recommended, the fastest layout of each case instead.
    """
    if not reads(data):
        return fastest_table(data), ""
    references = [f"Against {words}" for words, _ in data.references()]
    columns = [
        "Site",
        "Use this layout",
        *references,
        "#File size",
        "Score",
        "Cannot be told from the fastest",
    ]
    return table("The answer", columns, [_overview_row(data, site) for site in data.sites]), _overview_note(
        data
    )


def _overview_row(data: Data, site: str) -> list[Any]:
    """Return the answer for one site in one line."""
    choice = data.choice(site)
    pick = choice.get("pick")
    if pick is None:
        absent = [fmt.ABSENT] * (len(data.references()) + 3)
        return [site, Cell("no recommendation", choice.get("reason") or NOTHING, "unknown"), *absent]
    phase = speed_phase(data, site, pick)
    found = overall(data, site, phase)
    return [
        Cell(site, "" if phase == "confirm" else "not confirmed"),
        Cell(pick, layout_text(data.study, pick), "pick"),
        *(speed_cell(found, name, pick) for _, name in data.references()),
        _size_cell(data, choice),
        Cell(absolute_text(data, site, pick), matched_text(data, site, pick)),
        _tied_text(choice, 6),
    ]


def _overview_note(data: Data) -> str:
    """Return what the speed-ups of the overview are, and from which rounds."""
    picks = {site: data.choice(site).get("pick") for site in data.sites}
    picked = {site: pick for site, pick in picks.items() if pick is not None}
    if not picked:
        return ""
    late = [site for site, pick in picked.items() if speed_phase(data, site, pick) != "confirm"]
    where = "" if len(late) == len(picked) else f" At {fmt.listing(late)}:"
    source = f"{where} {FLATTERS}" if late else " Measured again in fresh rounds after the choice."
    return (
        f"Faster: by the weighted geometric mean over the cases that count, with its 95 % interval.{source}"
    )


def _tied_text(choice: Mapping[str, Any], most: int | None = None) -> str:
    """Return the layouts that cannot be told from the fastest, the pick itself left out."""
    others = [name for name in choice.get("tied", []) if name != choice["pick"]]
    if not choice.get("tied"):
        return "unknown"
    return fmt.listing(others, most) or "no other layout"


def _entry(choice: Mapping[str, Any], layout: str) -> Mapping[str, Any]:
    """Return the entry of a layout in the ranking; empty where it is not ranked."""
    return next((entry for entry in choice.get("ranking", []) if entry["layout"] == layout), {})


def _size_cell(data: Data, choice: Mapping[str, Any]) -> Cell:
    """Return the file size of the pick and its ratio to the raw array."""
    size = _entry(choice, choice["pick"]).get("file_bytes")
    return Cell(
        fmt.megabytes(size),
        "" if size is None else f"{fmt.significant(size / data.study['raw_bytes'], 4)} x raw",
    )


def layout_text(study: Meta, layout: str) -> str:
    """Return what a layout says of itself: chunk shape by axis, bytes of a chunk, axis order, filters."""
    described = study["layouts"].get(layout)
    return "not in today's study" if described is None else str(described["words"])


def _weights(weights: Mapping[str, float]) -> str:
    """Return the cases that count, each with its share unless all have the same."""
    if len({round(value, 9) for value in weights.values()}) == 1:
        return fmt.listing(weights) + (", with equal weights" if len(weights) > 1 else "")
    return fmt.listing(f"{name} {fmt.percent(value, 0)}" for name, value in weights.items())


def site_answer(data: Data, site: str, anchor: str) -> SiteAnswer:
    """Return the answer for one site in full."""
    choice = data.choice(site)
    pick = choice.get("pick")
    if pick is None:
        reason = choice.get("reason") or (NOTHING if not choice else "no reason was recorded")
        if not reads(data):
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
        speeds=speed_table(data, site, pick, phase),
        ranking=_ranking(choice),
        warnings=[text for text in (choice.get("reason"), "" if phase == "confirm" else FLATTERS) if text],
    )


def _lead(data: Data, site: str, phase: str) -> str:
    """Return the answer in one breath: how fast over the cases that count, against what; how large."""
    found, choice = overall(data, site, phase), data.choice(site)
    parts = [against(found, name, words) for words, name in compared(data, site) if name in found.index]
    size = _size_cell(data, choice)
    large = f"file has {size.text}, {size.note}" if size.note else ""
    if not parts:
        return f"Its {large}." if large else ""
    if large:
        parts.append(f"its {large}")
    text = f"Over the cases that count, {fmt.listing(parts)}."
    return text if phase == "confirm" else f"{text} Not confirmed: these figures flatter it."


def _facts(data: Data, site: str) -> list[Fact]:
    """Return why the pick was picked, what else would do, and its size and score."""
    choice = data.choice(site)
    pick, size = choice["pick"], _size_cell(data, choice)
    mine = _entry(choice, pick).get("objective")
    faster = [
        f"{row['layout']} ({fmt.megabytes(row['file_bytes'])})"
        for row in choice.get("ranking", [])
        if not row["fits"] and mine is not None and row["objective"] < mine
    ]
    facts = [
        Fact("Why", _why(choice)),
        Fact("Cannot be told from the fastest", _tied_text(choice)),
        Fact("Runner-up", _runner_up(choice)),
        Fact("Faster, but too large", fmt.listing(faster, 8)),
        Fact("File", f"{size.text}, {size.note} ({fmt.megabytes(data.study['raw_bytes'])})"),
        Fact("Score", _score_text(data, site, pick)),
        Fact("Cases that count", _weights(choice.get("weights", {}))),
    ]
    return [fact for fact in facts if fact.text]


def _score_text(data: Data, site: str, pick: str) -> str:
    """Return the criteria met as published and matched; empty in a study without criteria."""
    if not data.score.get("criteria"):
        return ""
    return "; ".join(
        filter(None, [f"{absolute_text(data, site, pick)} as published", matched_text(data, site, pick)])
    )


def _why(choice: Mapping[str, Any]) -> str:
    """Return why this layout and no other."""
    pick, best, tied = choice["pick"], choice.get("best"), choice.get("tied", [])
    fitting = sum(bool(row["fits"]) for row in choice.get("ranking", []))
    bound = choice.get("size_bound_bytes")
    within = f" whose file has at most {fmt.megabytes(bound)}" if bound else ""
    among = f"the smallest weighted time of {fmt.count(fitting, 'layout')}{within}"
    if not tied:
        return f"It has {among}; whether others tie with it is unknown."
    if len(tied) == 1:
        return f"It has {among}; all others of these are measurably slower."
    first = "It has" if pick == best else f"{best} has"
    ties = fmt.count(len(tied) - 1, "layout")
    smallest = f"{pick} has the smallest file of these {len(tied)}"
    return f"{first} {among}; {ties} cannot be told from that, and {smallest}."


def _runner_up(choice: Mapping[str, Any]) -> str:
    """Return the runner-up and how its weighted time compares with the fastest layout's."""
    name = choice.get("runner_up")
    if name is None:
        return "none within the size bound"
    if name == choice.get("best"):
        return f"{name}: the fastest, with a larger file"
    entry = _entry(choice, name)
    if entry.get("to_best") is None:
        return str(name)
    spread = fmt.interval(entry.get("low"), entry.get("high")) or "no interval"
    ratio = f"{fmt.significant(entry['to_best'])}x the weighted time of {choice['best']}"
    return f"{name}: {ratio} in the choosing rounds ({spread})"


def _ranking(choice: Mapping[str, Any]) -> Table | None:
    """Return every layout in the order of its weighted time."""
    rows: list[list[Any]] = []
    for entry in choice.get("ranking", []):
        told = "no" if entry["tied"] else "yes" if entry["low"] is not None else fmt.ABSENT
        told = "is the fastest" if entry["layout"] == choice.get("best") else told
        rows.append([
            entry["layout"], fmt.significant(entry["objective"]),
            Cell(fmt.significant(entry["to_best"]), fmt.interval(entry["low"], entry["high"])), told,
            fmt.megabytes(entry["file_bytes"]), "yes" if entry["fits"] else "no", entry["rounds"],
        ])  # fmt: skip
    left_out = choice.get("left_out") or {}
    rows += [[name, Cell("not ranked", reason), "", "", "", "", ""] for name, reason in left_out.items()]
    if not rows:
        return None
    columns = ["Layout", "#Weighted time", "#To the fastest", "Can be told from it", "#File",
               "File small enough", "#Rounds"]  # fmt: skip
    note = (
        "From the choosing rounds. Weighted time: geometric mean, over the cases that count, of the time "
        "relative to the best layout of each case. The fastest: of those whose file is small enough."
    )
    return table("Ranking of all layouts", columns, rows, note, folded=True, pick=choice.get("pick"))
