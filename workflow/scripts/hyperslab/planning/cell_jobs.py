"""What the rules ask about one cell: its slots, threads and priority, test file and specifications."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

from hyperslab.planning import requirements
from hyperslab.planning.inventory import Inventory
from hyperslab.studies.case_kinds import MAKE_THEIR_FILE

# More than any machine has, and Snakemake cuts it to what there is: nothing runs beside a timed job.
ALL_CORES = 1024


class CellJobs(Inventory):
    """The jobs of single cells: generate and measure."""

    @cached_property
    def slots(self) -> dict[str, int]:
        """Limits of the resources that keep timed jobs apart: cells at once, by platform and file system."""
        limits: dict[str, int] = {}
        for name, site in self.sites.items():
            most = 1 if name in self.left_out else self.concurrency(name)
            for slot in self.slots_of(site["name"]):
                limits[slot] = max(most, limits.get(slot, 1))
        return limits

    def slots_of(self, site: str) -> dict[str, int]:
        """The slots that one timed job of a site takes; Slurm itself keeps its nodes apart."""
        described = self.sites[site]
        local = described["executor"] == "local" or site == self.batched
        kinds = ("platform", "file_system") if local else ("file_system",)
        return {f"slot_{kind}_{described[kind]}".replace("-", "_").replace(".", "_"): 1 for kind in kinds}

    def threads_of(self, site: str) -> int:
        """Threads of a timed job: all of this machine, or one where a scheduler gives it a node."""
        return ALL_CORES if self.sites[site]["executor"] == "local" else 1

    def donor(self, study: str) -> list[str]:
        """The prepared donor of a study, or nothing."""
        planned = self.study(study)
        return [f"results/{study}/donor.{planned.donor_digest}.npy"] if planned.dataset.donor else []

    def environment(self, wildcards: Any) -> list[str]:
        """The environment of the release that a layout names, or nothing."""
        return requirements.environments([self.study(wildcards.study).layouts[wildcards.layout]])

    def environments(self, study: str) -> list[str]:
        """Those of all releases that a study names: a batch's node may have no way to a package index."""
        return requirements.environments(self.study(study).layouts.values())

    def has_ranks(self, study: str) -> bool:
        """Whether a study has cases of MPI ranks."""
        return any(case.get("by") == "ranks" for case in self.study(study).cases.values())

    def ranks(self, wildcards: Any) -> int:
        """MPI ranks of a case of ranks."""
        return int(self.study(wildcards.study).cases[wildcards.case]["workers"])

    def artifact(self, wildcards: Any, site: str) -> list[str]:
        """The test artifact that a read case measures; a write case makes its own."""
        if self.study(wildcards.study).cases[wildcards.case]["kind"] in MAKE_THEIR_FILE:
            return []
        root = self.sites[site]["root"]
        return [f"{root}/{wildcards.study}/{wildcards.layout}/{wildcards.case}.{wildcards.round}"]

    def file_specification(self, wildcards: Any) -> str:
        """What generate is told."""
        return self.study(wildcards.study).file_text(wildcards.layout, wildcards.case)

    def cell_specification(self, wildcards: Any) -> str:
        """What measure is told."""
        return self.study(wildcards.study).cell_text(wildcards.layout, wildcards.case, wildcards.round)

    def generate_priority(self, wildcards: Any, site: str) -> float:
        """Falls with the round, shuffled by the study's seed inside it, below that of a waiting file."""
        seed = self.study(wildcards.study).study.seed
        place = f"{seed} {site} {wildcards.layout} {wildcards.case} {wildcards.round}"
        shuffled = int.from_bytes(hashlib.sha256(place.encode()).digest()[:4], "big") / 2**32
        return max(0, 500 - int(wildcards.round[1:])) + shuffled

    def measure_priority(self, wildcards: Any, site: str) -> float:
        """Above every generate for a file that waits, else that of its round."""
        waits = self.study(wildcards.study).cases[wildcards.case]["kind"] not in MAKE_THEIR_FILE
        return 1000 if waits else self.generate_priority(wildcards, site)
