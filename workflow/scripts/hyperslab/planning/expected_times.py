"""About how long the cells of a site take: as long as they took there in another round, else an estimate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hyperslab.planning.estimates import estimated_seconds
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.records import Cell, DamagedRecord, Record, first_moment, parts_of, read_record, record_of
from hyperslab.studies import specification


def expected_seconds(
    study: PlannedStudy, site: str, pairs: Iterable[tuple[str, str]], inventory: Inventory
) -> dict[tuple[str, str], float]:
    """Return the seconds that one cell of each (layout, case) takes, writing its test artifact included.

    Where rounds of it are there and are those of today's study, they are those of the last of them.
    """
    where = ((cell, record_of(study.name, site, cell)) for cell in inventory.cells(study, site, "main"))
    last = {cell[:2]: (cell, record) for cell, record in where if Path(record).exists()}
    found = {}
    for pair in dict.fromkeys(pairs):
        taken = _taken(study, *last[pair]) if pair in last else None
        if taken is None:
            taken = estimated_seconds(study, *pair, site=site, store=inventory.sites[site]["store"])
        found[pair] = taken
    return found


def _taken(study: PlannedStudy, cell: Cell, path: str) -> float | None:
    """Return how long a record's cell took, in seconds; None where it is no cell of today's study."""
    try:
        record = read_record(path)
        with parts_of(path):
            today = specification.digest(specification.cell_specification(study, *cell))
            return _seconds(record) if specification.agrees(today, record["specification"]) else None
    except DamagedRecord:
        # The tables will say so.
        return None


def _seconds(record: Record) -> float:
    """Return the time from the first of writer and reader to the end, by a clock that both of them have.

    Of a writer that has another clock it is the time in which it wrote.
    """
    first, last, writer = first_moment(record), record["ended"], record["writer"]
    took = last["boottime_s"] - first["boottime_s"]
    if writer and "began" in writer and writer["began"]["boot_id"] != last["boot_id"]:
        took += writer["generate_s"]
    return took
