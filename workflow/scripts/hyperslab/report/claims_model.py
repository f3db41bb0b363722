"""What a page shows of claims: plain texts, ready to be escaped and set by a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hyperslab.claims.verdicts import NO_VERDICTS
from hyperslab.report.model import MOST_OPEN_ROWS, Figure


@dataclass(frozen=True)
class Badge:
    """A verdict as one sees it: in words, as a symbol, and in a tone of the style sheet."""

    word: str
    symbol: str
    tone: str


BADGES = {
    "holds": Badge("holds", "✓", "good"),
    "fails": Badge("fails", "✗", "bad"),
    "cannot tell": Badge("cannot tell at this noise", "?", "unknown"),
    "cannot be tested": Badge("cannot be tested here", "–", "absent"),
    "not measured": Badge("not measured here", "○", "absent"),
}
# Of a goal, which is no sentence of a source.
GOALS = BADGES | {
    "holds": Badge("goal reached", "✓", "good"),
    "fails": Badge("goal missed", "✗", "bad"),
}
NONE = tuple(BADGES[name] for name in NO_VERDICTS)
DIFFERS = Badge("differs between sites", "±", "unknown")


@dataclass(frozen=True)
class Line:
    """One comparison; `parts` are its instances where there are several.

    `why` says why it has that bound, `rounds` on how many rounds it rests and how much these differ.
    """

    says: str
    measured: str
    bound: str
    badge: Badge
    why: str = ""
    rounds: str = ""
    published: str = ""
    judged: bool = True
    parts: Sequence[Line] = ()


@dataclass(frozen=True)
class Entry:
    """The verdict of one site, or of one site against another; `data` are those on which it rests, `level`
    is that of its limits ("95 %"), empty where nothing was measured.
    """

    where: str
    badge: Badge
    reason: str = ""
    data: str = ""
    level: str = ""
    lines: Sequence[Line] = ()
    figures: Sequence[tuple[str, str]] = ()

    @property
    def parts(self) -> list[Line]:
        """The instances of those comparisons that have several."""
        return [part for line in self.lines for part in line.parts]

    @property
    def long(self) -> bool:
        """Whether its comparisons are too many to stand open on a page."""
        return len(self.lines) > MOST_OPEN_ROWS


@dataclass(frozen=True)
class Way:
    """How to measure and judge one claim alone: commands in order, what they need, and what removes what
    they made.
    """

    commands: Sequence[str] = ()
    needs: str = ""
    remove: str = ""


@dataclass(frozen=True)
class Row:
    """One claim in one study; `way` measures and judges it alone, `left` says why it stays open, `goal` what
    was to be reached where it is a goal of this project beside the sentence.
    """

    anchor: str
    claim: str
    testability: str
    sentence: str
    section: str
    study: str
    published: str
    entries: Sequence[Entry]
    badge: Badge
    explanation: str = ""
    conclusion: str = ""
    reading: str = ""
    left: str = ""
    could: bool = False
    goal: str = ""
    way: Way = Way()


@dataclass(frozen=True)
class Group:
    """The claims of one source: how many of them have which verdict, and how many are `left` open, each with
    its reason; goals beside them are counted apart.
    """

    source: str
    anchor: str
    rows: Sequence[Row]
    counts: Sequence[tuple[Badge, int]]
    left: int = 0
    goals: Sequence[tuple[Badge, int]] = ()

    @property
    def goal_tally(self) -> list[tuple[Badge, str]]:
        """How many goals were reached and missed, in words: "3 reached"."""
        return [(badge, f"{number} {badge.word.removeprefix('goal ')}") for badge, number in self.goals]

    @property
    def tally(self) -> list[tuple[Badge, str]]:
        """Each verdict with its number in words: "4 cannot tell at this noise, 3 of them left so"."""
        return [(badge, f"{number} {badge.word}{self._left(badge)}") for badge, number in self.counts]

    def _left(self, badge: Badge) -> str:
        return f", {self.left} of them left so" if self.left and badge is BADGES["cannot tell"] else ""


@dataclass(frozen=True)
class ClaimsPage:
    """All claims; `figures` are embedded at its end, by anchor.

    `measured` says which studies have results where, `waiting` names those without; `reports` are the titles
    of studies whose reports are its neighbours, by name.
    """

    groups: Sequence[Group]
    figures: Sequence[tuple[str, Figure]]
    measured: Sequence[str]
    waiting: Sequence[str]
    reports: Mapping[str, str] = field(default_factory=dict)
