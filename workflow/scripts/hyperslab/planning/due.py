"""What a run is about to measure, for whatever reason: as the graph of its jobs says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from hyperslab.planning.estimates import total_bytes
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.progress import about
from hyperslab.records import Cell, cell_of, record_of
from hyperslab.text import count

# study -> site -> records, and markers of batches, that jobs of this run make
Due = dict[str, dict[str, list[Path]]]


def of_outputs(outputs: Iterable[str]) -> Due:
    """Return what of the outputs of a run's jobs is measured."""
    found: Due = {}
    for path in map(Path, outputs):
        if len(path.parts) > 4 and path.parts[0] == "results" and path.parts[2] in ("cells", "batches"):
            found.setdefault(path.parts[1], {}).setdefault(path.parts[3], []).append(path)
    return found


def cells(study: PlannedStudy, site: str, files: Iterable[Path], inventory: Inventory) -> dict[Path, Cell]:
    """Return the cells, by record, whose records are among `files`, or markers of whose batches are."""
    found: dict[Path, Cell] = {}
    for file in files:
        if file.parts[2] == "cells":
            found[file] = cell_of(file)
        else:
            inside = inventory.batch_cells(study, site, file.stem)
            found |= {Path(record_of(study.name, site, cell)): cell for cell in inside}
    return found


def changed(
    study: PlannedStudy,
    site: str,
    files: Iterable[Path],
    inventory: Inventory,
    noted: Callable[[Path], bool],
) -> list[Cell]:
    """Return the cells among `files` that were measured, but as something else than they are today.

    The job of a batch measures of these only such as Snakemake has `noted`.
    """
    own, wanted = set(files), cells(study, site, files, inventory)
    there = [(record, cell) for record, cell in wanted.items() if record.exists()]
    other = [(record, cell) for record, cell in there if not study.is_todays(record, cell)]
    return [cell for record, cell in other if record in own or noted(record)]


def forced(study: PlannedStudy, files: Iterable[Path], asked: Collection[str]) -> list[Cell]:
    """Return the cells among `files` that are measured again although their records are today's, and not
    those that the user has `asked` for by name.
    """
    records = [file for file in files if file.parts[2] == "cells" and str(file) not in asked]
    return [cell_of(record) for record in records if study.is_todays(record, cell_of(record))]


def lines(
    due: Due,
    inventory: Inventory,
    noted: Callable[[Path], bool],
    asked: Callable[[PlannedStudy, str], Collection[str]],
) -> Iterator[str]:
    """Yield a line for the cells of a site that were measured as something else than they are today, and one
    for those that are measured again without having been `asked` for.
    """
    for name, sites in due.items():
        study = inventory.study(name)
        for site, files in sites.items():
            reasons = {
                "what has changed since": changed(study, site, files, inventory, noted),
                "an option such as --forcerun, or of a rule that has changed": forced(
                    study, files, asked(study, site)
                ),
            }
            for reason, found in reasons.items():
                if found:
                    seconds = sum(inventory.seconds(study, site, found))
                    gigabytes = total_bytes(study, site, found, inventory.together(site)) / 1e9
                    yield (
                        f"{name}: site {site}: {count(len(found), 'cell')} to measure again because of "
                        f"{reason}, {gigabytes:.1f} GB to write, {about(seconds)}"
                    )
