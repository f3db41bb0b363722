"""What tables, figures and the report of a study are made of."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hyperslab.planning.inventory import Inventory
from hyperslab.planning.reruns import Reruns
from hyperslab.planning.stages import listing
from hyperslab.records import cell_of
from hyperslab.report import templates
from hyperslab.studies import advised, figures
from hyperslab.studies.claims.compared import compared


class PageInputs:
    """The inputs of the rules that measure nothing."""

    def __init__(self, inventory: Inventory, reruns: Reruns) -> None:
        self._inventory = inventory
        self._reruns = reruns

    def claim(self, study: str, name: str) -> list[str]:
        """Return what the page of one claim waits for: as for a table, but only of the cells it compares."""
        planned = self._inventory.study(study)
        claim = next(claim for claim in planned.claims if claim["id"] == name)
        wanted = compared(claim)
        return [
            file for file in self.table(study) if "/cells/" not in file or cell_of(Path(file))[:2] in wanted
        ]

    def table(self, study: str, phase: str = "main") -> list[str]:
        """Return what the table of a study waits for.

        The records of sites that this run measures itself, markers of the batches of others, and of the sites
        that it leaves out the records that exist.
        """
        inventory = self._inventory
        planned = inventory.study(study)
        found: list[str] = []
        for site in inventory.sites_of(planned):
            if inventory.leaves_out(study, site):
                found += inventory.present(planned, site, phase)
            elif markers := self._reruns.markers(planned, site, phase):
                found += markers
            else:
                found += inventory.records_of(planned, site, phase)
        return found

    def added(self, study: str, claim: str = "") -> str | list[str]:
        """Return the list of added rounds, of a study or for one claim; nothing where none are added."""
        return str(listing(study, claim)) if self._inventory.study(study).study.adaptive else []

    def foretold(self, study: str) -> str | list[str]:
        """Return what advice predicted for a study; nothing for one that it has not made."""
        file = advised.prediction(study)
        return str(file) if file.exists() else []

    def records(self, study: str) -> list[str]:
        """Return every record that the table of a study is made of, where it is there; added ones, too."""
        return self._inventory.all_records(self._inventory.study(study))

    def wanted(self, study: str) -> list[tuple[str, str, str, str]]:
        """Return (site, layout, case, round) of every cell of the first rounds, measured or not."""
        inventory = self._inventory
        planned = inventory.study(study)
        return [
            (site, *cell)
            for site in inventory.with_results(planned)
            for cell in inventory.cells(planned, site, "main")
        ]

    def meta(self, study: str) -> dict[str, Any]:
        """Return what the report shows of a study beside its results, and at which sites it has none."""
        planned = self._inventory.study(study)
        absent = self._inventory.without_results(planned)
        # Only where it says something, or every study's report would be made again.
        return {**planned.report_meta, **({"without_results": absent} if absent else {})}

    def figures(self, study: str) -> list[str]:
        """Return the figures of every site that has, or will have, results to draw."""
        planned = self._inventory.study(study)
        return [
            f"results/{study}/figures/{site}/{name}.svg"
            for site in self._inventory.with_results(planned)
            for name in figures.names(planned.figure_meta, site)
        ]

    def report(self, study: str) -> dict[str, Any]:
        """Return everything that the report is made of; figures exist where a site has results to draw."""
        planned, here = self._inventory.study(study), f"results/{study}"
        inputs: dict[str, Any] = {
            "template": [templates.REPORT, *templates.SHARED, *figures.CAPTIONS.values()],
            "measurements": f"{here}/measurements.parquet",
            "summary": f"{here}/summary.csv",
            "context": [f"{here}/context.json"],
            "score": f"{here}/score.json",
            "recommendation": f"{here}/recommendation.json",
            "figures": self.figures(study),
        }
        if planned.study.adaptive:
            inputs["rounds"] = self.added(study)
        if planned.claims:
            inputs["claims"] = f"{here}/claims.json"
        if planned.confirms:
            inputs["confirmation"] = f"{here}/confirmation.parquet"
            inputs["confirming"] = f"{here}/confirmation.json"
            inputs["context"].append(f"{here}/confirmation-context.json")
        return inputs

    def lost(self, studies: Iterable[str]) -> set[str]:
        """Return what reports that are there were made of and is gone: Snakemake alone would not miss it."""
        reported = [study for study in studies if Path(f"results/{study}/report.html").exists()]
        made = [self.report(study) for study in reported]
        files = [file for inputs in made for name, file in inputs.items() if name != "template"]
        flat = [name for file in files for name in ([file] if isinstance(file, str) else file)]
        return {name for name in flat if not Path(name).exists()}
