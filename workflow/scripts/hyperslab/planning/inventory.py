"""Which cells a run's studies have at which sites, which records exist, and who measures the rest."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from hyperslab.measuring.artifact import shared, sharing
from hyperslab.planning import slurm
from hyperslab.planning.batches import parse
from hyperslab.planning.confirmation import finalists
from hyperslab.planning.estimates import estimated_seconds
from hyperslab.planning.planned_study import PlannedStudy, named_study
from hyperslab.planning.site_checks import sites_of
from hyperslab.planning.stages import ADDED, Stage, listed, listing
from hyperslab.records import LETTER, Cell, record_of, site_of


class Inventory:
    """Studies, sites, cells and records.

    `left_out` says by name why a site cannot be measured; `batched` is the site whose batch is measured from
    inside, "" outside of any; `claim` is that for which rounds are added from inside, "" for all of a study.
    """

    def __init__(
        self,
        directory: Path,
        sites: dict[str, dict[str, Any]],
        sites_file: Path,
        left_out: dict[str, str],
        batched: str,
        claim: str = "",
    ) -> None:
        self.directory = directory
        self.sites = sites
        self.sites_file = sites_file
        self.left_out = left_out
        self.batched = batched
        self.claim = claim
        # The studies of which cells are measured; None for all that anything is asked of.
        self.measured: frozenset[str] | None = None
        # The sites of the studies that this run may measure; None for all that are described.
        self.used: frozenset[str] | None = None
        # Whether cells may share their test artifacts: not where some of them alone are asked for.
        self.shares = True
        # Whether every site that a study names has to be described: not where nothing is measured.
        self.all_described = True
        # The batch that is measured from inside, "" outside of any.
        self.batch = ""
        self._studies: dict[str, PlannedStudy] = {}
        self._elsewhere: dict[str, list[str]] = {}
        self._inside: dict[tuple[str, str], set[Cell]] = {}
        # study, site, layout and case -> about how long a cell takes
        self._seconds: dict[tuple[str, ...], float] = {}

    def study(self, name: str) -> PlannedStudy:
        """Return the study of this name, read once; raises ConfigurationError."""
        if name not in self._studies:
            self._studies[name] = named_study(name, self.directory)
            for site in self.elsewhere(self._studies[name]):
                self.left_out.setdefault(site, f"{self.sites_file} does not describe it")
        return self._studies[name]

    # Sites

    def sites_of(self, study: PlannedStudy) -> list[str]:
        """Return the names of the sites that a study wants."""
        return sites_of(study, self.sites, self.sites_file, self.elsewhere(study))

    def elsewhere(self, study: PlannedStudy) -> list[str]:
        """Return the sites that are not described here but have results of a study, which others measured.

        Where nothing is measured also what it names beside them: a pack may hold results of some sites alone.
        """
        if study.name not in self._elsewhere:
            found = set(map(site_of, Path(f"results/{study.name}/cells").glob("*/*/*.json")))
            if found and not self.all_described and study.study.sites != "all":
                found.update(study.study.sites)
            self._elsewhere[study.name] = sorted(found - self.sites.keys())
        return self._elsewhere[study.name]

    def leaves_out(self, study: str, site: str) -> bool:
        """Tell whether this run takes of a study at a site what is there, and measures nothing."""
        return site in self.left_out or not (self.measured is None or study in self.measured)

    @property
    def measured_pattern(self) -> str:
        """A regular expression for the names of the studies of which cells are measured."""
        if self.measured is None:
            return r"[^/]+"
        return "|".join(map(re.escape, sorted(self.measured))) or r"(?!)"

    @cached_property
    def direct(self) -> list[dict[str, Any]]:
        """The sites whose cells are jobs of this very run."""
        return [
            site
            for name, site in self.sites.items()
            if name not in self.left_out and (site["executor"] == "local" or name == self.batched)
        ]

    @cached_property
    def submitted(self) -> list[dict[str, Any]]:
        """The sites whose cells are measured in batches, each one job of this run."""
        return [
            site
            for name, site in self.sites.items()
            if name not in self.left_out and site["executor"] == "slurm" and name != self.batched
        ]

    def in_batches(self, site: str) -> bool:
        """Tell whether this run measures a site through batches."""
        return any(site == submitted["name"] for submitted in self.submitted)

    def concurrency(self, site: str) -> int:
        """Return the cells timed at once: as described, or one, or one a node with its own disk."""
        described = self.sites[site]
        if described["concurrency"] is None and described["node_local"] and described["executor"] == "slurm":
            return slurm.node_count(described["partition"])
        return int(described["concurrency"] or 1)

    def place(self, study: PlannedStudy, site: str, cell: Cell) -> str:
        """Return where a cell's test artifact lies; one that several cells share is called after all of them.

        Where cells are measured side by side each has its own, and no two sites or clones have one.
        """
        layout, case, round_ = cell
        cases = study.sharing(layout, case, site) if self.together(site) else [case]
        if round_.startswith(LETTER["confirm"]):
            # No other case comes for the file then.
            cases = [one for one in cases if one == case or one in study.read_cases()]
        if self.batch and len(cases) > 1:
            # What is kept for cells of another batch would lie there with that of every other layout.
            cases = [one for one in cases if (layout, one, round_) in self._in_batch(study, site)] or [case]
        root = self.sites[site]["root"]
        return f"{root}/{study.name}-{self._here}/{site}/{layout}/{shared(cases)}.{round_}"

    @cached_property
    def _here(self) -> str:
        """What tells test files of this directory from those of another clone, which would remove them."""
        return hashlib.sha256(os.fsencode(Path.cwd())).hexdigest()[:8]

    def together(self, site: str) -> bool:
        """Tell whether cells of a site may share a test artifact: not where several are measured at once."""
        return self.shares and self.concurrency(site) == 1

    def places(self, study: PlannedStudy, site: str, cell: Cell) -> list[Path]:
        """Return where a cell's test artifact lies, and where it was left when other cells shared it."""
        _, case, round_ = cell
        place = Path(self.place(study, site, cell))
        others = [other for other in place.parent.glob(f"*.{round_}") if other != place]
        return [place, *(other for other in others if case in sharing(other))]

    def _in_batch(self, study: PlannedStudy, site: str) -> set[Cell]:
        """Return the cells of the batch that is measured from inside."""
        key = (study.name, site)
        if key not in self._inside:
            self._inside[key] = set(self.batch_cells(study, site, self.batch))
        return self._inside[key]

    # Cells and their records

    def cells(self, study: PlannedStudy, site: str, phase: str) -> list[Cell]:
        """Return (layout, case, round) of a site's cells by round.

        A phase is main (the first rounds), confirm, which needs finalists, a stage of added rounds, or added
        for all of these, which need their list.
        """
        if phase == "main":
            return self._first_cells(study, site, study.study.first_rounds)
        if phase == "confirm":
            known = study.pairs(site)
            return [
                (layout, case, f"c{number}")
                for number in range(study.study.recommendation.confirm_rounds)
                for layout in finalists(Path(f"results/{study.name}/recommendation.json"), site)
                for case in study.read_cases()
                if (layout, case) in known
            ]
        return self.added_cells(study, site, phase=phase)

    def added_cells(self, study: PlannedStudy, site: str, claim: str = "", phase: str = ADDED) -> list[Cell]:
        """Return (layout, case, round) of a site's cells in added rounds, or in those added for one claim."""
        known = study.pairs(site)
        return [
            cell
            for stage in self.stages(study, claim)
            if phase in (ADDED, stage.phase)
            for cell in stage.at(site)
            if cell[:2] in known
        ]

    def seconds(self, study: PlannedStudy, site: str, cells: Sequence[Cell]) -> list[float]:
        """Return about how long each of these cells takes: arithmetic, the same on every machine."""
        store = self.sites[site]["store"]
        for layout, case in {cell[:2] for cell in cells}:
            if (key := (study.name, site, layout, case)) not in self._seconds:
                self._seconds[key] = estimated_seconds(study, layout, case, site=site, store=store)
        return [self._seconds[study.name, site, layout, case] for layout, case, _ in cells]

    def batch_cells(self, study: PlannedStudy, site: str, name: str) -> list[Cell]:
        """Return the cells of the batch of this name; raises ValueError for what is none."""
        batch = parse(name)
        cells = self.cells(study, site, batch.phase)
        return batch.of(cells, self.seconds(study, site, cells))

    def _first_cells(self, study: PlannedStudy, site: str, rounds: int) -> list[Cell]:
        return [cell for number in range(rounds) for cell in study.cells(site, f"r{number}")]

    def stages(self, study: PlannedStudy, claim: str = "") -> list[Stage]:
        """Return the stages of added rounds that a study has had, or one claim of it; none where its rounds
        are not adaptive.
        """
        found = listed(listing(study.name, claim or self.claim)) if study.study.adaptive else []
        first, most = study.rounds
        return [stage for stage in found if first <= stage.begin and stage.end <= most]

    def phases(self, study: PlannedStudy) -> list[str]:
        """Return the phases of a study: the first rounds, each stage of added ones, the confirming ones."""
        return ["main", *(stage.phase for stage in self.stages(study)), "confirm"]

    def records_of(self, study: PlannedStudy, site: str, phase: str = "main") -> list[str]:
        """Return where the records of a site's cells lie."""
        return [record_of(study.name, site, cell) for cell in self.cells(study, site, phase)]

    def all_records(self, study: PlannedStudy) -> list[str]:
        """Return where the records of the main rounds lie or may come to lie, at every site."""
        return [
            record_of(study.name, site, cell)
            for site in self.sites_of(study)
            for cell in self._first_cells(study, site, study.study.most_rounds)
        ]

    def present(self, study: PlannedStudy, site: str, phase: str = "main") -> list[str]:
        """Return the records of a site that exist."""
        return [record for record in self.records_of(study, site, phase) if Path(record).exists()]

    def missing(self, study: PlannedStudy, site: str, phase: str = "main") -> list[str]:
        """Return the records of a site that do not exist yet."""
        return [record for record in self.records_of(study, site, phase) if not Path(record).exists()]

    def with_results(self, study: PlannedStudy) -> list[str]:
        """Return the sites of a study that have results, or will have when this run is done."""
        return [
            site
            for site in self.sites_of(study)
            if (not self.leaves_out(study.name, site) and self.cells(study, site, "main"))
            or self.present(study, site)
        ]

    def without_results(self, study: PlannedStudy) -> list[str]:
        """Return the sites of a study that have no results, and will have none when this run is done.

        What a study of all sites has from other machines alone was not meant for the sites of this one.
        """
        found = self.with_results(study)
        if study.study.sites == "all" and not self.sites.keys() & set(found):
            return []
        return [
            site for site in self.sites_of(study) if site not in found and self.cells(study, site, "main")
        ]
