"""What a run makes again though nothing that it depends on changed, and what it clears away first."""

from __future__ import annotations

import fnmatch
import glob
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.measuring.artifact import remove_directory
from hyperslab.planning.batches import parse
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PHASE, ROUND, PlannedStudy

# --config remeasure=noisy: the cells that the study's table flags.
NOISY = "noisy"


def named(pattern: str, study: str) -> Callable[[str], bool]:
    """Tells which records `remeasure` names: a glob over site/layout/case.round, "noisy", or "" for none."""
    prefix = f"results/{study}/cells/"
    if pattern != NOISY:
        return lambda record: fnmatch.fnmatchcase(record.removeprefix(prefix).removesuffix(".json"), pattern)
    table = Path(f"results/{study}/measurements.parquet")
    if not table.exists():
        return lambda record: False
    from hyperslab.results.tables import read_table

    rows = read_table(table, ["site", "layout", "case", "round", "phase", "noisy"])
    rows = rows[rows["noisy"] & (rows["phase"] == "main")].drop_duplicates()
    flagged = {f"{prefix}{r.site}/{r.layout}/{r.case}.r{r.round}.json" for r in rows.itertuples()}
    return lambda record: record in flagged


def forced(inventory: Inventory, studies: list[str]) -> set[str]:
    """Results to make again: those that were asked for, and those that are gone although what was made of
    them is there. For a site measured in batches, the markers of the batches concerned.
    """
    return {file for name in studies for file in _forced_of(inventory, inventory.study(name))}


def force(workflow: Any, files: set[str]) -> None:
    """Have Snakemake make `files` again in this run, as its option --forcerun does.

    What a run is asked for is settled after the Snakefile was read: this steps in when jobs are planned.
    """
    prepare = workflow._prepare_dag

    def prepare_with_forced(*arguments: Any, **options: Any) -> Any:
        workflow.dag_settings.forcerun = frozenset(workflow.dag_settings.forcerun) | files
        return prepare(*arguments, **options)

    if files:
        workflow._prepare_dag = prepare_with_forced


def _forced_of(inventory: Inventory, study: PlannedStudy) -> Iterator[str]:
    if confirmation := _unconfirmed(inventory, study.name):
        yield confirmation
    summarised = Path(f"results/{study.name}/summary.csv").exists()
    again = inventory.asked_again(study)
    for site in inventory.sites_of(study):
        if site in inventory.left_out:
            continue
        records = inventory.records_of(study, site)
        wanted = {record for record in records if again(record)}
        if not inventory.in_batches(site):
            yield from wanted
            if summarised:
                yield from (record for record in records if not Path(record).exists())
            continue
        markers = inventory.markers(study, site)
        for batch, marker in zip(inventory.batches(study.name, site), markers, strict=True):
            mine = batch.of(records)
            gone = Path(marker).exists() and any(not Path(record).exists() for record in mine)
            if gone or wanted & set(mine):
                yield marker


def _unconfirmed(inventory: Inventory, study: str) -> str | None:
    """The list of confirming records, where one that this run can measure is not there."""
    listed = f"results/{study}/confirmation.json"
    if not Path(listed).exists():
        return None
    wanted = [Path(record) for record in json.loads(Path(listed).read_text(encoding="utf-8"))["wanted"]]
    reached = inventory.sites.keys() - inventory.left_out.keys()
    gone = any(record.parts[-3] in reached and not record.exists() for record in wanted)
    return listed if gone else None


def batch_records(inventory: Inventory, study: str, batch: str) -> list[str]:
    """The records that a batch of the site inside whose job this runs has to make."""
    part = parse(batch)
    return part.of(inventory.records_of(inventory.study(study), inventory.batched, PHASE[part.phase]))


def missing_records(inventory: Inventory, study: PlannedStudy) -> list[str]:
    """The records missing of cells that are jobs of this very run, confirming rounds included."""
    direct = {site["name"] for site in inventory.direct} & set(inventory.sites_of(study))
    return [record for site in direct for phase in ROUND for record in inventory.missing(study, site, phase)]


def sweep(inventory: Inventory, records: list[str]) -> None:
    """Remove what dead jobs left of the cells of `records`: test files, and records that are not whole."""
    for record in map(Path, records):
        _, study, _, site, layout, _ = record.parts
        # Where the file system has gone, so has the file.
        with suppress(OSError):
            remove_directory(Path(inventory.sites[site]["root"], study, layout, record.stem))
        for half in record.parent.glob(f".{glob.escape(record.name)}.*"):
            half.unlink(missing_ok=True)
