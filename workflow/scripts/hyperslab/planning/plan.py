"""What the Snakefile asks, each kind of question of a part of its own."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from hyperslab.measuring import other_file_systems
from hyperslab.planning import (
    advice_first,
    claims_page,
    invocation,
    requirements,
    snakemake_patches,
    snakemake_places,
    targets,
)
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.cell_jobs import CellJobs
from hyperslab.planning.confirmation import RUN_VARIABLE
from hyperslab.planning.drawings import Drawing, drawings
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.page_inputs import PageInputs
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.reachability import left_out
from hyperslab.planning.record_keeping import RecordKeeping
from hyperslab.planning.request import Request
from hyperslab.planning.reruns import Reruns
from hyperslab.planning.run_configuration import checked
from hyperslab.planning.run_course import RunCourse
from hyperslab.planning.study_checks import check_study
from hyperslab.rewriting import choice
from hyperslab.sites.configuration import load_sites


class Plan:
    """The parts of one run: what is asked for, which cells there are, their jobs, pages, and the course.

    Loads and checks the default study, or those that command-line targets name; raises ConfigurationError.
    """

    def __init__(self, config: Mapping[str, Any], directory: str | Path, arguments: Sequence[str]) -> None:
        snakemake_places.check(slurm=False)
        called = invocation.read(arguments)
        if called.main and called.executor == "slurm":
            snakemake_places.check(slurm=True)
        self.request = request = Request(checked(config, arguments), called, Path(directory))
        sites = load_sites(request.sites_file, request.batched)
        out = left_out(sites, request.invocation, request.measuring, request.batched, request.local)
        self.inventory = Inventory(
            request.directory, sites, request.sites_file, out, request.batched, request.claim
        )
        # Cells that are asked for by themselves, or that a claim compares, wait for no others of their file.
        alone = ("/cells/", "/claims/")
        self.inventory.shares = not any(part in name for name in request.invocation.targets for part in alone)
        # What Snakemake starts for a job does not know whether the run measures, which has looked already.
        self.inventory.all_described = called.main and request.measuring
        self.inventory.batch = request.batch
        self.cells = CellJobs(self.inventory, request.directory)
        self.batches = BatchJobs(self.inventory)
        self.reruns = Reruns(self.inventory, self.batches, request.remeasure, request.noted)
        self.inputs = PageInputs(self.inventory, self.reruns)
        named = request.studies
        if called.main:
            targets.check_names(called.targets)
        advice_first.settle(request, named)
        if request.invocation.main:
            targets.check(request.invocation.targets, self.inventory, request.config["site"])
        # A file that is rewritten to a named layout needs no site.
        self._studies = [name for name in named if choice.measures(self.study(name), request.targets)]
        if claims_page.TARGET in request.invocation.targets:
            # Where it is faulty the page cannot be made, whatever was measured before.
            claims_page.untested(request.directory / claims_page.UNTESTED)
            # Of all other studies the page shows what there is.
            self.inventory.measured = frozenset(self._studies)
        if request.invocation.main and not request.invocation.dry_run:
            # Before it is checked what is missing.
            for name in self._studies:
                RecordKeeping(self.inventory).restore(self.study(name))
        for name in self._studies:
            check_study(self.study(name), request, self.inventory)
        self.inventory.used = frozenset(
            site for name in self._studies for site in self.inventory.sites_of(self.study(name))
        )
        if request.invocation.main and not request.inner:
            self.reruns.check(self._studies)
        for name, layout, suffix in choice.targets(request.targets):
            said = choice.check(self.study(name), layout, suffix)
            if said and request.invocation.main:
                print(f"hyperslab: {said}", file=sys.stderr)
        self.course = RunCourse(
            request, self.inventory, self.cells, self.batches, self.reruns, self.inputs, self._studies
        )

    @property
    def directory(self) -> Path:
        """Where the Snakefile lies."""
        return self.request.directory

    @property
    def default(self) -> str:
        """The study of targets that name none."""
        return self.request.default

    @property
    def aggregate_here(self) -> bool:
        """Whether tables, figures and pages are made where Snakemake was started."""
        return self.request.aggregate_here

    @cached_property
    def drawings(self) -> list[Drawing]:
        """The figures that this run may draw, as jobs draw them together."""
        page = claims_page.TARGET in self.request.invocation.targets
        shown = claims_page.inputs(self.inventory)["figures"] if page else []
        return list(
            drawings(self.inventory, sorted({*self._studies, *(Path(file).parts[1] for file in shown)}))
        )

    @cached_property
    def of_ranks(self) -> dict[str, list[str]]:
        """The cases that MPI ranks carry out, of each study of this run that has any."""
        return {name: cases for name in self._studies if (cases := self.cells.of_ranks(name))}

    def study(self, name: str) -> PlannedStudy:
        """Return the study of this name; raises ConfigurationError."""
        return self.inventory.study(name)

    def group(self, name: str) -> str | None:
        """Return the group of rules whose jobs Slurm gets as one; none here.

        No grouped rule is a local one, and planning takes three times as long with groups.
        """
        return None if self.aggregate_here else name

    def shell_prefix(self, workflow: Any, scripts: Path) -> str:
        """Return what every shell command starts with: strict, with package and interpreter in reach.

        What a run inside this one needs is in the environment, where a change of it makes nothing stale.
        """
        inner = {
            "snakefile": str(self.directory / "Snakefile"),
            "config": self.request.forwarded,
            "executing": self.request.invocation.executing,
            "triggers": self.request.invocation.triggers,
        }
        exported = {"PYTHONPATH": str(scripts), RUN_VARIABLE: json.dumps(inner)}
        # `python -IS $RUN_FORKED …` in a rule is `python -m …`, started in a few milliseconds.
        exported["RUN_FORKED"] = str(scripts / "run_forked.py")
        exported[other_file_systems.VARIABLE] = json.dumps(
            requirements.roots_by_file_system(self.inventory.sites)
        )
        # The interpreter that runs Snakemake, or that of a deployed environment. Runs inside this one have it
        # already: the same environment means the same parent of their cells (measuring/fork_server.py).
        here = shlex.quote(str(Path(sys.executable).parent))
        found = f"case $PATH in {here}:*) ;; *) export PATH={here}:$PATH ;; esac; "
        path = "" if snakemake_patches.deployed(workflow) else found
        exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in exported.items())
        # Snakemake fills in what stands in braces.
        return f"set -euo pipefail; {exports}{path}".replace("{", "{{").replace("}", "}}")
