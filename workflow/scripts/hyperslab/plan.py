"""What the Snakefile asks: which studies, sites and cells there are, and the specification of each."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from hyperslab import figures, specification
from hyperslab.confirm import RUN_VARIABLE
from hyperslab.errors import ConfigurationError
from hyperslab.report.meta import study_meta
from hyperslab.sites import check_roots, load_sites, prepare_root, sites_of
from hyperslab.study import LoadedStudy

# More than any machine has, and Snakemake cuts it to what there is: nothing runs beside a timed job.
ALL_CORES = 1024
ROUND = {"main": "r", "confirm": "c"}


class PlannedStudy(LoadedStudy):
    """A study with what rules ask of it; texts are made once, since rules ask for each cell several times."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._texts: dict[tuple[str, ...], str] = {}

    @cached_property
    def figure_meta(self) -> dict[str, Any]:
        """Titles, order and grids, for figures."""
        return figures.describe(self)

    @cached_property
    def report_meta(self) -> dict[str, Any]:
        """Titles, order and shapes, for the report."""
        return study_meta(self)

    def donor_files(self) -> list[str]:
        """The donor's file (and its companion, for imzML)."""
        if not self.dataset.donor:
            raise ValueError(f"study {self.name} has no donor")
        path = Path(self.dataset.donor.path)
        companions = [path.with_suffix(".ibd")] if path.suffix.lower() == ".imzml" else []
        return [str(path), *map(str, companions)]

    def dataset_json(self) -> str:
        """The dataset as JSON, for the donor's preparation."""
        return specification.text(self.dataset.model_dump(exclude_none=True))

    def cells(self, site: str, round_: str) -> list[tuple[str, str, str]]:
        """(layout, case, round) of every cell of a site in one round."""
        return [
            (layout, name, round_)
            for name, case in self.cases.items()
            if any(fnmatch.fnmatchcase(site, pattern) for pattern in case["sites"])
            for layout in case["layouts"]
        ]

    def cell_text(self, layout: str, case: str, round_: str) -> str:
        """The specification of a cell as canonical JSON."""
        key = (layout, case, round_)
        if key not in self._texts:
            self._texts[key] = specification.text(
                specification.cell_specification(self, layout, case, round_)
            )
        return self._texts[key]

    def file_text(self, layout: str, case: str) -> str:
        """The specification of a test file as canonical JSON."""
        key = (layout, case)
        if key not in self._texts:
            self._texts[key] = specification.text(specification.file_specification(self, layout, case))
        return self._texts[key]

    def hashes(self, phase: str) -> dict[str, str]:
        """layout/case.round -> hash of today's specification, for every cell of a phase."""
        rounds = self.study.rounds if phase == "main" else self.study.recommendation.confirm_rounds
        return {
            f"{layout}/{name}.{ROUND[phase]}{number}": specification.digest(
                specification.cell_specification(self, layout, name, f"{ROUND[phase]}{number}")
            )
            for name, case in self.cases.items()
            for layout in case["layouts"]
            for number in range(rounds)
        }

    def score_settings(self) -> dict[str, Any] | None:
        """Criteria, published layouts and target of the score."""
        score = self.study.score
        return score.model_dump(exclude_none=True) if score else None

    def recommendation_settings(self) -> dict[str, Any]:
        """Weights, states and size bound of the recommendation."""
        return self.study.recommendation.model_dump(exclude={"confirm_rounds"})

    def read_cases(self) -> list[str]:
        """Names of the read cases: those measured again in confirming rounds."""
        return [name for name, case in self.cases.items() if case["kind"] == "read"]

    def reference(self, which: str) -> str | None:
        """The unfiltered layout that is "contiguous" (no chunks) or "auto" (the library's choice), if any."""
        for name, layout in self.study.layouts.items():
            chunks = layout.chunks if layout else None
            if chunks == (None if which == "contiguous" else which) and not (layout and layout.filters):
                return name
        return None


class Plan:
    """The configuration of one run of Snakemake.

    Loads and checks the default study, or those that command-line targets name; raises ConfigurationError.
    """

    def __init__(self, config: Mapping[str, Any], directory: str | Path, arguments: Iterable[str]) -> None:
        self.directory = Path(directory)
        self.sites_file = Path(config.get("sites", "config/sites.yaml"))
        if not self.sites_file.exists() and not self.sites_file.is_absolute():
            self.sites_file = self.directory / self.sites_file
        self.sites = load_sites(self.sites_file)
        self.default = str(config["study"])
        self.measuring = bool(config.get("measure", True))
        self._config = {key: config[key] for key in ("study", "sites", "measure") if key in config}
        self._studies: dict[str, PlannedStudy] = {}
        targets = [
            argument for argument in arguments if argument.startswith("results/") and argument.count("/") > 1
        ]
        for name in {target.split("/")[1] for target in targets} or {self.default}:
            self._check(self.study(name))

    def _check(self, study: PlannedStudy) -> None:
        """Refuse a study that cannot be measured, before anything runs; raises ConfigurationError."""
        names = sites_of(study, self.sites, self.sites_file)
        missing = [
            site for site in names if not all(Path(r).exists() for r in self._records_of(study, site, "main"))
        ]
        if not self.measuring or not missing:
            return
        check_roots(study, missing, self.sites, self.sites_file)
        if study.dataset.donor:
            from hyperslab.donors import DonorError, check

            try:
                check(study.dataset.model_dump(exclude_none=True))
            except DonorError as error:
                raise ConfigurationError(study.file, "dataset.donor", str(error)) from None
        for site in missing:
            prepare_root(self.sites[site]["root"])

    def score_file(self, wildcards: Any) -> list[str]:
        """The score, for the one figure that shows it."""
        return [f"results/{wildcards.study}/score.json"] if wildcards.figure == "score" else []

    def figures(self, study: str) -> list[str]:
        """The figures of every site that has, or will have, results to draw."""
        planned = self.study(study)
        present = {Path(record).parts[3] for record in self.records(study)}
        return [
            f"results/{study}/figures/{site}/{name}.svg"
            for site in sites_of(planned, self.sites, self.sites_file)
            if site in present
            for name in figures.names(planned.figure_meta, site)
        ]

    def report_input(self, study: str) -> dict[str, Any]:
        """Everything that the report is made of; figures exist where a site has results to draw."""
        planned, here = self.study(study), f"results/{study}"
        inputs: dict[str, Any] = {
            "template": str(self.directory / "workflow" / "report" / "report.html.j2"),
            "measurements": f"{here}/measurements.parquet",
            "summary": f"{here}/summary.csv",
            "context": [f"{here}/context.json"],
            "score": f"{here}/score.json",
            "recommendation": f"{here}/recommendation.json",
            "figures": self.figures(study),
        }
        if planned.study.recommendation.confirm_rounds and planned.read_cases():
            inputs["confirmation"] = f"{here}/confirmation.parquet"
            inputs["confirming"] = f"{here}/confirmation.json"
            inputs["context"].append(f"{here}/confirmation-context.json")
        return inputs

    def caption(self, figure: str) -> str:
        """The caption of a figure."""
        return figures.caption(figure)

    def wanted(self, study: str) -> list[tuple[str, str, str, str]]:
        """(site, layout, case, round) of every cell of the main rounds, measured or not."""
        planned = self.study(study)
        return [
            (site, *cell)
            for site in sites_of(planned, self.sites, self.sites_file)
            for number in range(planned.study.rounds)
            for cell in planned.cells(site, f"{ROUND['main']}{number}")
        ]

    def study(self, name: str) -> PlannedStudy:
        """The study of this name, read once."""
        if name not in self._studies:
            file = self.directory / "config" / "studies" / f"{name}.yaml"
            if not file.exists():
                known = sorted(path.stem for path in file.parent.glob("*.yaml"))
                raise ConfigurationError(file, "", f"there is no such study; there are {', '.join(known)}")
            self._studies[name] = PlannedStudy(file)
        return self._studies[name]

    def shell_prefix(self, scripts: Path, deployed: bool) -> str:
        """What every shell command starts with: strict, with the package and the right interpreter in reach.

        What a run inside this one needs is in the environment, where a change of it makes nothing stale.
        """
        inner = {"snakefile": str(self.directory / "Snakefile"), "config": self._config}
        exported = {"PYTHONPATH": str(scripts), RUN_VARIABLE: json.dumps(inner)}
        path = "" if deployed else f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; "
        exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in exported.items())
        # Snakemake fills in what stands in braces.
        return f"set -euo pipefail; {exports}{path}".replace("{", "{{").replace("}", "}}")

    @cached_property
    def slots(self) -> list[str]:
        """Names of the resources that keep timed jobs apart: one a platform and one a file system."""
        return sorted({slot for site in self.sites for slot in self.slots_of(site)})

    def slots_of(self, site: str) -> dict[str, int]:
        """The slots that one timed job of a site takes."""
        described = self.sites[site]
        return {
            f"slot_{kind}_{described[kind]}".replace("-", "_").replace(".", "_"): 1
            for kind in ("platform", "file_system")
        }

    def threads_of(self, site: str) -> int:
        """Threads of a timed job: all of this machine, or one where a scheduler gives it a node."""
        return ALL_CORES if self.sites[site]["executor"] == "local" else 1

    def donor(self, study: str) -> list[str]:
        """The prepared donor of a study, or nothing."""
        return [f"results/{study}/donor.npy"] if self.study(study).dataset.donor else []

    def test_file(self, wildcards: Any, site: str) -> list[str]:
        """The test file that a read case measures; a write case makes its own."""
        if self.study(wildcards.study).cases[wildcards.case]["kind"] == "write":
            return []
        root = self.sites[site]["root"]
        return [f"{root}/{wildcards.study}/{wildcards.layout}/{wildcards.case}.{wildcards.round}.h5"]

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
        waits = self.study(wildcards.study).cases[wildcards.case]["kind"] == "read"
        return 1000 if waits else self.generate_priority(wildcards, site)

    def records(self, study: str, phase: str = "main") -> list[str]:
        """The records of every cell in the rounds of a phase; without measuring, those that exist."""
        planned = self.study(study)
        wanted = [
            record
            for site in sites_of(planned, self.sites, self.sites_file)
            for record in self._records_of(planned, site, phase)
        ]
        return wanted if self.measuring else [record for record in wanted if Path(record).exists()]

    def _records_of(self, study: PlannedStudy, site: str, phase: str) -> list[str]:
        rounds = study.study.rounds if phase == "main" else study.study.recommendation.confirm_rounds
        return [
            f"results/{study.name}/cells/{site}/{layout}/{case}.{round_}.json"
            for number in range(rounds)
            for layout, case, round_ in study.cells(site, f"{ROUND[phase]}{number}")
        ]
