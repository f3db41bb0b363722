"""Scores as text and tables: criteria met as the study bounds them, and matched by the factor λ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Cell, Fact, Table, table
from hyperslab.results.scoring import Criterion, bounds_words, criterion_values, matched_of, read_criteria
from hyperslab.studies.summary import case_title, in_order

STATISTICS = {"median_s": "median", "mean_s": "mean", "max_s": "max", "min_s": "min",
              "first_access_s": "first access", "file_bytes": "file size"}  # fmt: skip


def _absolute(data: Data, site: str) -> dict[str, Mapping[str, Any]]:
    """Return layout -> its absolute score at a site."""
    return {str(row["layout"]): row for row in data.score.get("absolute", []) if row["site"] == site}


def absolute_text(data: Data, site: str, layout: str) -> str:
    """Return the criteria met as the study bounds them: "3 of 4", with what was not measured."""
    total = len(data.score.get("criteria", []))
    found = _absolute(data, site).get(layout)
    if found is None:
        return "not scored"
    missing = f", {found['missing']} not measured" if found.get("missing") else ""
    return f"{found['score']} of {total}{missing}"


def matched_text(data: Data, site: str, layout: str) -> str:
    """Return the criteria met when matched in selectivity: "matched 4 of 4 (λ 1.19)";
    empty without criteria.
    """
    total = len(data.score.get("criteria", []))
    entry = matched_of(data.score, site)
    if not total or not entry:
        return ""
    if entry.get("factor") is None:
        return f"not matched: {entry.get('reason') or 'no reason recorded'}"
    scores = entry.get("scores") or {}
    if layout not in scores:
        return f"matched: not in the grid (λ {fmt.significant(entry['factor'])})"
    return f"matched {scores[layout]} of {total} (λ {fmt.significant(entry['factor'])})"


def _bound(criterion: Criterion, value: float | None) -> str:
    """Return a value in a criterion's unit: a time,
    or bytes as MiB where its title says so and MB elsewhere.
    """
    if criterion.timed:
        return fmt.seconds(value)
    return fmt.megabytes(value, binary="MiB" in (criterion.title or ""))


def matched_facts(data: Data, site: str) -> list[Fact]:
    """Return λ, what binds, who has full marks and how they overlap with the published ones."""
    entry = matched_of(data.score, site)
    if not entry:
        return []
    if entry.get("factor") is None:
        return [Fact("Matched score", f"There is none: {entry.get('reason') or 'no reason recorded'}.")]
    published, full = list(data.score.get("published", [])), list(entry.get("layouts", []))
    facts = [
        Fact("λ", f"{fmt.significant(entry['factor'], 4)}: every time bound is multiplied by it."),
        Fact("What binds", f"{entry.get('binding_case')}, met last by {entry.get('binding_layout')}"),
        Fact("Full marks, matched", f"{fmt.count(len(full), 'layout')}: {fmt.listing(full)}"),
    ]
    if published:
        both = list(entry.get("published", []))
        text = f"{len(both)} of {len(published)} have full marks here: {fmt.listing(both) or 'none'}"
        facts.append(Fact("Published layouts", text))
    return facts


def score_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return each layout's value of each criterion, whether it is met, and both scores."""
    rows = _absolute(data, site)
    if not rows:
        return None
    criteria = read_criteria(data.score["criteria"])
    here = data.summary_of(site)
    values = {c.label: _values(here, c, criteria) for c in criteria}
    matched = matched_of(data.score, site).get("scores") or {}
    body = _bounds(data.score, site, criteria)
    for layout in in_order(set(rows), data.study["layouts"]):
        entry = rows[layout]
        met = [
            Cell(
                "yes" if entry[c.label] else "no",
                _bound(c, values[c.label].get(layout)),
                "good" if entry[c.label] else "bad",
            )
            for c in criteria
        ]
        full = entry["score"] == len(criteria)
        body.append(
            [
                layout,
                *met,
                Cell(f"{entry['score']} of {len(criteria)}", "", "good" if full else ""),
                f"{matched[layout]} of {len(criteria)}" if layout in matched else fmt.ABSENT,
            ]
        )
    whose = bounds_words(data.score, short=True)
    columns = ["Layout", *(_name(data, c) for c in criteria), f"#Score, {whose}", "#Score, matched"]
    note = "Under each verdict the value that was held against the bound: the geometric mean over rounds."
    return table("Criteria met", columns, body, note, folded=len(body) > 12, pick=pick)


def _name(data: Data, criterion: Criterion) -> str:
    """Return a criterion's title, or what it bounds in words."""
    if criterion.title:
        return criterion.title
    statistic = STATISTICS.get(criterion.statistic, criterion.statistic)
    parts = [case_title(data.study, criterion.case) if criterion.case else None, criterion.state, statistic]
    return ", ".join(part for part in parts if part)


def _bounds(score: Mapping[str, Any], site: str, criteria: list[Criterion]) -> list[list[Any]]:
    """Return the first rows of the score table: every bound, as the study has it and as matched."""
    first = "Bound, as published" if score.get("published") else "Bound"
    matched = matched_of(score, site)
    rows: list[list[Any]] = [
        [Cell(first, "", "muted"), *(f"< {_bound(c, c.below)}" for c in criteria), "", ""]
    ]
    if matched.get("factor") is not None:
        state = matched.get("state") or "cold"
        scaled = [_bound(c, c.below * (matched["factor"] if c.timed else 1)) for c in criteria]
        rows.append(
            [
                Cell("Bound, matched", str(state), "muted"),
                *(f"{'≤' if c.timed else '<'} {bound}" for c, bound in zip(criteria, scaled, strict=True)),
                "",
                "",
            ]
        )
    return rows


def _values(rows: pd.DataFrame, criterion: Criterion, criteria: list[Criterion]) -> pd.Series:
    """Return layout -> the value held against a criterion; empty where nothing was measured."""
    return criterion_values(rows, criterion, criteria) if len(rows) else pd.Series(dtype=float)
