"""What the Snakefile asks: which studies, sites and cells there are, and the specification of each."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.formats.hdf5 import split_metadata
from hyperslab.planning import (
    claims_page,
    failures,
    invocation,
    progress,
    requirements,
    reruns,
    snakemake_patches,
)
from hyperslab.planning.batches import parse
from hyperslab.planning.cell_jobs import CellJobs
from hyperslab.planning.claims_page import TARGET
from hyperslab.planning.confirmation import CONFIRMING, RUN_VARIABLE
from hyperslab.planning.drawings import Drawing, drawings
from hyperslab.planning.planned_study import PHASE, PlannedStudy
from hyperslab.planning.reachability import left_out
from hyperslab.planning.site_checks import check_reader, check_roots
from hyperslab.planning.snakemake_patches import Looks
from hyperslab.report import templates
from hyperslab.rewriting import choice
from hyperslab.sites.configuration import load_sites, prepare_root
from hyperslab.studies import figures
from hyperslab.validation.errors import ConfigurationError

DEFAULT_SITES = "config/sites.yaml"
OWN_SITES = "config/sites.local.yaml"
# What of the configuration a run inside this one is given.
FORWARDED = ("study", "sites", "measure", "local", "aggregate", "remeasure", "mpi")


class Plan(CellJobs):
    """The configuration of one run of Snakemake.

    Loads and checks the default study, or those that command-line targets name; raises ConfigurationError.
    """

    def __init__(self, config: Mapping[str, Any], directory: str | Path, arguments: Sequence[str]) -> None:
        self.invocation = invocation.read(arguments)
        self.interrupts = failures.Interrupts()
        sites_file = self._sites_file(Path(directory), str(config.get("sites", DEFAULT_SITES)))
        batched = str(config.get("batched", ""))
        sites = load_sites(sites_file, batched)
        # The page of all claims shows what there is.
        self.measuring = bool(config.get("measure", True)) and TARGET not in self.invocation.targets
        out = left_out(sites, self.invocation, self.measuring, batched, bool(config.get("local", False)))
        super().__init__(Path(directory), sites, sites_file, out, batched)
        self.default = str(config["study"])
        self.aggregate_here = str(config.get("aggregate", "here")) == "here"
        self._batch = str(config.get("batch", ""))
        self._remeasure = str(config.get("remeasure", ""))
        self._config = {key: config[key] for key in FORWARDED if key in config}
        targets = [target for target in self.invocation.targets if target.startswith("results/")]
        # A process that Snakemake starts for a job is named no file.
        named = {target.split("/")[1] for target in targets if target.count("/") > 1}
        named |= set(self.invocation.studies)
        if not named and TARGET not in targets:
            named = {self.default}
        # A file that is rewritten to a named layout needs no site.
        self.targeted = sorted(name for name in named if choice.measures(self.study(name), targets))
        for name in self.targeted:
            self._check(self.study(name))
        for name, layout in choice.targets(targets):
            choice.check(self.study(name), layout)

    @staticmethod
    def _sites_file(directory: Path, named: str) -> Path:
        """The user's own file stands in for the committed example, wherever no other is named."""
        candidates = [Path(named), directory / named]
        if named == DEFAULT_SITES:
            candidates.insert(0, directory / OWN_SITES)
        return next((file for file in candidates if file.exists()), candidates[-1])

    def _check(self, study: PlannedStudy) -> None:
        """Refuse a study that cannot be measured, before anything runs; raises ConfigurationError."""
        names = self.sites_of(study)
        check_reader(study, [name for name in names if name in self.sites], self.sites)
        reached = [site for site in names if site not in self.left_out]
        if self.measuring and not reached and not any(self.present(study, site) for site in names):
            reasons = "; ".join(f"{site}: {self.left_out[site]}" for site in names)
            raise ConfigurationError(study.file, "sites", f"no site can be reached: {reasons}")
        # What only its node can see is checked there, when the batch starts.
        here = [
            site
            for site in reached
            if (
                site == self.batched
                or not self.sites[site]["node_local"]
                or self.sites[site]["executor"] == "local"
            )
            and self.missing(study, site)
        ]
        if not here or not self.invocation.main:
            return
        beside = requirements.metadata_sites(study, self.sites, self.sites_file)
        check_roots(study, list(dict.fromkeys([*here, *beside])), self.sites, self.sites_file)
        if study.dataset.donor:
            from hyperslab.formats.donor_files import DonorError, check

            try:
                check(study.dataset.model_dump(exclude_none=True))
            except DonorError as error:
                raise ConfigurationError(study.file, "dataset.donor", str(error)) from None
        if not self.invocation.dry_run:
            for site in dict.fromkeys([*here, *beside]):
                prepare_root(self.sites, site, self.sites_file, self.concurrency)

    # What a run makes again, clears away, and says of itself

    def settle(self, workflow: Any) -> None:
        """Tell Snakemake's `workflow` what cannot be said in rules, and the user what this run is about.

        Two timed jobs never share a node or a file system, unless a site asks for it: so many slots each.
        """
        for slot, limit in self.slots.items():
            if slot not in workflow.global_resources:
                workflow.register_resource(slot, limit)
        reruns.force(workflow, self.forced())
        for line in self.outlook():
            print(f"hyperslab: {line}", file=sys.stderr)
        self.sweep()

    def forced(self) -> set[str]:
        """Files that this run makes again (see again.py); the jobs that Snakemake starts force nothing."""
        return reruns.forced(self, self.targeted) if self.invocation.main else set()

    def asked_again(self, study: PlannedStudy) -> Callable[[str], bool]:
        """Tells of a record whether --config remeasure= names it."""
        return reruns.named(self._remeasure, study.name)

    def batch_records(self) -> list[str]:
        """What the batch inside whose job this runs has to measure; nothing outside of one."""
        return reruns.batch_records(self, self.default, self._batch) if self.batched else []

    def sweep(self) -> None:
        """Clear away what a dead job of this batch left, also of cells that another has measured since."""
        if self.batched and self.invocation.main and not self.invocation.dry_run:
            reruns.sweep(self, self.batch_records())

    def outlook(self) -> list[str]:
        """Lines about the sites of this run: what is to be measured, and which are left out and why."""
        if not self.invocation.main or self.batched:
            return []
        return list(progress.lines(self, self.targeted, self.invocation.dry_run))

    def follow(self, workflow: Any) -> None:
        """Note interrupts, outlive file systems and other runs, and say how many records batches make."""
        if not self.invocation.main:
            return
        snakemake_patches.tolerate([site["root"] for site in self.direct])
        snakemake_patches.end_together()
        self.interrupts.watch(cluster=not self.invocation.local)
        if self.submitted:
            studies = [self.study(name) for name in self.targeted]
            sites = [site["name"] for site in self.submitted]
            wanted = [
                record
                for study in studies
                for site in self.sites_of(study)
                if site in sites
                for record in self.records_of(study, site)
            ]
            progress.Progress(wanted).start()
            if self.invocation.executor == "slurm":
                Looks(failures.executor(workflow), "results/*/batches/*/*.json").begin()

    def after_failure(self, workflow: Any) -> None:
        """Leave no job and no test file behind, and a report of what is there unless somebody stopped it."""
        if not self.invocation.main:
            return
        if self.batched:
            self.sweep()
            return
        if self.invocation.executor == "slurm":
            failures.cancel_jobs(failures.job_name(workflow), self.targeted)
        for name in self.targeted:
            reruns.sweep(self, reruns.missing_records(self, self.study(name)))
        # The confirming rounds run inside another run, which makes the report; what makes of what is there
        # and fails would only fail again.
        if self.measuring and not self.interrupts.seen and CONFIRMING not in self.invocation.targets:
            failures.partial_results(self._asked_for(), self.directory / "Snakefile", self._config)

    def _asked_for(self) -> dict[str, str]:
        """What a run was asked for that is made of records, by study: the report or something before it."""
        wanted = {name: f"results/{name}/report.html" for name in self.targeted}
        for target in self.invocation.targets:
            place = Path(target).parts
            if len(place) > 2 and place[1] in wanted and place[2] not in ("cells", "batches"):
                wanted[place[1]] = target
        return wanted

    def batch_digest(self, wildcards: Any, site: str) -> str:
        """Changes with any of a batch's specifications, so that a changed study submits it again."""
        study, batch = self.study(wildcards.study), parse(wildcards.batch)
        texts = [study.cell_text(*cell) for cell in batch.of(self.cells(study, site, PHASE[batch.phase]))]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()

    def batch_resources(self, site: str) -> dict[str, Any]:
        """What a batch asks of Slurm, and the slots that it takes."""
        described = self.sites[site]
        options = ["--exclusive"] if described["exclusive"] else []
        # A requeued job adds to its log instead of starting it again.
        options += ["--open-mode=append", *shlex.split(described["extra"])]
        asked = {
            "slurm_partition": described["partition"],
            "slurm_account": described["account"],
            "constraint": described["constraint"],
            "qos": described["qos"],
            "mem_mb": described["memory_mb"],
            "runtime": described["minutes"],
            "slurm_extra": shlex.join(options),
        }
        return {key: value for key, value in asked.items() if value is not None} | self.slots_of(site)

    def nodes(self, study: str) -> int:
        """Nodes of a batch: two where one writes what the other reads."""
        return 2 if self.reader(study) == "other-node" else 1

    def reader(self, study: str) -> str:
        """any, or other-node where a study asks that another node reads than wrote."""
        return self.study(study).study.reader

    def drawings(self) -> list[Drawing]:
        """Return the figures that this run may draw, as jobs draw them together."""
        shown = claims_page.inputs(self)["figures"] if TARGET in self.invocation.targets else []
        studies = {*self.targeted, *(Path(file).parts[1] for file in shown)}
        return list(drawings(self, sorted(studies)))

    def figures(self, study: str) -> list[str]:
        """The figures of every site that has, or will have, results to draw."""
        planned = self.study(study)
        return [
            f"results/{study}/figures/{site}/{name}.svg"
            for site in self.with_results(planned)
            for name in figures.names(planned.figure_meta, site)
        ]

    def report_input(self, study: str) -> dict[str, Any]:
        """Everything that the report is made of; figures exist where a site has results to draw."""
        planned, here = self.study(study), f"results/{study}"
        inputs: dict[str, Any] = {
            "template": [templates.REPORT, *templates.SHARED, *figures.CAPTIONS.values()],
            "measurements": f"{here}/measurements.parquet",
            "summary": f"{here}/summary.csv",
            "context": [f"{here}/context.json"],
            "score": f"{here}/score.json",
            "recommendation": f"{here}/recommendation.json",
            "figures": self.figures(study),
        }
        if planned.claims:
            inputs["claims"] = f"{here}/claims.json"
        if planned.study.recommendation.confirm_rounds and planned.read_cases():
            inputs["confirmation"] = f"{here}/confirmation.parquet"
            inputs["confirming"] = f"{here}/confirmation.json"
            inputs["context"].append(f"{here}/confirmation-context.json")
        return inputs

    def group(self, name: str) -> str | None:
        """The group of rules whose jobs Slurm gets as one; none here.

        No grouped rule is a local one, and planning takes three times as long with groups.
        """
        return None if self.aggregate_here else name

    def shell_prefix(self, scripts: Path, deployed: bool) -> str:
        """What every shell command starts with: strict, with the package and the right interpreter in reach.

        What a run inside this one needs is in the environment, where a change of it makes nothing stale.
        """
        inner = {
            "snakefile": str(self.directory / "Snakefile"),
            "config": self._config,
            "executing": self.invocation.executing,
        }
        exported = {"PYTHONPATH": str(scripts), RUN_VARIABLE: json.dumps(inner)}
        exported[split_metadata.VARIABLE] = json.dumps(requirements.roots_by_file_system(self.sites))
        path = "" if deployed else f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; "
        exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in exported.items())
        # Snakemake fills in what stands in braces.
        return f"set -euo pipefail; {exports}{path}".replace("{", "{{").replace("}", "}}")
