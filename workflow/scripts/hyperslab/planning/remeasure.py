"""Which records --config remeasure names: those that a pattern fits, or the cells that tables flag."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from pathlib import Path

from hyperslab.planning.confirmation import made_of_records
from hyperslab.records import LETTER

# --config remeasure=noisy: the cells that the study's tables flag.
NOISY = "noisy"
NOISY_TABLES = ("measurements.parquet", "confirmation.parquet")


def named(pattern: str, study: str) -> Callable[[str], bool]:
    """Return what tells of a record whether `remeasure` names it.

    A pattern is a glob over site/layout/case.round, "noisy", or "" for none.
    """
    prefix = f"results/{study}/cells/"
    if pattern != NOISY:
        return lambda record: fnmatch.fnmatchcase(record.removeprefix(prefix).removesuffix(".json"), pattern)
    tables = [Path(f"results/{study}/{name}") for name in NOISY_TABLES]
    flagged = {f"{prefix}{cell}.json" for table in tables if table.exists() for cell in _noisy(table)}
    return lambda record: record in flagged


def _noisy(table: Path) -> Iterator[str]:
    """Yield site/layout/case.round of every cell that a table flags; raises ConfigurationError."""
    from hyperslab.results.tables import read_table

    with made_of_records(table):
        rows = read_table(table, ["site", "layout", "case", "round", "phase", "noisy"])
    for row in rows[rows["noisy"]].drop_duplicates().itertuples():
        yield f"{row.site}/{row.layout}/{row.case}.{LETTER[str(row.phase)]}{row.round}"
