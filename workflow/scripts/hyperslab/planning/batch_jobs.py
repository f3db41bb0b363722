"""The jobs that measure a Slurm site's cells batch by batch: which there are, what they hold and ask for."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hyperslab.layouts import layout_of
from hyperslab.planning.batches import Batch, split
from hyperslab.planning.expected_times import expected_seconds
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.records import record_of, written_at
from hyperslab.studies.case_kinds.workers import on_all_nodes

# What a job takes of its memory beside a file that is warm (docs/results.md).
BESIDE_WARM_MB = 1000
# What a job that says nothing of its time asks for (profiles/slurm).
PAGE_MINUTES = 30


class BatchJobs:
    """How the cells of submitted sites are shared among jobs."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._batches: dict[tuple[str, str, str], list[Batch]] = {}
        # study, site and name of a batch -> its records when an attempt began
        self._before: dict[tuple[str, str, str], dict[str, int]] = {}

    def of(self, study: str, site: str, phase: str = "main") -> list[Batch]:
        """Return the batches of a site's cells."""
        key = (study, site, phase)
        if key not in self._batches:
            inventory = self._inventory
            planned = inventory.study(study)
            cells = inventory.cells(planned, site, phase)
            described, at_once = inventory.sites[site], inventory.concurrency(site)
            if described["concurrency"] is None:
                # A round is a block on one node, unless the user asks for more nodes than rounds.
                at_once = min(at_once, len({round_ for _, _, round_ in cells}))
            seconds = inventory.seconds(planned, site, cells)
            self._batches[key] = split(phase, cells, seconds, at_once, described["minutes"])
        return self._batches[key]

    def markers(self, study: PlannedStudy, site: str, phase: str = "main") -> list[str]:
        """Return what says that a batch has measured every cell, one file each."""
        return [
            f"results/{study.name}/batches/{site}/{batch.name}.json"
            for batch in self.of(study.name, site, phase)
        ]

    def records(self, study: PlannedStudy, site: str, batch: str) -> list[str]:
        """Return the records that a batch of this name makes."""
        return [record_of(study.name, site, cell) for cell in self._inventory.batch_cells(study, site, batch)]

    def digest(self, wildcards: Any, site: str) -> str:
        """Return what changes with any of a batch's specifications, so that it is submitted again."""
        study = self._inventory.study(wildcards.study)
        cells = self._inventory.batch_cells(study, site, wildcards.batch)
        texts = [study.cell_text(*cell) for cell in cells]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()

    def unneeded(self, study: PlannedStudy, site: str, phase: str, markers: Iterable[str]) -> bool:
        """Tell whether every record of a site is there and counts although not all of `markers` are.

        Results that were copied in are like this, and those of a batch that was killed when it had finished.
        """
        if all(Path(marker).exists() for marker in markers):
            return False
        if self._inventory.missing(study, site, phase):
            return False
        cells = self._inventory.cells(study, site, phase)
        return all(study.counts(Path(record_of(study.name, site, cell)), cell) for cell in cells)

    def resources(self, site: str) -> dict[str, Any]:
        """Return what a batch asks of Slurm."""
        described = self._inventory.sites[site]
        options = ["--exclusive"] if described["exclusive"] else []
        # A requeued job adds to its log instead of starting it again.
        options += ["--open-mode=append", *shlex.split(described["extra"])]
        asked = {
            "mem_mb": described["memory_mb"],
            "runtime": described["minutes"],
            # Below 0 the plugin asks for none: then a job, and the step in it, has all those of its node.
            "cpus_per_task": described["cpus"] or (-1 if described["exclusive"] else None),
            "slurm_extra": shlex.join(options),
        }
        return _where(described) | {key: value for key, value in asked.items() if value is not None}

    @property
    def aside(self) -> dict[str, Any]:
        """What jobs that measure nothing ask of Slurm: to run where the batches of the first site do."""
        return next((_where(site) for site in self._inventory.submitted), {})

    def minutes_aside(self, wanted: int) -> int:
        """Return the minutes of a job that measures nothing: `wanted`, but no more than the first site gives.

        A job that asks for more than its partition allows waits for ever.
        """
        given = [int(site["minutes"]) for site in self._inventory.submitted[:1]]
        return min([wanted, *given])

    def aside_for_pages(self, jobs: int = 1) -> dict[str, Any]:
        """Return what jobs of tables, figures and pages ask of Slurm, which gets up to `jobs` of them as one.

        Such a one takes the time of all, which is no more than the first site gives.
        """
        usual = jobs * PAGE_MINUTES
        given = self.minutes_aside(usual)
        return self.aside | ({"runtime": max(1, given // jobs)} if given < usual else {})

    def note(self, studies: Iterable[PlannedStudy], phase: str) -> None:
        """Note which records of a phase there are before any job of a batch has begun."""
        for study in studies:
            for site in filter(self._inventory.in_batches, self._inventory.sites_of(study)):
                for batch in self.of(study.name, site, phase):
                    self._before[study.name, site, batch.name] = self._there(study.name, site, batch.name)

    def _there(self, study: str, site: str, batch: str) -> dict[str, int]:
        """Return when each record of a batch was written, of those that there are."""
        records = self.records(self._inventory.study(study), site, batch)
        return {record: written for record in records if (written := written_at(record)) is not None}

    def judge(self, job: Any, state: str) -> tuple[str, bool]:
        """Return what to say of a job that ended in this state of Slurm, and whether it is worth another.

        A batch goes on where it stopped, so that one whose time was over comes further, unless the very cell
        that is next takes longer than a job may.
        """
        # Tables and pages may go as a group, which has no rule.
        rule = getattr(job, "rule", None)
        if state != "TIMEOUT" or rule is None or not rule.name.startswith("batch_"):
            return "", True
        study, batch, site = job.wildcards.study, job.wildcards.batch, job.params.site
        described = self._inventory.sites[site]
        there = self._there(study, site, batch)
        further = there != self._before.get((study, site, batch), {})
        self._before[study, site, batch] = there
        key = f"platforms.{described['platform']}.minutes of {self._inventory.sites_file}"
        said = f"{study}: batch {batch} of {site} took longer than {described['minutes']} min"
        if further:
            last = job.attempt > job.restart_times
            how = ", and no attempt is left: run it again, and it" if last else " and"
            return f"{said}{how} goes on where it stopped; a larger {key} spares that", True
        return f"{said} for one cell; raise {key}: another attempt would end in the same way", False

    def too_long(self, study: PlannedStudy, site: str) -> list[str]:
        """Return the cells that may take longer than a job of their site, the longest first."""
        limit = 60 * self._inventory.sites[site]["minutes"]
        pairs = [(layout, case) for layout, case, _ in self._inventory.cells(study, site, "main")]
        seconds = expected_seconds(study, site, pairs, self._inventory)
        found = [(taken, f"{layout}/{case}") for (layout, case), taken in seconds.items() if taken > limit]
        return [name for _, name in sorted(found, reverse=True)]

    def lacks_mb(self, study: PlannedStudy, site: str) -> int:
        """Return the memory_mb that keeps in memory what is to be warm at a site; 0 where it has that.

        Files are counted without their filters, so that less may be enough.
        """
        needed = 0
        for layout, case in study.pairs(site):
            stored, asked = layout_of(study.layouts[layout]), study.cases[case]
            if "warm" in asked["states"] and stored.abilities.pages:
                size = stored.stored_bytes(study.dataset.values_shape(asked["shape"]), study.dataset.itemsize)
                needed = max(needed, BESIDE_WARM_MB + math.ceil(size / 1e6))
        return needed if needed > self._inventory.sites[site]["memory_mb"] else 0

    def nodes(self, study: str, site: str) -> int:
        """Return the nodes of a batch: two where one writes what the other reads, and those of workers."""
        spread = any(on_all_nodes(case) for case in self._inventory.study(study).cases.values())
        of_workers: int = self._inventory.sites[site]["nodes"] if spread else 1
        return max(2 if self.reader(study) == "other-node" else 1, of_workers)

    def reader(self, study: str) -> str:
        """Return any, or other-node where a study asks that another node reads than wrote."""
        return self._inventory.study(study).study.reader


def _where(site: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a job asks of Slurm to be one of the platform of a site, at its account's cost."""
    asked = {
        "slurm_partition": site["partition"],
        "slurm_account": site["account"],
        "constraint": site["constraint"],
        "qos": site["qos"],
    }
    return {key: value for key, value in asked.items() if value is not None}
