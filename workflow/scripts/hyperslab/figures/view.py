"""What one site's figures have in common: its rows, the order of layouts, names, titles and colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd

from hyperslab.figures import FigureData
from hyperslab.figures.style import colours, resolved
from hyperslab.results.recommendation import choice_of
from hyperslab.results.statistics import by_mean
from hyperslab.results.tables import completed, named
from hyperslab.states import LIBRARY_COLD
from hyperslab.studies.summary import case_title, in_order
from hyperslab.text import listing, span

# role -> number in the palette, marker, size of the marker in points, words
ROLES = {
    "pick": (0, "*", 14.0, "recommended"),
    "runner-up": (1, "^", 7.0, "runner-up"),
    "contiguous": (3, "s", 7.0, "contiguous"),
    "automatic": (2, "D", 6.5, "automatic chunks"),
}


@dataclass(frozen=True)
class View:
    """The main rounds of one site without stale rows: `summary` a row a round, `measurements` a repeat."""

    site: str
    data: FigureData
    style: Mapping[str, Any]
    summary: pd.DataFrame
    measurements: pd.DataFrame
    choice: Mapping[str, Any]

    @property
    def study(self) -> Mapping[str, Any]:
        """`describe` of the study."""
        return self.data.study

    @property
    def palette(self) -> list[str]:
        """The ten colours of the style's palette."""
        return colours(self.style)

    @property
    def tints(self) -> list[str]:
        """The same colours with those next to each other that differ most in lightness."""
        return [self.palette[number] for number in (0, 1, 2, 4, 8, 9, 5, 3, 6, 7)]

    @property
    def pick(self) -> str | None:
        """The recommended layout."""
        return self.choice.get("pick")

    @property
    def contiguous(self) -> str | None:
        """The layout without chunks."""
        return self.data.recommendation.get("contiguous")

    @property
    def automatic(self) -> str | None:
        """The layout with the library's own chunks."""
        return self.data.recommendation.get("automatic")

    @property
    def cold(self) -> str:
        """What "cold" is called here."""
        return LIBRARY_COLD if LIBRARY_COLD in set(self.summary["state"]) else "cold"

    def title(self, case: str) -> str:
        """Return the title of a case."""
        return case_title(self.study, case)

    def order(self, layouts: Iterable[str]) -> list[str]:
        """Return `layouts` as the study orders them; those that it does not know follow, sorted."""
        return in_order(set(layouts), self.study["layouts"])

    def rounds(self, case: str, state: str) -> pd.DataFrame:
        """Return the rows of the summary of one case and state."""
        return self.summary[(self.summary["case"] == case) & (self.summary["state"] == state)]

    def pooled(self, case: str, state: str) -> pd.DataFrame:
        """Return the columns that a cell has over its rounds, by layout in the study's order."""
        rows = self.rounds(case, state).drop_duplicates("layout").set_index("layout")
        return rows.loc[self.order(rows.index)]

    def repeats(self, case: str, state: str) -> pd.DataFrame:
        """Return the repeats of one case and state."""
        rows = self.measurements
        return rows[(rows["case"] == case) & (rows["state"] == state)]

    def nothing_cold(self, cases: Iterable[str]) -> str:
        """Return why a figure of cold reads shows nothing of these cases."""
        states = set(self.measurements["state"][self.measurements["case"].isin(list(cases))])
        which = f"{self.cold} " if states and self.cold not in states else ""
        return f"Not measured {which}here."

    def of_whole_arrays(self) -> pd.DataFrame:
        """Return the repeats whose test file holds the whole array."""
        whole = {name for name, case in self.study["cases"].items() if case["shape"] == self.study["shape"]}
        return self.measurements[self.measurements["case"].isin(whole)]

    def over_rounds(self, rows: pd.DataFrame) -> str:
        """Return how what stands for a round is pooled over the rounds in `rows`, in each of their states."""
        of_each = rows.groupby(["layout", "case", "state"], observed=True)["round"].nunique()
        summary = self.summary[self.summary["case"].isin(rows["case"])]
        states: dict[str, list[str]] = {}
        for state in dict.fromkeys(rows["state"]):
            held = by_mean(summary[summary["state"] == state])
            word = "geometric means" if state == "session" else "means" if held else "medians"
            states.setdefault(word, []).append(str(state))
        several = [f"{word} ({', '.join(of)})" for word, of in states.items()]
        words = listing(several if len(several) > 1 else states) or "medians"
        if of_each.max() <= 1:
            return f"{words} of one round"
        return f"geometric mean of the {words} of {span(of_each, 'round')}"

    def role(self, layout: str) -> str | None:
        """Return "pick", "contiguous", "automatic" or "runner-up", the first that fits."""
        named = {"pick": self.pick, "contiguous": self.contiguous, "automatic": self.automatic}
        named["runner-up"] = self.choice.get("runner_up")
        return next((role for role, name in named.items() if name == layout), None)

    def role_colour(self, layout: str) -> str:
        """Return the colour of a layout that has a role, everywhere the same; else that of plain text."""
        role = self.role(layout)
        return self.palette[ROLES[role][0]] if role else str(self.style["ink"])

    def label(self, layout: str) -> str:
        """Return a layout's name with its role: a star for the recommended one,
        words where the name has none.
        """
        text = layout
        for role, name in (("contiguous", self.contiguous), ("automatic", self.automatic)):
            if name == layout and not role.startswith(layout.lower()):
                text = f"{layout} ({role})"
        return f"★ {text}" if layout == self.pick else text


# All figures of a site are drawn one after the other, of tables that take long to copy.
@lru_cache(maxsize=1)
def look(site: str, data: FigureData) -> View:
    """Return the view of one site."""
    measurements = _main(completed(data.measurements), site)
    return View(
        site,
        data,
        resolved(data.style),
        _main(named(data.summary), site),
        measurements[~measurements["stale"].astype(bool)],
        choice_of(data.recommendation, site),
    )


def _main(table: pd.DataFrame, site: str) -> pd.DataFrame:
    """Return the main rounds of a site."""
    return table[(table["site"] == site) & (table["phase"] == "main")]
