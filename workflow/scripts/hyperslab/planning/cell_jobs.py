"""What the rules ask about one cell: its slots, threads and priority, test file and specifications."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

from hyperslab.planning import requirements
from hyperslab.planning.inventory import Inventory
from hyperslab.sites import mounts
from hyperslab.studies.case_kinds import kind_of
from hyperslab.studies.case_kinds.workers import by_ranks

# More than any machine has, and Snakemake cuts it to what there is: nothing runs beside a timed job.
ALL_CORES = 1024


class CellJobs:
    """The jobs of single cells."""

    def __init__(self, inventory: Inventory, directory: Path) -> None:
        self._inventory = inventory
        # Where the locks of environments are, below that of the Snakefile.
        self._releases = directory / "envs" / "releases"

    @cached_property
    def slots(self) -> dict[str, int]:
        """Limits of the resources that keep timed jobs apart: cells at once, by platform and file system."""
        limits: dict[str, int] = {}
        for name, site in self._inventory.sites.items():
            most = 1 if name in self._inventory.left_out else self._inventory.concurrency(name)
            for slot in self.slots_of(site["name"]):
                limits[slot] = max(most, limits.get(slot, 1))
        return limits

    def slots_of(self, site: str) -> dict[str, int]:
        """Return the slots that one timed job of a site takes; Slurm itself keeps its nodes apart."""
        described = self._inventory.sites[site]
        local = described["executor"] == "local" or site == self._inventory.batched
        kinds = ("platform", "file_system") if local else ("file_system",)
        slots = {kind: described[kind] for kind in kinds} | {"file_system": self._first_on_one[site]}
        return {f"slot_{kind}_{name}".replace("-", "_").replace(".", "_"): 1 for kind, name in slots.items()}

    @cached_property
    def _first_on_one(self) -> dict[str, str]:
        """By site its file system, or the first that lies on the same servers, where Slurm measures.

        Jobs on several nodes would disturb each other there, whatever their roots.
        """
        found = {name: str(site["file_system"]) for name, site in self._inventory.sites.items()}
        first: dict[tuple[str, str], str] = {}
        inventory = self._inventory
        for site in (*inventory.submitted, *inventory.direct) if inventory.submitted else ():
            # The server of one at which nothing is measured may be away.
            if inventory.used is not None and site["name"] not in inventory.used:
                continue
            # A disk in each node is another one here.
            if not site["node_local"] and (mount := mounts.mount_of(site["root"])).network:
                found[site["name"]] = first.setdefault((mount.type, mount.source), site["file_system"])
        return found

    def threads_of(self, site: str) -> int:
        """Return the threads of a timed job: all of this machine, or one on a scheduler's node."""
        return ALL_CORES if self._inventory.sites[site]["executor"] == "local" else 1

    def donor(self, study: str) -> list[str]:
        """Return the prepared donor of a study, or nothing."""
        planned = self._inventory.study(study)
        return [planned.donor_copy] if planned.dataset.donor else []

    def environment(self, wildcards: Any) -> list[str]:
        """Return the environment of the release that a layout names, or of a case's workers, or nothing."""
        study = self._inventory.study(wildcards.study)
        return requirements.environments([(study.layouts[wildcards.layout], study.cases[wildcards.case])])

    def environments(self, study: str) -> list[str]:
        """Return all that a study needs, for nodes without a way to a package index."""
        found = self._inventory.study(study)
        return requirements.environments(
            (found.layouts[layout], case) for case in found.cases.values() for layout in case["layouts"]
        )

    def outdated_environments(self, study: str) -> set[str]:
        """Return what says that environments of a study are complete, and does not say so today."""
        return {
            made
            for made in self.environments(study)
            if _content(Path(made)) != _content(self._releases / f"{Path(made).parent.name}.lock")
        }

    def of_ranks(self, study: str) -> list[str]:
        """Return the names of the cases of a study that MPI ranks carry out."""
        return [name for name, case in self._inventory.study(study).cases.items() if by_ranks(case)]

    def ranks(self, wildcards: Any) -> int:
        """Return the MPI ranks of a case of ranks."""
        return int(self._inventory.study(wildcards.study).cases[wildcards.case]["workers"])

    def place(self, wildcards: Any, site: str) -> str:
        """Return where a cell's test artifact lies."""
        cell = (wildcards.layout, wildcards.case, wildcards.round)
        return self._inventory.place(self._inventory.study(wildcards.study), site, cell)

    def written(self, wildcards: Any) -> str:
        """Return what generate is told, as JSON; "" where the case makes its own file."""
        study = self._inventory.study(wildcards.study)
        if kind_of(study.cases[wildcards.case]).makes_its_file:
            return ""
        return study.file_text(wildcards.layout, wildcards.case)

    def cell_specification(self, wildcards: Any) -> str:
        """Return what measure is told."""
        return self._inventory.study(wildcards.study).cell_text(
            wildcards.layout, wildcards.case, wildcards.round
        )

    def priority(self, wildcards: Any, site: str) -> float:
        """Return what falls with the round, shuffled by the seed inside it.

        Cells that share a test artifact follow each other.
        """
        study = self._inventory.study(wildcards.study)
        first = study.sharing(wildcards.layout, wildcards.case, site)[0]
        place = f"{study.study.seed} {site} {wildcards.layout} {first} {wildcards.round}"
        shuffled = int.from_bytes(hashlib.sha256(place.encode()).digest()[:4], "big") / 2**32
        return max(0, 500 - int(wildcards.round[1:])) + shuffled


def _content(file: Path) -> bytes | None:
    """Return what a file holds, None where it is not there."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
