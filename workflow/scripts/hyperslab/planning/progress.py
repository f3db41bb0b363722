"""What a run says of itself: the sites it leaves out, what is to be measured, and how far it is."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.confirmation import confirming_list
from hyperslab.planning.estimates import total_bytes
from hyperslab.planning.expected_times import expected_seconds
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.later_rounds import LaterRounds
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.reruns import Reruns
from hyperslab.planning.site_checks import unfit
from hyperslab.planning.stages import ADDED, listing
from hyperslab.records import Cell, record_of, written_at
from hyperslab.text import count

# Between two looks at which records are there.
LOOK_SECONDS = 10.0
# Tables, figures and report of a study as small as those whose seconds matter.
PAGES_SECONDS = 12.0


def coarse_duration(seconds: float) -> str:
    """Return seconds as a person says an estimate, coarser than text.duration: 40 s, 3 min or 1 h 20 min."""
    if seconds < 100:
        # A multiple of 5, which claims no more than an estimate can.
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def about(seconds: float) -> str:
    """Return `coarse_duration` of an estimate."""
    return f"about {coarse_duration(seconds)}"


def lines(inventory: Inventory, batches: BatchJobs, reruns: Reruns, studies: Sequence[str]) -> Iterator[str]:
    """Yield one line a site that is left out, or whose jobs may have too little time or memory for a cell."""
    for name in studies:
        study = inventory.study(name)
        if reruns.none_noisy(study):
            yield f"{name}: no cell is flagged noisy, so that none is measured again for it"
        for site, why in unfit(study, inventory.sites).items():
            yield f"{name}: site {site} is left out ({why})"
        for site in inventory.sites_of(study):
            present = len(inventory.present(study, site))
            if inventory.in_batches(site) and (long := batches.too_long(study, site)):
                key = f"platforms.{inventory.sites[site]['platform']}.minutes"
                limit = coarse_duration(60 * inventory.sites[site]["minutes"])
                yield (
                    f"{name}: site {site}: {len(long)} of its kinds of cells may take longer than {limit}, "
                    f"{long[0]} longest: raise {key} in {inventory.sites_file}"
                )
            needed = batches.lacks_mb(study, site) if inventory.in_batches(site) else 0
            if needed and inventory.missing(study, site):
                key = f"platforms.{inventory.sites[site]['platform']}.memory_mb"
                yield (
                    f"{name}: site {site}: warm reads of the largest files may be left out, where Slurm "
                    f"limits memory: raise {key} in {inventory.sites_file} to {needed}"
                )
            if site in inventory.left_out:
                kept = f"; its {present} results here are used" if present else ""
                yield f"{name}: site {site} is left out ({inventory.left_out[site]}){kept}"


def planned(
    inventory: Inventory,
    batches: BatchJobs,
    reruns: Reruns,
    studies: Sequence[str],
    made: Collection[str],
) -> Iterator[str]:
    """Yield one line a site that this run reaches: how many cells it measures there, of how many.

    `made` are the files that it makes, records of its batches among them.
    """
    for study in map(inventory.study, studies):
        for site in inventory.sites_of(study):
            if site not in inventory.left_out:
                yield _planned(inventory, batches, reruns, study, site, made)


def _planned(
    inventory: Inventory,
    batches: BatchJobs,
    reruns: Reruns,
    study: PlannedStudy,
    site: str,
    made: Collection[str],
) -> str:
    due, asked = reruns.due(study, site), reruns.asked(study, site)
    records = [record for phase in ("main", ADDED) for record in inventory.records_of(study, site, phase)]
    kept, of_these = len(records) - len(due), len(asked.intersection(records))
    # Rounds are added, those that are listed again, where the list is made.
    adds = str(listing(study.name)) in made
    claims = [one["id"] for one in study.claims if str(listing(study.name, one["id"])) in made]
    wanted = {*made, *(inventory.records_of(study, site, ADDED) if adds else ())}
    due = [cell for cell in due if record_of(study.name, site, cell) in wanted]
    mine = {record_of(study.name, site, cell) for cell in due}
    again = f", {len(mine & asked)} of them again" if mine & asked else ""
    text = f"{study.name}: site {site}: {count(len(due), 'cell')} to measure{again} ({kept} there)"
    together = inventory.together(site)
    if due:
        pairs = [(layout, case) for layout, case, _ in due]
        expected = expected_seconds(study, site, pairs, inventory)
        seconds = sum(expected[pair] for pair in pairs)
        gigabytes = total_bytes(study, site, due, together) / 1e9
        text += f", {gigabytes:.1f} GB to write, {about(seconds)} of measuring"
    if due and inventory.in_batches(site):
        jobs = [batch for phase in inventory.phases(study) for batch in batches.of(study.name, site, phase)]
        found = sum(not mine.isdisjoint(batches.records(study, site, batch.name)) for batch in jobs)
        limit = coarse_duration(60 * inventory.sites[site]["minutes"])
        text += f", in {count(found, 'Slurm job')} of at most {limit}"
    if confirming := len(asked) - of_these:
        text += f"; of confirming rounds {count(confirming, 'cell')} again"
    later = LaterRounds(inventory, reruns)
    added = (later.may_add(study, site, made, claim) for claim in ([""] if adds else claims))
    if more := list(dict.fromkeys(itertools.chain.from_iterable(added))):
        further = [(layout, case) for layout, case, _ in more]
        expected = expected_seconds(study, site, further, inventory)
        seconds = sum(expected[pair] for pair in further)
        rounds = f"{study.study.first_rounds + 1} to {study.study.most_rounds}"
        text += (
            f"; then at most {count(len(more), 'cell')} in rounds {rounds}, as far as comparisons are open, "
            f"{total_bytes(study, site, more, together) / 1e9:.1f} GB to write, {about(seconds)}"
        )
    if str(confirming_list(study.name)) in made:
        text += _confirming(inventory, study, site, later.may_confirm(study, site))
    return text


def _confirming(
    inventory: Inventory, study: PlannedStudy, site: str, lacking: Mapping[str, Sequence[Cell]]
) -> str:
    """Return what confirming rounds cost at most, of the `lacking` cells of layouts; "" for nothing.

    Which layouts are finalists is known only after the rounds before: those that cost most are counted.
    """
    if not lacking:
        return ""
    together = inventory.together(site)
    pairs = [cell[:2] for cells in lacking.values() for cell in cells]
    expected = expected_seconds(study, site, pairs, inventory)
    costs = [
        (len(cells), total_bytes(study, site, cells, together), sum(expected[cell[:2]] for cell in cells))
        for cells in lacking.values()
    ]
    cells, size, seconds = (sum(sorted(each)[-study.most_finalists :]) for each in zip(*costs, strict=True))
    return (
        f"; then at most {count(cells, 'cell')} in confirming rounds of the layouts that do best, "
        f"{size / 1e9:.1f} GB to write, {about(seconds)}"
    )


class Progress(threading.Thread):
    """Says on standard error how many of the wanted cells are measured, and about how long it still takes."""

    def __init__(
        self, name: str, records: Sequence[str], forced: Collection[str] = (), cells_later: int = 0
    ) -> None:
        """Take the name of what is measured, and which of `records` are there and made again (`forced`).

        `cells_later`: about how many more cells are measured when these are.
        """
        super().__init__(daemon=True)
        # A record counts when it is younger than this.
        self._oldest = {Path(record): written_at(record) for record in records}
        waiting = [record for record in records if record in forced or not Path(record).exists()]
        self._waiting = [Path(record) for record in waiting]
        self._name, self._total, self._first = name, len(records), len(self._waiting)
        self._later = cells_later
        self._began = time.monotonic()

    def run(self) -> None:
        """Look until everything is there; the thread ends with the process."""
        while self._waiting:
            time.sleep(LOOK_SECONDS)
            left = [record for record in self._waiting if written_at(record) == self._oldest[record]]
            if len(left) == len(self._waiting):
                continue
            self._waiting = left
            print(f"hyperslab: {self._text()}", file=sys.stderr, flush=True)

    def _text(self) -> str:
        left = len(self._waiting)
        one = (time.monotonic() - self._began) / (self._first - left)
        seconds = one * (left + self._later) + PAGES_SECONDS
        return f"{self._name}: {self._total - left} of {self._total} cells, {about(seconds)} left"
