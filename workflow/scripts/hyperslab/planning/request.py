"""What a run is asked for: by the configuration, by --config, and by the targets on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hyperslab.planning import targets
from hyperslab.planning.claims_page import TARGET
from hyperslab.planning.confirmation import CONFIRMING
from hyperslab.planning.invocation import Invocation
from hyperslab.planning.stages import ADDING, phase_of
from hyperslab.records import read_json
from hyperslab.sites.configuration import named_file

# What is said to one run alone, which tells those inside it for itself.
OWN = ("batched", "batch", "stage")
# What of the results of a study shows none of its records.
NOT_SHOWN = ("cells", "batches", "layout")

# Where a run notes, for those inside it, what it was asked to measure again: a job has it in each attempt.
ASKED_VARIABLE = "HYPERSLAB_ASKED"


@dataclass(frozen=True)
class Request:
    """The checked configuration and the command line of one run of Snakemake in the project's `directory`."""

    config: Mapping[str, Any]
    invocation: Invocation
    directory: Path

    @property
    def default(self) -> str:
        """The study of targets that name none."""
        return str(self.config["study"])

    @property
    def measuring(self) -> bool:
        """Whether cells may be measured; the page of all claims by itself shows what there is."""
        return bool(self.config["measure"]) and set(self.invocation.targets) != {TARGET}

    @property
    def forks(self) -> bool:
        """Whether processes of cells are forked instead of started."""
        return bool(self.config["fork"])

    @property
    def local(self) -> bool:
        """Whether this machine counts although jobs go to a cluster, which makes it a login node."""
        return bool(self.config["local"])

    @property
    def batched(self) -> str:
        """The site whose batch is measured from inside; "" outside of any."""
        return str(self.config.get("batched", ""))

    @property
    def batch(self) -> str:
        """The name of that batch."""
        return str(self.config.get("batch", ""))

    @property
    def claim(self) -> str:
        """The claim for which rounds are added from inside; "" where they are for a whole study."""
        return str(self.config.get("claim", ""))

    @property
    def inner(self) -> bool:
        """Whether this runs inside another run: in a batch's job, or for added or confirming rounds."""
        return bool(self.batched) or self.phase != "main"

    @property
    def phase(self) -> str:
        """The phase whose cells are measured outside of batches: a run inside another has its own."""
        if CONFIRMING in self.invocation.targets:
            return "confirm"
        return phase_of(int(self.config.get("stage") or 0)) if ADDING in self.invocation.targets else "main"

    @property
    def remeasure(self) -> str:
        """A glob over site/layout/case.round, noisy, or "" for nothing."""
        return str(self.config["remeasure"])

    @property
    def noted(self) -> dict[str, list[int]] | None:
        """Each record that `remeasure` names as it was when that was asked for (records.written_as): inside
        a run where that has noted it; else None.
        """
        with suppress(KeyError, FileNotFoundError):
            return dict(read_json(os.environ[ASKED_VARIABLE])) if self.inner else None
        return None

    @property
    def aggregate_here(self) -> bool:
        """Whether tables, figures and pages are made where Snakemake was started."""
        return str(self.config["aggregate"]) == "here"

    @property
    def website(self) -> bool:
        """Whether reports and the page of all claims link to each other."""
        return bool(self.config["website"])

    @property
    def forwarded(self) -> dict[str, Any]:
        """The configuration that a run inside this one is given."""
        given = {key: value for key, value in self.config.items() if key not in OWN}
        return {**given, "measure": self.measuring}

    @cached_property
    def sites_file(self) -> Path:
        """The file of sites: the user's own stands in for the committed example, if no other is named."""
        return named_file(self.directory, str(self.config["sites"]))

    @cached_property
    def targets(self) -> list[str]:
        """The targets among the results."""
        return [target for target in self.invocation.targets if target.startswith("results/")]

    @property
    def studies(self) -> list[str]:
        """The names of the studies that the targets are of; raises ConfigurationError."""
        # A process that Snakemake starts for a job is named no file, but told its wildcards.
        if not self.invocation.main:
            return sorted(self.invocation.studies)
        return targets.studies(self.invocation.targets, self.default)

    def made_of_records(self, studies: list[str]) -> dict[str, list[str]]:
        """Return what is asked for that is made of records, by study: the report if nothing else is.

        A file that is rewritten follows a recommendation only once that is whole.
        """
        wanted: dict[str, list[str]] = {name: [] for name in studies}
        for target in self.invocation.targets:
            place = Path(target).parts
            if len(place) > 2 and place[1] in wanted and place[2] not in NOT_SHOWN:
                wanted[place[1]].append(target)
        return {name: found or [f"results/{name}/report.html"] for name, found in wanted.items()}
