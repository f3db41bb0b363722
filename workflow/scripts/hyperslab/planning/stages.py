"""Stages of adaptive rounds: which cells are measured beyond a study's first rounds.

A stage lies between two looks at the comparisons (results/looks.py). Its cells are known only after the look
before it, so that Snakemake cannot plan them: `hyperslab.add_rounds` lists them in rounds.json and runs
Snakemake once more, for their records alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperslab.planning.confirmation import made_of_records
from hyperslab.records import Cell, read_json, record_of

# The rule that such a run is asked for.
ADDING = "added_cells"
# The phase of all stages together.
ADDED = "added"


@dataclass(frozen=True)
class Stage:
    """Stage `number`, from 1: rounds `begin` up to but not `end`, of (layout, case) cells by site."""

    number: int
    begin: int
    end: int
    cells: Mapping[str, Sequence[tuple[str, str]]]

    @property
    def phase(self) -> str:
        """What the cells of this stage are called among phases."""
        return phase_of(self.number)

    def at(self, site: str) -> list[Cell]:
        """Return (layout, case, round) of the cells of a site, by round: a round is a block."""
        return [
            (layout, case, f"r{number}")
            for number in range(self.begin, self.end)
            for layout, case in self.cells.get(site, ())
        ]

    def records_at(self, study: str, site: str) -> list[str]:
        """Return where the records of these cells lie."""
        return [record_of(study, site, cell) for cell in self.at(site)]

    def records(self, study: str) -> list[str]:
        """Return where the records of the cells of all sites lie."""
        return [record for site in self.cells for record in self.records_at(study, site)]

    def to_dict(self) -> dict[str, Any]:
        """Return what json.dumps accepts."""
        return {"rounds": [self.begin, self.end], "cells": {site: list(c) for site, c in self.cells.items()}}


def phase_of(number: int) -> str:
    """Return the phase of the stage of this number."""
    return f"a{number}"


def listing(study: str, claim: str = "") -> Path:
    """Return where the stages of a study are listed, or of the cells that one claim compares."""
    return Path(f"results/{study}/claims/{claim}.rounds.json" if claim else f"results/{study}/rounds.json")


def listed(file: Path) -> list[Stage]:
    """Return the stages that a file lists, none where there is no file.

    Raises ConfigurationError where it is damaged.
    """
    if not file.exists():
        return []
    with made_of_records(file):
        stages = read_json(file)["stages"]
        return [
            Stage(
                number,
                int(stage["rounds"][0]),
                int(stage["rounds"][1]),
                {site: [(str(a), str(b)) for a, b in cells] for site, cells in stage["cells"].items()},
            )
            for number, stage in enumerate(stages, 1)
        ]


def made_of(file: Path) -> tuple[str, set[str]]:
    """Return what of the study decided when a file was made, and which records of stages there were.

    Raises ConfigurationError where it is damaged.
    """
    with made_of_records(file):
        found = read_json(file)
        return str(found["deciding"]), set(map(str, found["records"]))
