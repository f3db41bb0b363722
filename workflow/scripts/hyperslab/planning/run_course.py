"""The course of a run: what it settles before its jobs, notes while they run, and leaves after a failure."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hyperslab.measuring import fork_server, probe_directories
from hyperslab.planning import (
    asked_notes,
    claims_page,
    due,
    inner_run,
    progress,
    slurm,
    slurm_patches,
    snakemake_patches,
)
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.cell_jobs import CellJobs
from hyperslab.planning.confirmation import confirming_list
from hyperslab.planning.failures import Interrupts, partial_result, partial_results, say_not_made
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.later_rounds import LaterRounds
from hyperslab.planning.one_line import end, in_one_line
from hyperslab.planning.page_inputs import PageInputs
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.record_keeping import RecordKeeping
from hyperslab.planning.request import ASKED_VARIABLE, Request
from hyperslab.planning.reruns import Reruns
from hyperslab.planning.site_checks import check_results
from hyperslab.planning.study_checks import check_room, prepare_roots
from hyperslab.records import written_at
from hyperslab.sites import roots
from hyperslab.text import count
from hyperslab.validation.errors import ConfigurationError


class RunCourse:
    """What is done around the jobs of one run; `studies` are those that it may measure."""

    def __init__(
        self,
        request: Request,
        inventory: Inventory,
        cells: CellJobs,
        batches: BatchJobs,
        reruns: Reruns,
        inputs: PageInputs,
        studies: list[str],
    ) -> None:
        self._request = request
        self._inventory = inventory
        self._cells = cells
        self._batches = batches
        self._reruns = reruns
        self._later = LaterRounds(inventory, reruns)
        self._inputs = inputs
        self._studies = studies
        self._keeping = RecordKeeping(inventory)
        self._interrupts = Interrupts()
        self._due: due.Due = {}
        # What the jobs of this run make, once it has planned.
        self._outputs: list[str] = []
        # When each target was written that is made of records, before this run.
        self._before: dict[str, int | None] = {}

    def settle(self, workflow: Any) -> None:
        """Tell Snakemake's `workflow` what cannot be said in rules, and the user what this run is about.

        Two timed jobs never share a node or a file system, unless a site asks for it: so many slots each.
        The jobs that Snakemake starts force and say nothing.
        """
        invocation = self._request.invocation
        snakemake_patches.plan_quickly()
        snakemake_patches.say_less()
        snakemake_patches.outlive_readers()
        snakemake_patches.limit(workflow, self._cells.slots)
        if not invocation.main:
            # A job on a cluster removes what it makes, too.
            snakemake_patches.keep(self._keeping.stays)
            return
        snakemake_patches.leave_other_locks()
        if not invocation.dry_run:
            self._interrupts.watch_planning()
            made = self._request.made_of_records(self._studies)
            self._before = {target: written_at(target) for targets in made.values() for target in targets}
            # Also of cells that another job has measured since the one died.
            self._keeping.sweep(self.batch_records())
        forced = self._reruns.forced(self._studies) | self._inputs.lost(self._studies)
        if self._request.phase != "main":
            forced |= self._reruns.again(self._studies, self._request.phase)
        if not self._request.measuring and claims_page.TARGET in invocation.targets:
            # Rounds after the first are no inputs: that a pack brought more shows in no time of a file.
            forced |= self._reruns.outdated(claims_page.shown(self._inventory))
        snakemake_patches.force(workflow, forced)
        outdated = [self._cells.outdated_environments(name) for name in self._studies]
        snakemake_patches.make_beside(set[str]().union(*outdated))
        for line in self._outlook():
            print(f"hyperslab: {line}", file=sys.stderr)
        noted = partial(snakemake_patches.noted, workflow)
        snakemake_patches.when_planned(workflow, lambda outputs: in_one_line(self._check, outputs, noted))

    def _check(self, outputs: list[str], noted: Callable[[Path], bool]) -> None:
        """Check what the jobs of this run measure, for whatever reason; raises ConfigurationError.

        `noted` says of a record whether Snakemake has noted how it was made.
        """
        self._outputs, self._due = outputs, due.of_outputs(outputs)
        for name in dict.fromkeys((*self._due, *self._studies)):
            self._check_room(self._inventory.study(name))
        self._check_forced()
        if self._request.invocation.dry_run and not self._request.batched:
            again = due.lines(self._due, self._inventory, noted, self._reruns.asked)
            for line in (*self._planned(), *again):
                print(f"hyperslab: {line}", file=sys.stderr)

    def _check_room(self, study: PlannedStudy) -> None:
        """Check what is measured of a study, in added and confirming rounds by runs inside this one, too.

        Raises ConfigurationError; says so where it would be raised then, should anything be measured.
        """
        inventory = self._inventory
        measured = list(self._due.get(study.name, ()))
        if measured:
            check_room(study, measured, inventory)
        for site in inventory.sites_of(study):
            if site in inventory.left_out or site in measured:
                continue
            inside = {
                "added": self._later.adds(study, site, self._outputs),
                "confirming": self._later.confirms(study, site, self._outputs),
            }
            try:
                if any(sure is not False for sure in inside.values()):
                    check_room(study, [site], inventory)
            except ConfigurationError as error:
                if True in inside.values():
                    raise
                rounds = " and ".join(kind for kind, sure in inside.items() if sure is None)
                told = f"site {site}: {rounds} rounds will be refused, should there be any: {error}"
                print(f"hyperslab: {study.name}: {told}", file=sys.stderr)

    def _check_forced(self) -> None:
        """Refuse to force a batch whose job would measure nothing; raises ConfigurationError."""
        invocation, inventory = self._request.invocation, self._inventory
        made = [file for sites in self._due.values() for files in sites.values() for file in files]
        for marker in made:
            name, _, site = marker.parts[1:4]
            forced = invocation.forces_all or not {f"batch_{site}", str(marker)}.isdisjoint(invocation.forced)
            if not forced or not inventory.in_batches(site):
                continue
            if not self._reruns.is_short(inventory.study(name), site, marker.stem):
                option = "--forceall" if invocation.forces_all else "--forcerun"
                said = f"batch {marker.stem} of {site} has all its records, and its job would measure nothing"
                how = f"--config remeasure='{site}/*' has them measured again"
                raise ConfigurationError(option, "", f"{said}: {how}")

    def _planned(self) -> Iterator[str]:
        """Yield lines about how many cells this run measures, and which of them it may not have to."""
        inventory = self._inventory
        for name in self._studies:
            if kept := self._keeping.aside(inventory.study(name)):
                aside = f"{count(len(kept), 'record')} of this very study, kept aside when it was another one"
                yield f"{name}: a run uses {aside}"
        yield from progress.planned(inventory, self._batches, self._reruns, self._studies, self._made())

    def _made(self) -> set[str]:
        """Return the files that this run makes, records of its batches among them."""
        made = set(self._outputs)
        for name, sites in self._due.items():
            study = self._inventory.study(name)
            for site, files in sites.items():
                made.update(map(str, due.cells(study, site, files, self._inventory)))
        return made

    def batch_records(self) -> list[str]:
        """Return what the batch inside whose job this runs has to measure; nothing outside of one."""
        request = self._request
        if not request.batched:
            return []
        study = self._inventory.study(request.default)
        return self._batches.records(study, request.batched, request.batch)

    def _outlook(self) -> Iterator[str]:
        """Yield lines about the sites of this run: which it leaves out, and where jobs may be too short."""
        if self._request.batched:
            return
        if claims_page.TARGET in self._request.invocation.targets:
            for line in claims_page.broken(self._inventory).values():
                yield f"{claims_page.TARGET} leaves out a study: {line}"
        yield from progress.lines(self._inventory, self._batches, self._reruns, self._studies)

    def follow(self, workflow: Any) -> None:
        """Note interrupts, keep records, fork cells, and say how far the cells are.

        A mistake ends the process at once, which holds the results since it has planned.
        """
        try:
            self._follow(workflow)
        except ConfigurationError as error:
            snakemake_patches.unlock(workflow)
            end(error)

    def _begins_server(self, workflow: Any) -> bool:
        """Return whether this run has any cells forked by a server, which takes as long to start as a cell.

        In an environment of its own a rule has another interpreter. A run inside another on its node has that
        one's server.
        """
        request = self._request
        forks = request.forks and self._inventory.direct and not snakemake_patches.deployed(workflow)
        inside = request.phase != "main" and not request.batched and fork_server.VARIABLE in os.environ
        return bool(self._due and forks and not inside)

    def _follow(self, workflow: Any) -> None:
        request, inventory = self._request, self._inventory
        invocation = request.invocation
        if not invocation.main:
            return
        # Nothing is written before: a dry run never comes here.
        for name, measured in self._due.items():
            prepare_roots(inventory.study(name), list(measured), inventory)
        # Each cell finds out if its root is exchanged while the run goes on.
        identities = self._identities()
        os.environ[roots.VARIABLE] = json.dumps(identities)
        for root in identities:
            probe_directories.sweep(Path(root))
        if not request.inner:
            asked_notes.sweep()
            if request.remeasure:
                self._note_asked()
        # Not before: who has all results deleted means the records, too.
        snakemake_patches.keep(self._keeping.stays)
        snakemake_patches.rest_between_jobs(workflow)
        self._interrupts.watch(cluster=not invocation.local)
        snakemake_patches.start_nothing_once(workflow, lambda: self._interrupts.seen)
        if self._begins_server(workflow):
            fork_server.begin([sys.executable, f"{request.directory}/workflow/scripts/fork_cells.py"])
        if request.batched:
            return
        if invocation.local:
            # Who measures nothing hears of no cells.
            snakemake_patches.show_few_lines(workflow, counted=not request.measuring)
        # What has changed since it was measured is there, too, and made anew.
        again = {*self._reruns.forced(self._studies)}
        again.update(
            file for sites in self._due.values() for files in sites.values() for file in map(str, files)
        )
        for name, records, later in self._awaited():
            progress.Progress(name, records, again, later).start()
        if inventory.submitted and invocation.executor == "slurm":
            self._batches.note(list(map(inventory.study, self._studies)), request.phase)
            name = self._studies[0] if len(self._studies) == 1 else "hyperslab"
            slurm_patches.begin(workflow, name, "results/*/batches/*/*.json", self._batches.judge)

    def _note_asked(self) -> None:
        """Note which records are asked for again, for the runs inside this one: what these measure of it they
        know from that, and not by clocks, of which each machine has its own.
        """
        os.environ[ASKED_VARIABLE] = str(asked_notes.write(self._reruns.there(self._studies)))

    def _identities(self) -> dict[str, str]:
        """Return the identities of the roots at which this very run measures; it looks at no others."""
        measured = {site for sites in self._due.values() for site in sites}
        found = (site["root"] for site in self._inventory.direct if site["name"] in measured)
        return {root: roots.identity_of(root) for root in found}

    def _awaited(self) -> Iterator[tuple[str, list[str], int]]:
        """Yield what is measured, its records that are there or that this run makes, and about how many cells
        come when these are there.
        """
        inventory, made = self._inventory, self._made()
        phase = self._request.phase
        for study in map(inventory.study, self._studies):
            sites = [site for site in inventory.sites_of(study) if site not in inventory.left_out]
            name = study.name if phase == "main" else inner_run.name_of(phase)
            wanted = [record for site in sites for record in inventory.records_of(study, site, phase)]
            records = [record for record in wanted if record in made or Path(record).exists()]
            cases, rounds = len(study.read_cases()), study.study.recommendation.confirm_rounds
            finalists = len(sites) * study.most_finalists
            confirms = str(confirming_list(study.name)) in made
            yield name, records, finalists * cases * rounds if confirms else 0

    def after_failure(self, workflow: Any) -> None:
        """Leave no job and no test file behind, and a report of what is there unless somebody stopped it."""
        request = self._request
        if not request.invocation.main:
            return
        if request.batched:
            self._keeping.sweep(self.batch_records())
            return
        if request.invocation.executor == "slurm":
            slurm.cancel_jobs(slurm_patches.job_name(workflow))
        for name in self._studies:
            self._keeping.sweep(self._reruns.unfinished(self._inventory.study(name), self._outputs))
        # Added and confirming rounds run inside another run, which makes the report. What fails although
        # every record is there would only fail again, and say so twice.
        stopped = self._interrupts.seen or request.inner
        if not request.measuring or stopped:
            return
        try:
            check_results()
        except ConfigurationError as error:
            # The logs that would say so are empty, and pages would be, too.
            print(f"hyperslab: {error}", file=sys.stderr, flush=True)
            return
        targets = request.made_of_records(self._studies)
        short = {name for name in targets if self._reruns.short(self._inventory.study(name))}
        whole = {name: target for name, target in targets.items() if name not in short}
        say_not_made(whole, self._before)
        lacking = {name: target for name, target in targets.items() if name in short}
        snakefile = self._inventory.directory / "Snakefile"
        partial_results(lacking, snakefile, request.forwarded)
        if claims_page.TARGET in request.invocation.targets:
            partial_result(claims_page.TARGET, "all claims", snakefile, request.forwarded)
