"""The page of all claims as Markdown, for a repository: the same rows, without figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hyperslab import text as fmt
from hyperslab.report.claims import lies_on
from hyperslab.report.claims_model import ClaimsPage, Entry, Line, Row, Way

HEAD = """# Verdicts

Made with `results/claims.html`, from the results of the studies below. A comparison is formed within each
round and tested by how its rounds differ. A claim holds if the one-sided limit of every comparison lies
within its bound, and fails if one lies outside, adjusted for their number (Holm). That one time is less or
more than another fails, too, if it surely is not so by 5 %. Otherwise nothing can be told at this noise; a
claim that is left so says why. Limits are those of 95 %; where rounds were added, the looks at them share the
5 %. Where a comparison is made of several, the least and the greatest stand here; the page has each. Behind
the rounds stands their own deviation.
"""
# Characters of a sentence in the overview; it stands in full below.
SHORT = 90


def markdown(page: ClaimsPage, judged: Sequence[Mapping[str, Any]]) -> str:
    """Return the page; `judged` is the content of every claims.json."""
    parts = [HEAD, _studies(judged)]
    for group in page.groups:
        counted = "; ".join(told for _, told in group.tally)
        goals = "; ".join(told for _, told in group.goal_tally)
        beside = f" Goals of this project beside them: {goals}." if goals else ""
        explains = any(row.explanation for row in group.rows)
        left_out = " Explanations of a claim are not counted." if explains else ""
        parts.append(f"## {_plain(group.source)}\n\n{counted}.{beside}{left_out}\n")
        parts.append(_overview(group.rows))
        parts += [_row(row) for row in group.rows]
    return "\n".join(parts)


def _studies(judged: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        [content["study"], site, lies_on(facts), fmt.listing(facts.get("data", [])),
         f"{facts['cells']:,}", str(facts["rounds"]), fmt.duration(facts["took_s"]),
         fmt.moment(facts["ended_s"])]
        for content in judged
        for site, facts in content["sites"].items()
        if facts.get("cells")
    ]  # fmt: skip
    head = ["study", "site", "file system", "data", "cells", "rounds", "time of its cells", "last one ended"]
    return _table(head, rows)


def _overview(rows: Iterable[Row]) -> str:
    listed = [
        [
            f"[{row.claim}](#{fmt.anchor(_title(row))})",
            row.study,
            row.badge.word,
            _data(row),
            _short(f"[goal] {row.goal}" if row.goal else row.sentence),
        ]
        for row in rows
    ]
    return _table(["claim", "study", "verdict", "data", "sentence"], listed)


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= SHORT else f"{sentence[:SHORT].rsplit(' ', 1)[0]} …"


def _data(row: Row) -> str:
    return fmt.listing(dict.fromkeys(entry.data for entry in row.entries if entry.data))


def _title(row: Row) -> str:
    return f"{row.claim}: {row.badge.word}" + (f" ({row.study})" if row.study else "")


def _row(row: Row) -> str:
    parts = [f"### {_title(row)}\n"]
    if row.goal:
        parts.append(f"A goal of this project: {_plain(row.goal)}. It stands beside the sentence\n")
    parts.append(f"> {_plain(row.sentence)}\n")
    told = [f"{_plain(row.section)}."]
    if row.published:
        told.append(f"Published: {_plain(row.published)}.")
    if row.reading:
        told.append(f"Read as: {_plain(row.reading)}.")
    if row.explanation:
        told.append(f"Explanation: {_plain(row.explanation)}.")
    if row.could:
        told.append("It says that it can be so: one comparison that holds is enough.")
    parts.append(" ".join(told) + "\n")
    if row.left:
        parts.append(f"Left open: {_plain(row.left)}.\n")
    if row.conclusion:
        parts.append(_plain(row.conclusion) + "\n")
    parts += [_entry(entry) for entry in row.entries]
    if row.way.commands:
        parts.append(_way(row.way))
    return "\n".join(parts)


def _way(way: Way) -> str:
    """Return the commands that measure and judge a claim alone."""
    needs = f", which needs {_plain(way.needs)}" if way.needs else ""
    after = f"; at the end `{way.remove}`" if way.remove else ""
    return f"Run it{needs}: {', then '.join(f'`{command}`' for command in way.commands)}{after}\n"


def _entry(entry: Entry) -> str:
    where = f"{entry.where}: " if entry.where else ""
    reason = f" ({_plain(entry.reason)})" if entry.reason else ""
    data = f" Data: {_plain(entry.data)}." if entry.data else ""
    said = f"**{where}{entry.badge.word}**{reason}.{data}\n"
    if not entry.lines:
        return said
    measured = f"measured (limits at {entry.level})" if entry.level else "measured"
    head = ["compared", "published", measured, "holds if", "why", "rounds, deviation", "verdict"]
    return said + "\n" + _table(head, [_line(line) for line in entry.lines])


def _line(line: Line) -> list[str]:
    verdict = line.badge.word if line.judged else f"{line.badge.word}; not judged"
    return [line.says, line.published, line.measured, line.bound, line.why, line.rounds, verdict]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_plain(cell) for cell in cells)} |\n" for cells in lines)


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is, also inside a table."""
    return re.sub(r"([*_<|`])", r"\\\1", " ".join(text.split()))
