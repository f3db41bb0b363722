"""What a run is about to measure, for whatever reason: as the graph of its jobs says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from hyperslab.planning.batches import parse
from hyperslab.planning.estimates import estimated_seconds, total_bytes
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.progress import about
from hyperslab.records import Cell, cell_of

# study -> site -> records, and markers of batches, that jobs of this run make
Due = dict[str, dict[str, list[Path]]]


def of_outputs(outputs: Iterable[str]) -> Due:
    """Return what of the outputs of a run's jobs is measured."""
    found: Due = {}
    for path in map(Path, outputs):
        if len(path.parts) > 4 and path.parts[0] == "results" and path.parts[2] in ("cells", "batches"):
            found.setdefault(path.parts[1], {}).setdefault(path.parts[3], []).append(path)
    return found


def changed(study: PlannedStudy, site: str, files: Iterable[Path], inventory: Inventory) -> list[Cell]:
    """Return the cells among `files` that were measured, but as something else than they are today."""
    wanted: dict[Path, Cell] = {}
    for file in files:
        if file.parts[2] == "cells":
            wanted[file] = cell_of(file)
            continue
        batch = parse(file.stem)
        records = map(Path, inventory.records_of(study, site, batch.phase))
        wanted |= batch.of(list(zip(records, inventory.cells(study, site, batch.phase), strict=True)))
    return [cell for record, cell in wanted.items() if record.exists() and not study.is_todays(record, cell)]


def lines(due: Due, inventory: Inventory) -> Iterator[str]:
    """Yield a line a site whose cells were measured before, and are something else today."""
    for name, sites in due.items():
        study = inventory.study(name)
        for site, files in sites.items():
            if cells := changed(study, site, files, inventory):
                store = inventory.sites[site]["store"]
                seconds = sum(estimated_seconds(study, *cell[:2], site=site, store=store) for cell in cells)
                gigabytes = total_bytes(study, site, cells) / 1e9
                yield (
                    f"{name}: site {site}: {len(cells)} cells have changed since they were measured and are "
                    f"measured again, {gigabytes:.1f} GB to write, {about(seconds)}"
                )
