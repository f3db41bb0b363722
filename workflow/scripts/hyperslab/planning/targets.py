"""Targets of a run: how they are spelt, which studies they are of, and that there can be such a result."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.claims_page import MARKDOWN, TARGET
from hyperslab.planning.confirmation import CONFIRMING
from hyperslab.planning.stages import ADDING
from hyperslab.studies import advised, figures
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.nearest import choices

if TYPE_CHECKING:
    from hyperslab.planning.inventory import Inventory
    from hyperslab.planning.planned_study import PlannedStudy

# Rules that can be named as targets: what the user asks for so, and what runs inside a run are asked for.
OF_THE_DEFAULT = ("all", "batch_cells", ADDING, CONFIRMING)
RULES = {"claims_page": TARGET}
# Environments are made for no study.
ENVIRONMENTS = (".venv-", "mpi_environment")
# What rules make in a study's results, beside what lies in the directories among KINDS.
FILES = (
    "report.html", "advice.html", "advice-figures", "measurements.parquet", "summary.csv", "context.json",
    "sources.json", "recommendation.json", "score.json", "claims.json", "rounds.json", "confirmation.json",
    "confirmation.parquet", "confirmation.csv", "confirmation-context.json", "confirmation-sources.json",
)  # fmt: skip
DONOR = re.compile(r"donor\..+\.npy")
RECORD = re.compile(r"(?P<case>[^/]+)\.(?P<phase>[rc])(?P<number>0|[1-9]\d*)\.json")
RESULT = "a target is a file, such as results/{study}/report.html, or the rule all"


def spelt(target: str) -> str:
    """Return a target as Snakemake knows its file: relative, without ./ and .., a rule by its first file."""
    if target in RULES or "/" not in target:
        return RULES.get(target, target)
    path = os.path.normpath(target)
    if os.path.isabs(path) and Path(path).is_relative_to(Path.cwd()):
        path = os.path.relpath(path)
    # What makes one of the two pages makes both.
    return TARGET if path == MARKDOWN else path


def studies(targets: Sequence[str], default: str) -> list[str]:
    """Return the names of the studies that targets are of: the default one only where it is asked for.

    Raises ConfigurationError for a target that is of none.
    """
    found = set() if targets else {default}
    for target in targets:
        if target in OF_THE_DEFAULT:
            found.add(default)
        elif target != TARGET and not target.startswith(ENVIRONMENTS):
            found.add(_study(target, default))
    return sorted(found)


def _study(target: str, default: str) -> str:
    place = Path(target)
    if place.is_relative_to("results") and len(place.parts) > 2:
        return place.parts[1]
    raise ConfigurationError(target, "", f"there is no such target; {RESULT.format(study=default)}")


def _results(targets: Sequence[str]) -> list[str]:
    return [target for target in targets if target.startswith("results/") and target != TARGET]


def check_names(targets: Sequence[str]) -> None:
    """Refuse targets that are called as no result is, which can be told before any study is known.

    Raises ConfigurationError, which names the target.
    """
    for target in _results(targets):
        name = Path(target).parts[2]
        known = name in FILES or name in KINDS or name == "layout" or DONOR.fullmatch(name)
        if not known and not Path(target).exists():
            raise _mistake(target, f"there is no such result of a study; there are {choices(name, FILES)}")


def check(targets: Sequence[str], inventory: Inventory, site: str = "") -> None:
    """Refuse targets that no study can have; raises ConfigurationError, which names the target.

    `site` is that whose recommendation rewritten files follow, "" for any.
    """
    for target in _results(targets):
        _, name, *inside = Path(target).parts
        study = inventory.study(name)
        if look := KINDS.get(inside[0]):
            look(target, inside[1:], study, inventory)
        if inside[0] == "layout" and site:
            known = inventory.sites_of(study)
            if site not in known:
                message = f"no site {site!r} in study {name}; it has {choices(site, known)}"
                raise ConfigurationError("--config", "site", message)


def _mistake(target: str, message: str) -> ConfigurationError:
    return ConfigurationError(target, "", message)


def _check_site(target: str, site: str, study: PlannedStudy, inventory: Inventory) -> None:
    known = inventory.sites_of(study)
    if site not in known:
        raise _mistake(target, f"no site {site!r} in this study; it has {choices(site, known)}")
    if site in inventory.left_out and not Path(target).exists():
        raise _mistake(target, f"site {site} is left out ({inventory.left_out[site]})")


def _check_cell(target: str, inside: Sequence[str], study: PlannedStudy, inventory: Inventory) -> None:
    if len(inside) != 3 or not (record := RECORD.fullmatch(inside[2])):
        raise _mistake(target, "there is no such record; one is cells/SITE/LAYOUT/CASE.rN.json")
    site, layout, case = inside[0], inside[1], record["case"]
    _check_site(target, site, study, inventory)
    if case not in study.cases:
        raise _mistake(target, f"no case {case!r} in this study; it has {choices(case, study.cases)}")
    known = study.cases[case]["layouts"]
    if layout not in known:
        raise _mistake(target, f"no layout {layout!r} in this case; it has {choices(layout, known)}")
    main = record["phase"] == "r"
    rounds = study.study.most_rounds if main else study.study.recommendation.confirm_rounds
    if int(record["number"]) >= rounds:
        what = "rounds" if main else "confirming rounds"
        most = "at most " if main and study.study.adaptive else ""
        raise _mistake(target, f"the study has {most}{rounds} {what}, counted from 0")
    if (layout, case) not in study.pairs(site):
        raise _mistake(target, f"case {case} is not measured at site {site}")
    if inventory.in_batches(site) and not Path(target).exists():
        again = f"--config remeasure={site}/{layout}/{Path(target).stem}"
        how = f"ask for results/{study.name}/report.html, with {again} where it was measured before"
        raise _mistake(target, f"site {site} is measured in batches, not cell by cell; {how}")


def _check_figure(target: str, inside: Sequence[str], study: PlannedStudy, inventory: Inventory) -> None:
    if len(inside) != 2 or not inside[1].endswith(".svg"):
        raise _mistake(target, "there is no such figure; one is figures/SITE/NAME.svg")
    _check_site(target, inside[0], study, inventory)
    name, known = inside[1].removesuffix(".svg"), figures.names(study.figure_meta, inside[0])
    if name not in known:
        raise _mistake(target, f"no figure {name!r} of this site; it has {choices(name, known)}")


def _check_claim(target: str, inside: Sequence[str], study: PlannedStudy, inventory: Inventory) -> None:
    if len(inside) != 1 or not inside[0].endswith(".html"):
        raise _mistake(target, "there is no such page; one is claims/CLAIM.html")
    name, known = inside[0].removesuffix(".html"), [c["id"] for c in study.claims if c["comparisons"]]
    if name not in known:
        raise _mistake(
            target, f"no claim {name!r} that is tested in this study; it has {choices(name, known)}"
        )


def _check_batch(target: str, inside: Sequence[str], study: PlannedStudy, inventory: Inventory) -> None:
    if len(inside) != 2 or not inside[1].endswith(".json"):
        raise _mistake(target, "there is no such batch; one is batches/SITE/BATCH.json")
    site, name = inside[0], inside[1].removesuffix(".json")
    _check_site(target, site, study, inventory)
    if inventory.in_batches(site):
        jobs, phases = BatchJobs(inventory), inventory.phases(study)
        phases = [phase for phase in phases if inventory.cells(study, site, phase)]
        known = [batch.name for phase in phases for batch in jobs.of(study.name, site, phase)]
        if name not in known:
            raise _mistake(target, f"no batch {name!r} of site {site}; it has {choices(name, known)}")
    elif not Path(target).exists():
        raise _mistake(target, f"site {site} is not measured in batches by this run")


def _check_advice(target: str, inside: Sequence[str], study: PlannedStudy, inventory: Inventory) -> None:
    if not advised.prediction(study.name).exists():
        raise _mistake(target, "this study asks for no advice; make advise FILE=... makes one that does")


KINDS: Mapping[str, Callable[[str, Sequence[str], PlannedStudy, Inventory], Any]] = {
    "cells": _check_cell,
    "figures": _check_figure,
    "claims": _check_claim,
    "batches": _check_batch,
    "advice.html": _check_advice,
    "advice-figures": _check_advice,
}
