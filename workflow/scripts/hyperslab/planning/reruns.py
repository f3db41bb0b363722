"""What a run makes again though nothing that it depends on changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.confirmation import confirming_list, listed_records
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.remeasure import NOISY, named
from hyperslab.planning.stages import ADDED, listing, made_of
from hyperslab.records import Cell, cell_of, record_of, site_of, written_as
from hyperslab.results import sources
from hyperslab.validation.errors import ConfigurationError

# What shows that a study was measured before: then Snakemake alone does not miss a record.
MADE_OF_RECORDS = ("measurements.parquet", "summary.csv", "report.html")


class Reruns:
    """What is made again; `remeasure` names the records that the user asks for again.

    `noted` has each of them as it was when they were asked for (`there`): one that is another was made for
    it, whichever clock says so. Without it nothing is.
    """

    def __init__(
        self,
        inventory: Inventory,
        batches: BatchJobs,
        remeasure: str,
        noted: Mapping[str, list[int]] | None = None,
    ) -> None:
        self._inventory = inventory
        self._batches = batches
        self._remeasure = remeasure
        self._noted = noted
        self._asked: dict[tuple[str, str], set[str]] = {}

    def asked(self, study: PlannedStudy, site: str) -> set[str]:
        """Return the records of a site that the user asks for again."""
        key = (study.name, site)
        if key not in self._asked:
            again = named(self._remeasure, study.name)
            known = self._planned(study, site)
            if self._remeasure:
                known += self._inventory.records_of(study, site, "confirm")
            self._asked[key] = {record for record in filter(again, known) if self._is_old(record)}
        return self._asked[key]

    def _is_old(self, record: str) -> bool:
        """Tell whether a record is the one that was asked for again, or not there."""
        return self._noted is None or written_as(record) in (None, self._noted.get(record))

    def there(self, studies: list[str]) -> dict[str, list[int]]:
        """Return when each record that is asked for again was written, and its size, of those that are there,
        in whichever round: of whom confirming rounds are is known only later.
        """
        found = {}
        for name in studies:
            again = named(self._remeasure, name)
            for record in filter(again, map(str, Path(f"results/{name}/cells").glob("*/*/*.json"))):
                if (written := written_as(record)) is not None:
                    found[record] = written
        return found

    def _planned(self, study: PlannedStudy, site: str) -> list[str]:
        """Return where the records of a site's first and added rounds lie."""
        return [
            record for phase in ("main", ADDED) for record in self._inventory.records_of(study, site, phase)
        ]

    def none_noisy(self, study: PlannedStudy) -> bool:
        """Tell whether the noisy cells of a study are asked for again, and it has none."""
        sites = self._inventory.sites_of(study)
        return self._remeasure == NOISY and not any(self.asked(study, site) for site in sites)

    def markers(self, study: PlannedStudy, site: str, phase: str) -> list[str]:
        """Return the markers of the batches on which the table waits; none where records are waited for."""
        if not self._inventory.in_batches(site):
            return []
        batches = self._batches.of(study.name, site, phase)
        found = [
            marker
            for batch, marker in zip(batches, self._batches.markers(study, site, phase), strict=True)
            if Path(marker).exists() or self.is_short(study, site, batch.name)
        ]
        asked = self.asked(study, site).intersection(self._inventory.records_of(study, site, phase))
        if not asked and self._batches.unneeded(study, site, phase, found):
            return []
        return found

    def is_short(self, study: PlannedStudy, site: str, batch: str) -> bool:
        """Tell whether a batch lacks a record of today's, or one of its records is asked for again.

        What has all of them without a marker was measured when its cells were shared among other jobs.
        Unlike a whole site (`BatchJobs.unneeded`) a batch is short with records of an older protocol: they no
        longer count beside those that other batches measure of the same rounds.
        """
        cells = self._inventory.batch_cells(study, site, batch)
        records = [record_of(study.name, site, cell) for cell in cells]
        if self.asked(study, site) & set(records):
            return True
        return not all(map(study.is_todays, map(Path, records), cells))

    def forced(self, studies: list[str]) -> set[str]:
        """Return results to make again: those that were asked for, and those that are gone although what was
        made of them is there. For a site measured in batches, the markers of the batches concerned.
        """
        return {file for name in studies for file in self._forced_of(self._inventory.study(name))}

    def outdated(self, studies: list[str]) -> set[str]:
        """Return lists of added rounds and tables that were made of other records than there are now."""
        return {file for name in studies for file in self._outdated_of(self._inventory.study(name))}

    def again(self, studies: list[str], phase: str) -> set[str]:
        """Return the records of a phase that are to be measured again to stand beside its others.

        A pack's have no history here by which Snakemake would see it. Not of sites measured in batches.
        """
        inventory, found = self._inventory, set()
        for study in map(inventory.study, studies):
            for site in inventory.sites_of(study):
                if site not in inventory.left_out and not inventory.in_batches(site):
                    records = inventory.records_of(study, site, phase)
                    found |= {str(record) for record in out_of_step(study, records) if record.exists()}
        return found

    def _forced_of(self, study: PlannedStudy) -> Iterator[str]:
        inventory = self._inventory
        if confirmation := self._unconfirmed(study):
            yield confirmation
        yield from self._outdated_of(study)
        made = any(Path(f"results/{study.name}/{name}").exists() for name in MADE_OF_RECORDS)
        for site in inventory.sites_of(study):
            if site in inventory.left_out:
                continue
            wanted = self.asked(study, site)
            if not inventory.in_batches(site):
                yield from wanted
                if made:
                    yield from inventory.missing(study, site)
                continue
            for phase in inventory.phases(study):
                markers = self._batches.markers(study, site, phase)
                for batch, marker in zip(self._batches.of(study.name, site, phase), markers, strict=True):
                    mine = self._batches.records(study, site, batch.name)
                    # A marker tells nothing of records that went away after it, nor does its absence.
                    if wanted & set(mine) or not all(Path(record).exists() for record in mine):
                        yield marker

    def _outdated_of(self, study: PlannedStudy) -> Iterator[str]:
        for claim in ("", *(claim["id"] for claim in study.claims)):
            if self.stages_outdated(study, claim):
                yield str(listing(study.name, claim))
        yield from self._outdated_tables(study)

    def stages_outdated(self, study: PlannedStudy, claim: str) -> bool:
        """Tell whether the list of added rounds, or of those for one claim, is of another study than today's,
        or short of records.

        Records of it that this run can measure may have gone, or be asked for again.
        """
        file, inventory = listing(study.name, claim), self._inventory
        if not study.study.adaptive or not file.exists():
            return False
        deciding, there = made_of(file)
        if deciding != study.deciding_of(claim):
            return True
        for site in inventory.sites_of(study):
            reached = site not in inventory.left_out
            for cell in inventory.added_cells(study, site, claim):
                record = record_of(study.name, site, cell)
                exists = Path(record).exists()
                if exists != (record in there) or (reached and not exists):
                    return True
                if reached and record in self.asked(study, site):
                    return True
        return False

    def _outdated_tables(self, study: PlannedStudy) -> Iterator[str]:
        """Yield the tables that were made of other records than there are now, whatever came in between."""
        here = Path(f"results/{study.name}")
        present = [record for record in self._inventory.all_records(study) if Path(record).exists()]
        if (here / "measurements.parquet").exists() and not sources.unchanged(here / "sources.json", present):
            yield str(here / "measurements.parquet")
        table, listed = here / "confirmation.parquet", confirming_list(study.name)
        if table.exists() and listed.exists():
            confirming = listed_records(listed, "records")
            if not sources.unchanged(here / "confirmation-sources.json", confirming):
                yield str(table)

    def _unconfirmed(self, study: PlannedStudy) -> str | None:
        """Return the list of confirming records, where one that this run can measure is not there, is asked
        for again, or does not stand beside the others, and where the study has no such cell.
        """
        inventory = self._inventory
        listed = confirming_list(study.name)
        if not listed.exists():
            return None
        wanted: dict[str, list[Path]] = {}
        for record in map(Path, listed_records(listed, "wanted")):
            wanted.setdefault(site_of(record), []).append(record)
        for site, records in wanted.items():
            # None of these is ever measured; the list that is made next has none.
            if not {cell_of(record)[:2] for record in records} <= study.pairs(site):
                return str(listed)
            if site not in inventory.sites or site in inventory.left_out:
                continue
            if out_of_step(study, records) or self.asked(study, site) & set(map(str, records)):
                return str(listed)
        return None

    def due(self, study: PlannedStudy, site: str) -> list[Cell]:
        """Return the cells of a site that have no record, or whose record is asked for again."""
        asked, planned = self.asked(study, site), map(Path, self._planned(study, site))
        return [cell_of(record) for record in planned if str(record) in asked or not record.exists()]

    def unfinished(self, study: PlannedStudy, made: Collection[str]) -> list[str]:
        """Return the records of cells of this very run that a failure may have kept from being measured.

        `made` are the outputs of the run's jobs: another run may be measuring the study's other cells. Added
        and confirming rounds are measured for lists and tables among them.
        """
        inventory = self._inventory
        direct = {site["name"] for site in inventory.direct} & set(inventory.sites_of(study))
        own = [Path(path) for path in made if path.startswith(f"results/{study.name}/")]
        inside = {
            ADDED: any(path.name.endswith("rounds.json") for path in own),
            "confirm": any(path.name == "confirmation.json" for path in own),
        }
        gone = {str(path) for path in own if path.parts[2] == "cells" and path.parts[3] in direct}
        for phase in (name for name, measured in inside.items() if measured):
            gone.update(record for site in direct for record in inventory.missing(study, site, phase))
        return sorted(gone)

    def short(self, study: PlannedStudy) -> bool:
        """Tell whether cells that this run can measure have no record, or may have kept the old one."""
        inventory = self._inventory
        reached = [site for site in inventory.sites_of(study) if site not in inventory.left_out]
        return any(
            self.due(study, site) or self.asked(study, site) or inventory.missing(study, site, "confirm")
            for site in reached
        )

    def check(self, studies: list[str]) -> None:
        """Refuse a `remeasure` that names nothing which this run can measure; raises ConfigurationError."""
        if not self._remeasure or self._remeasure == NOISY or not studies:
            return
        planned = [self._inventory.study(name) for name in studies]
        sites = {
            site for study in planned for site in self._inventory.sites_of(study) if self.asked(study, site)
        }
        if not sites:
            record = next((found for study in planned for found in self._inventory.all_records(study)), "")
            example = "/".join(Path(record).with_suffix("").parts[-3:])
            names = ", ".join(studies)
            said = f"names no cell of {names}; it is a glob over site/layout/case.round, such as {example}"
        elif sites <= self._inventory.left_out.keys():
            reasons = "; ".join(f"{site}: {self._inventory.left_out[site]}" for site in sorted(sites))
            said = f"names only cells that this run cannot measure: {reasons}"
        else:
            return
        raise ConfigurationError("--config", f"remeasure={self._remeasure}", said)


def out_of_step(study: PlannedStudy, records: Iterable[str | Path]) -> list[Path]:
    """Return which records of a site are not there, of another specification, or of an older protocol where
    not all of the same case and round are: beside today's those would not count (results/tables.py).
    """
    blocks: dict[tuple[str, ...], dict[Path, str]] = {}
    for record in map(Path, records):
        cell = cell_of(record)
        blocks.setdefault(cell[1:], {})[record] = study.standing(record, cell)
    return [
        record
        for block in blocks.values()
        if set(block.values()) != {"older protocol"}
        for record, standing in block.items()
        if standing != "today"
    ]
