"""Which records stay where Snakemake would remove them, which come back, and what of dead jobs is removed."""

from __future__ import annotations

import glob
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

from hyperslab.measuring.artifact import remove_directory
from hyperslab.planning import requirements
from hyperslab.planning.batches import PATTERN
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.records import cell_of, previous

# Logs of what runs inside a run: the page made after a failure makes such a job again, without measuring.
INNER_LOG = re.compile(rf"results/[^/]+/logs/([^/]+/{PATTERN}|add-rounds|claims/[^/]+\.rounds|confirm)\.log")


class RecordKeeping:
    """Keeps records: each is replaced by its successor, and by nothing else."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def stays(self, file: str) -> bool:
        """Tell whether a file is the log of a run inside, a list of added rounds, or a record of today's
        specification.

        A record of another specification makes room, and is kept aside: the study may be changed back.
        """
        record = Path(file)
        lists = ("results/*/rounds.json", "results/*/claims/*.rounds.json")
        if INNER_LOG.fullmatch(file) or any(map(record.match, lists)):
            # What earlier attempts said of why they ended, and what they were about to measure.
            return True
        if record.suffix != ".json" or record.parts[2:3] != ("cells",) or not record.exists():
            return False
        if self._is_todays(record, record):
            return True
        record.replace(previous(record))
        return False

    def aside(self, study: PlannedStudy) -> list[Path]:
        """Return the records that `restore` puts back."""
        kept = _kept_aside(study)
        return [record for file, record in kept if not record.exists() and self._is_todays(file, record)]

    def restore(self, study: PlannedStudy) -> None:
        """Put back the records of a study that were kept aside and are those of today's specification."""
        for kept, record in _kept_aside(study):
            if record.exists():
                kept.unlink()
            elif self._is_todays(kept, record):
                kept.replace(record)

    def _is_todays(self, content: Path, record: Path) -> bool:
        """Tell whether a file holds what would be measured for `record` today."""
        return self._inventory.study(record.parts[1]).is_todays(content, cell_of(record))

    def sweep(self, records: list[str]) -> None:
        """Remove what dead jobs left of the cells of `records`: test files, and halves of records."""

        @cache
        def elsewhere(study: str) -> dict[str, str]:
            return requirements.other_roots(self._inventory.study(study), self._inventory.sites)

        for record in map(Path, records):
            _, study, _, site, *_ = record.parts
            # Where the file system has gone, so has the file.
            with suppress(OSError):
                for place in self._inventory.places(self._inventory.study(study), site, cell_of(record)):
                    # The environment of this process says nothing of other file systems.
                    remove_directory(place, elsewhere(study))
            for half in record.parent.glob(f".{glob.escape(record.name)}.*"):
                if half != previous(record):
                    half.unlink(missing_ok=True)


def _kept_aside(study: PlannedStudy) -> list[tuple[Path, Path]]:
    """Return the records of a study that made room for another, each with where it lay."""
    kept = Path(f"results/{study.name}/cells").glob("*/*/.*.previous")
    return [(file, file.with_name(file.stem[1:])) for file in kept]
