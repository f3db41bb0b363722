"""What a page consists of: plain texts, ready to be escaped and set by the template. Nothing here is HTML."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# A longer table shows its title and number of rows until it is opened.
MOST_OPEN_ROWS = 10


@dataclass(frozen=True)
class Cell:
    """One field of a table: its text, a smaller second line, and its tone.

    The template has a style for "good", "bad", "unknown", "muted" and "pick"; "" is plain. Every tone also
    shows in words, never as colour alone.
    """

    text: str
    note: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Column:
    """The head of a column; numbers are set flush right."""

    name: str
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """A table; `folded` and long ones show their title and number of rows until they are opened."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    folded: bool = False

    @property
    def long(self) -> bool:
        """Whether it has too many rows to stand open on a page."""
        return len(self.rows) > MOST_OPEN_ROWS

    @property
    def beginning(self) -> Table:
        """The rows that stand open where a table is too important to be folded as a whole."""
        return replace(self, rows=self.rows[:MOST_OPEN_ROWS], note="")

    @property
    def rest(self) -> Table:
        """The rows after these."""
        return replace(self, rows=self.rows[MOST_OPEN_ROWS:])


@dataclass(frozen=True)
class Figure:
    """A figure embedded in the page: `source` is a data: URI, or None with the reason in `missing`."""

    name: str
    caption: str
    source: str | None
    missing: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure of a site that opens the page."""

    site: str
    anchor: str
    figure: Figure


@dataclass(frozen=True)
class Fact:
    """A term and what is said of it."""

    term: str
    text: str


@dataclass(frozen=True)
class SiteAnswer:
    """The answer for one site; `layout` is None where nothing can be recommended.

    `lead` goes on after "<site>: use <layout>", or says why there is none; `summary` describes the layout.
    """

    site: str
    anchor: str
    layout: str | None
    summary: str
    lead: str = ""
    facts: Sequence[Fact] = ()
    regrets: Table | None = None
    speeds: Table | None = None
    ranking: Table | None = None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Check:
    """One question put to the data: `tone` "good" (nothing found), "bad" (doubtful) or "unknown" (a note)."""

    name: str
    text: str
    tone: str
    details: Sequence[Table] = ()


@dataclass(frozen=True)
class Block:
    """Figures that belong together, with their numbers."""

    title: str
    anchor: str
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    facts: Sequence[Fact] = ()


@dataclass(frozen=True)
class SiteSection:
    """Everything of one site."""

    site: str
    anchor: str
    blocks: Sequence[Block] = ()
    text: str = ""


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    study: str
    # What it answers, in one line.
    question: str
    facts: Sequence[Fact]
    overview: Table
    overview_note: str
    answers: Sequence[SiteAnswer]
    checks: Sequence[Check]
    sites: Sequence[SiteSection]
    context: Sequence[Table]
    method: Sequence[Fact]
    columns: Sequence[Table] = field(default=())
    pictures: Sequence[Picture] = field(default=())
    # hyperslab.report.claims_model.Row
    claims: Sequence[Any] = field(default=())
    # The page of all claims, of which this is a neighbour; "" for a page that stands alone.
    front_door: str = ""


def cell(value: Any) -> Cell:
    """Return a cell of whatever is given; None is an empty one."""
    return value if isinstance(value, Cell) else Cell("" if value is None else str(value))


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Iterable[Any]],
    note: str = "",
    folded: bool = False,
    pick: str | None = None,
) -> Table:
    """Return a table of cells; "#" before a column's name: it holds numbers; layout `pick` is marked in the
    column of layouts.
    """
    head = [Column(name.removeprefix("#"), name.startswith("#")) for name in columns]
    body = [[cell(value) for value in row] for row in rows]
    if pick is not None:
        body = [
            [
                replace(one, tone="pick") if column.name == "Layout" and one.text == pick else one
                for column, one in zip(head, row, strict=False)
            ]
            for row in body
        ]
    return Table(title, head, body, note, folded)


def embed(name: str, caption: str, path: Path) -> Figure:
    """Return a figure from an SVG (or PNG) file; one that is missing is said to be, not left out."""
    kind = {".svg": "image/svg+xml", ".png": "image/png"}.get(path.suffix.lower())
    if kind is None:
        return Figure(name, caption, None, f"{path.name} is neither SVG nor PNG")
    try:
        content = path.read_bytes()
    except OSError:
        return Figure(name, caption, None, f"{path.name} has not been drawn")
    return Figure(name, caption, f"data:{kind};base64,{b64encode(content).decode('ascii')}")
