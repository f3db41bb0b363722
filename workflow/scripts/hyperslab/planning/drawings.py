"""Which figures are drawn together: all of a site, but those that depend on the criteria apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hyperslab.planning.inventory import Inventory
from hyperslab.studies import figures


@dataclass(frozen=True)
class Drawing:
    """The figures of one site that one job draws."""

    study: str
    site: str
    names: tuple[str, ...]
    scored: bool

    @property
    def rule(self) -> str:
        """The name of the rule, which no other drawing of a run has."""
        # No name holds an @, as both may hold a _.
        return f"{'score_figure' if self.scored else 'figures'}_{self.study}@{self.site}"

    def file(self, name: str) -> str:
        """Return where a figure is drawn, with the study as a wildcard."""
        return f"results/{{study}}/figures/{self.site}/{name}.svg"

    def caption_file(self, name: str) -> Path:
        """Return where the caption of a figure stands."""
        return figures.caption_file(name)


def drawings(inventory: Inventory, studies: Iterable[str]) -> Iterator[Drawing]:
    """Yield how the figures of `studies` are shared among jobs, at every site with results."""
    for study in studies:
        planned = inventory.study(study)
        for site in inventory.with_results(planned):
            names = figures.names(planned.figure_meta, site)
            for scored in (False, True):
                chosen = tuple(name for name in names if (name in figures.SCORED) == scored)
                if chosen:
                    yield Drawing(study, site, chosen, scored)


def most_together(found: Iterable[Drawing]) -> int:
    """Return how many jobs make a report at most, those that draw its figures among them."""
    return 1 + max(Counter(drawing.study for drawing in found).values(), default=0)
