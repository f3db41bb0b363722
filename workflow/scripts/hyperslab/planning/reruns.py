"""What a run makes again though nothing that it depends on changed, and what it clears away first."""

from __future__ import annotations

import fnmatch
import glob
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from hyperslab.measuring.artifact import remove_directory
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import ROUND, PlannedStudy

# --config remeasure=noisy: the cells that the study's table flags.
NOISY = "noisy"


def named(pattern: str, study: str) -> Callable[[str], bool]:
    """Return what tells of a record whether `remeasure` names it.

    A pattern is a glob over site/layout/case.round, "noisy", or "" for none.
    """
    prefix = f"results/{study}/cells/"
    if pattern != NOISY:
        return lambda record: fnmatch.fnmatchcase(record.removeprefix(prefix).removesuffix(".json"), pattern)
    table = Path(f"results/{study}/measurements.parquet")
    if not table.exists():
        return lambda record: False
    from hyperslab.results.tables import read_table

    rows = read_table(table, ["site", "layout", "case", "round", "phase", "noisy"])
    rows = rows[rows["noisy"] & (rows["phase"] == "main")].drop_duplicates()
    flagged = {f"{prefix}{r.site}/{r.layout}/{r.case}.r{r.round}.json" for r in rows.itertuples()}
    return lambda record: record in flagged


class Reruns:
    """What is made again; `remeasure` names the records that the user asks for again."""

    def __init__(self, inventory: Inventory, batches: BatchJobs, remeasure: str) -> None:
        self._inventory = inventory
        self._batches = batches
        self._remeasure = remeasure
        self._asked: dict[tuple[str, str], set[str]] = {}

    def asked(self, study: PlannedStudy, site: str) -> set[str]:
        """Return the records of a site that the user asks for again."""
        key = (study.name, site)
        if key not in self._asked:
            again = named(self._remeasure, study.name)
            self._asked[key] = set(filter(again, self._inventory.records_of(study, site)))
        return self._asked[key]

    def markers(self, study: PlannedStudy, site: str, phase: str) -> list[str]:
        """Return the markers of the batches on which the table waits; none where records are waited for."""
        if not self._inventory.in_batches(site):
            return []
        if not self.asked(study, site) and self._batches.unneeded(study, site, phase):
            return []
        return self._batches.markers(study, site, phase)

    def forced(self, studies: list[str]) -> set[str]:
        """Return results to make again: those that were asked for, and those that are gone although what was
        made of them is there. For a site measured in batches, the markers of the batches concerned.
        """
        return {file for name in studies for file in self._forced_of(self._inventory.study(name))}

    def _forced_of(self, study: PlannedStudy) -> Iterator[str]:
        inventory = self._inventory
        if confirmation := self._unconfirmed(study.name):
            yield confirmation
        summarised = Path(f"results/{study.name}/summary.csv").exists()
        for site in inventory.sites_of(study):
            if site in inventory.left_out:
                continue
            records, wanted = inventory.records_of(study, site), self.asked(study, site)
            if not inventory.in_batches(site):
                yield from wanted
                if summarised:
                    yield from (record for record in records if not Path(record).exists())
                continue
            markers = self._batches.markers(study, site)
            for batch, marker in zip(self._batches.of(study.name, site), markers, strict=True):
                mine = batch.of(records)
                gone = Path(marker).exists() and any(not Path(record).exists() for record in mine)
                if gone or wanted & set(mine):
                    yield marker

    def _unconfirmed(self, study: str) -> str | None:
        """Return the list of confirming records, where one that this run can measure is not there."""
        inventory = self._inventory
        listed = f"results/{study}/confirmation.json"
        if not Path(listed).exists():
            return None
        wanted = [Path(record) for record in json.loads(Path(listed).read_text(encoding="utf-8"))["wanted"]]
        reached = inventory.sites.keys() - inventory.left_out.keys()
        gone = any(record.parts[-3] in reached and not record.exists() for record in wanted)
        return listed if gone else None

    def missing(self, study: PlannedStudy) -> list[str]:
        """Return the records missing of cells that are jobs of this very run, confirming rounds included."""
        inventory = self._inventory
        direct = {site["name"] for site in inventory.direct} & set(inventory.sites_of(study))
        return [
            record for site in direct for phase in ROUND for record in inventory.missing(study, site, phase)
        ]

    def sweep(self, records: list[str]) -> None:
        """Remove what dead jobs left of the cells of `records`: test files, and halves of records."""
        for record in map(Path, records):
            _, study, _, site, layout, _ = record.parts
            # Where the file system has gone, so has the file.
            with suppress(OSError):
                remove_directory(Path(self._inventory.sites[site]["root"], study, layout, record.stem))
            for half in record.parent.glob(f".{glob.escape(record.name)}.*"):
                half.unlink(missing_ok=True)
