"""Add rounds for the comparisons of a study that are still open, until all are decided or it has the most.

Which cells these are is known only after a look at the rounds before, so that Snakemake cannot plan them:
this looks, and runs it once more for each stage. Records that are there are used; what was decided once by
the same records is decided again. Usage: python -m hyperslab.add_rounds --help
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperslab import text
from hyperslab.advising.course import TIME_ENDED, Course
from hyperslab.claims.evaluate import evaluate, site_facts
from hyperslab.claims.open_comparisons import Comparison, comparisons, open_cells, rounds_by_cell, rounds_of
from hyperslab.planning import inner_run
from hyperslab.planning.confirmation import RUN_VARIABLE
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.stages import ADDING, Stage
from hyperslab.records import DamagedRecord, record_of, write_record
from hyperslab.results.looks import looks
from hyperslab.results.measurements import build, standing
from hyperslab.results.recommendation import answer
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import context_of
from hyperslab.studies.claims.compared import compared


@dataclass(frozen=True)
class Look:
    """What one look at the records finds: every comparison, and how many rounds each has."""

    comparisons: Sequence[Comparison]
    rounds: Sequence[int]

    def told(self, most: int, lacking: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return each comparison with its rounds and why it has no more; `lacking` says why a site had none
        added.
        """
        return [
            {
                "says": one.says,
                "sites": one.sites,
                "rounds": rounds,
                "open": one.open,
                "why": _why(one, rounds, most, lacking),
            }
            for one, rounds in zip(self.comparisons, self.rounds, strict=True)
        ]


def _why(one: Comparison, rounds: int, most: int, lacking: Mapping[str, str]) -> str:
    if not one.open:
        return "decided"
    if rounds >= most:
        return "still open after the most rounds"
    return next((lacking[site] for site in one.sites if site in lacking), "its cells lack rounds")


def asked(study: PlannedStudy, claim: str) -> list[dict[str, Any]]:
    """Return the claims that are looked at: all of a study, or the one that is named."""
    return [one for one in study.claims if claim in ("", one["id"])]


def records(study: PlannedStudy, rounds: int, claim: str = "") -> Iterator[Path]:
    """Yield the records that are there of a study's first `rounds` main rounds, at any site that it wants; of
    one claim those of the cells that it compares.
    """
    there = sorted(place.name for place in Path(f"results/{study.name}/cells").glob("*"))
    sites = [site for site in there if study.study.sites == "all" or site in study.study.sites]
    wanted = {cell for one in asked(study, claim) for cell in compared(one)} if claim else None
    for number, site in itertools.product(range(rounds), sites):
        for cell in study.cells(site, f"r{number}"):
            record = Path(record_of(study.name, site, cell))
            if (wanted is None or cell[:2] in wanted) and record.exists():
                yield record


def look(study: PlannedStudy, rounds: int, claim: str = "") -> Look:
    """Return what the records of the first `rounds` rounds decide, of one claim alone if it is named; raises
    DamagedRecord.
    """
    paths, claims = list(records(study, rounds, claim)), asked(study, claim)
    table = build(paths, study.name, study.hashes("main"), study.grid_values)
    context = context_of(standing(paths, table))
    judged = evaluate(study.name, claims, table, site_facts(context))
    fresh = table[~table["stale"]]
    picks = study.confirms and not claim
    chosen = answer(summarise(fresh), context, study.recommendation_asked()) if picks else None
    found = comparisons(claims, judged, chosen)
    measured = rounds_by_cell(fresh)
    return Look(found, [rounds_of(one, measured) for one in found])


class Adding:
    """The stages of one study, or of one claim of it: looked at, listed in `output`, and measured as `run`
    says.
    """

    def __init__(
        self, study: PlannedStudy, run: Mapping[str, Any], output: Path, log: Path, claim: str = ""
    ) -> None:
        self._study, self._run, self._output, self._log, self._claim = study, run, output, log, claim
        self._first, self._most = study.study.first_rounds, study.study.most_rounds
        self._stages: list[Stage] = []
        self._course = Course.of(study.name)
        # site -> why no rounds were added there
        self._lacking: dict[str, str] = {}

    def all(self) -> None:
        """Go from look to look until nothing is open, or no more may be added."""
        for here, after in itertools.pairwise(looks(self._first, self._most)):
            found = look(self._study, here, self._claim)
            if self._run["config"].get("measure", True):
                self._course.probe()
            if not self._open(found) and self._more_than(here):
                # These were measured for another reason, and may tell otherwise.
                found = look(self._study, self._most, self._claim)
            if not (open_ := self._open(found)):
                break
            if (stage := self._longest(here, after, self._together(open_cells(open_)))) is None:
                break
            self._stages.append(stage)
            self._write(found)
            self._say(_planned(stage, len(open_), len(found.comparisons)))
            self._measure(stage)
            if stage.end < after:
                self._lacking |= dict.fromkeys(stage.cells, TIME_ENDED)
                break
        last = look(self._study, self._most, self._claim)
        self._write(last)
        total = text.count(len(last.comparisons), "comparison")
        left = sum(one.open for one in last.comparisons)
        self._say(f"of {total} {left or 'none'} {'are' if left > 1 else 'is'} still open; no more rounds")

    def _open(self, found: Look) -> list[Comparison]:
        """Return the open comparisons for which rounds can be added."""
        return [one for one in found.comparisons if one.open and not self._lacking.keys() & set(one.sites)]

    def _together(self, cells: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, list[tuple[str, str]]]:
        """Return cells by site with those that read the same test files, which cost little beside them."""
        return {
            site: list(
                dict.fromkeys(
                    (layout, other)
                    for layout, case in some
                    for other in self._study.sharing(layout, case, site)
                )
            )
            for site, some in cells.items()
        }

    def _longest(self, here: int, after: int, cells: Mapping[str, Any]) -> Stage | None:
        """Return the next stage, or as many of its rounds as can be measured before the time ends, where
        there is an end; None where that is not one.
        """
        done = list(records(self._study, self._first))
        for end in range(after, here, -1):
            stage = Stage(len(self._stages) + 1, here, end, cells)
            missing = [record for record in stage.records(self._study.name) if not Path(record).exists()]
            if not missing or self._course.fits(len(missing), done):
                return stage
        self._lacking |= dict.fromkeys(cells, TIME_ENDED)
        return None

    def _more_than(self, rounds: int) -> bool:
        """Tell whether there are records of further rounds."""
        return any(
            int(path.stem.rsplit(".r", 1)[1]) >= rounds
            for path in records(self._study, self._most, self._claim)
        )

    def _measure(self, stage: Stage) -> None:
        """Have the records of a stage measured that are not there; ends the process where one fails."""
        own = {"study": self._study.name, "stage": stage.number}
        own |= {"claim": self._claim} if self._claim else {}
        needed = inner_run.needed(self._study, stage.records(self._study.name), self._run["config"])
        if needed and inner_run.measure(ADDING, stage.phase, self._run, own, self._log):
            sys.exit(f"hyperslab.add_rounds: not every added cell could be measured; see {self._log}")
        for site in stage.cells:
            if not all(Path(record).exists() for record in stage.records_at(self._study.name, site)):
                self._lacking[site] = f"no rounds were added at {site}, which this run did not measure"

    def _write(self, found: Look) -> None:
        """Write the stages so far, and what `found` says of each comparison."""
        wanted = [record for stage in self._stages for record in stage.records(self._study.name)]
        content = {
            "deciding": self._study.deciding_of(self._claim),
            "first": self._first,
            "most": self._most,
            "looks": looks(self._first, self._most),
            "stages": [stage.to_dict() for stage in self._stages],
            "wanted": wanted,
            "records": [record for record in wanted if Path(record).exists()],
            "comparisons": found.told(self._most, self._lacking),
            **({"probes": self._course.probes} if self._course.probes else {}),
        }
        write_record(self._output, content)

    def _say(self, said: str) -> None:
        of = f"{self._study.name}, {self._claim}" if self._claim else self._study.name
        print(f"hyperslab: {of}: {said}", file=sys.stderr, flush=True)


def _planned(stage: Stage, open_: int, total: int) -> str:
    """Return what a stage adds and for what, in words."""
    cells = text.count(sum(map(len, stage.cells.values())), "cell")
    more = text.count(stage.end - stage.begin, "more round")
    of = text.count(total, "comparison")
    return (
        f"after {stage.begin} rounds {open_} of {of} {'are' if open_ > 1 else 'is'} open: {more} of {cells}"
    )


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--claim", default="", help="a claim of it, for which alone rounds are added")
    parser.add_argument("--log", required=True, type=Path, help="where the inner runs' output goes")
    parser.add_argument("--output", required=True, type=Path, help="what was added and why, as JSON")
    options = parser.parse_args()
    run = json.loads(os.environ[RUN_VARIABLE])
    study = inner_run.planned(run, options.study)
    try:
        Adding(study, run, options.output, options.log, options.claim).all()
    except DamagedRecord as damaged:
        sys.exit(f"hyperslab.add_rounds: {damaged}")


if __name__ == "__main__":
    main()
