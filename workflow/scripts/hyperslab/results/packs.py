"""Packs: the results of a study in one small file, which gives the same records on another machine."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import pandas as pd

from hyperslab.records import read_record, write_record
from hyperslab.results.tables import read_table
from hyperslab.studies import specification

# A repeat's own keys that a seed gives again, so that a pack need not carry them.
RECOVERED = ("origin",)
NANOSECONDS = 1_000_000_000


class PackError(Exception):
    """A pack that cannot be made or read; the text is one line."""


def _without_origin(record: Mapping[str, Any]) -> dict[str, Any]:
    repeats = [{k: v for k, v in repeat.items() if k not in RECOVERED} for repeat in record["repeats"]]
    return {**record, "repeats": repeats}


def _whole(value: float) -> bool:
    """Whether a time is one of whole nanoseconds to the last bit; a sum of such times need not be."""
    return value == value and round(value * NANOSECONDS) / NANOSECONDS == value


def _packed(key: str, value: Any, seconds: Set[str]) -> Any:
    if isinstance(value, list):
        # The times of single calls: a list is one text, since a table's cell holds one value.
        return json.dumps([_packed(key, one, seconds) for one in value])
    return round(value * NANOSECONDS) if key.endswith("_s") and key not in seconds else value


def _unpacked(key: str, value: Any, whole: bool) -> Any:
    if isinstance(value, str) and value.startswith("["):
        return [_unpacked(key, one, isinstance(one, int)) for one in json.loads(value)]
    if not whole:
        return value
    return int(value) / NANOSECONDS if key.endswith("_s") else int(value)


def _in_seconds(repeats: Iterable[Mapping[str, Any]]) -> set[str]:
    """The times that stay in seconds, because some is not of whole nanoseconds."""
    return {
        key
        for repeat in repeats
        for key, value in repeat.items()
        if key.endswith("_s") and not all(map(_whole, value if isinstance(value, list) else [value]))
    }


def _to_columns(
    repeats: Sequence[Mapping[str, Any]], cell: int, seconds: Set[str]
) -> Iterator[dict[str, Any]]:
    for repeat in repeats:
        # Times were read in whole nanoseconds, which pack better than fractions of a second.
        row = {k: _packed(k, v, seconds) for k, v in repeat.items() if k not in RECOVERED}
        # A key that is absent and one that holds no number are two things.
        yield {"cell": cell, "empty": ",".join(k for k, v in row.items() if v != v), **row}


def _from_columns(row: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    empty = set(row["empty"].split(","))
    repeat: dict[str, Any] = {}
    for key, value in row.items():
        if key in ("cell", "empty"):
            continue
        if key in empty:
            repeat[key] = float("nan")
        elif value is not None and value == value and value is not pd.NA:
            repeat[key] = _unpacked(key, value, kinds[key] == "whole")
    return repeat


def pack(study: str, output: Path, results: Path = Path("results")) -> int:
    """Write every record of a study into `output`; returns their number. PackError where there is none."""
    paths = sorted((results / study / "cells").rglob("*.json"))
    if not paths:
        raise PackError(f"{results / study / 'cells'}: holds no records; measure study {study!r} first")
    cells: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    records = [_without_origin(read_record(path)) for path in paths]
    seconds = _in_seconds(repeat for record in records for repeat in record["repeats"])
    for number, (path, record) in enumerate(zip(paths, records, strict=True)):
        rest = {key: value for key, value in record.items() if key != "repeats"}
        cells.append(
            {
                "path": path.relative_to(results).as_posix(),
                "record": specification.text(rest),
                "digest": specification.digest(record),
            }
        )
        rows += _to_columns(record["repeats"], number, seconds)
    table = pd.DataFrame(rows)
    for name in table.columns.difference(["state", "empty"]):
        # Whole numbers stay whole, so that a record comes back to the letter.
        if all(isinstance(row.get(name, 0), int) or row[name] != row[name] for row in rows):
            table[name] = table[name].astype("Int64")
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, frame in (("cells", pd.DataFrame(cells)), ("repeats", table)):
            archive.writestr(
                f"{name}.parquet", frame.to_parquet(compression="zstd", compression_level=19, index=False)
            )
    # A pack that does not give back what it was made of must not take another's place.
    try:
        list(records_in(partial))
    except PackError:
        partial.unlink()
        raise
    partial.replace(output)
    return len(paths)


def records_in(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path below results, record) of every record of a pack, each checked against its digest.

    Raises PackError for a file that is not a pack or does not hold what it says.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = [archive.read(f"{name}.parquet") for name in ("cells", "repeats")]
        cells, table = (read_table(io.BytesIO(member)) for member in members)
    except (OSError, KeyError, zipfile.BadZipFile, ValueError) as error:
        raise PackError(f"{file}: not a readable pack: {' '.join(str(error).split())}") from None
    kinds = {name: "whole" if str(kind) == "Int64" else "other" for name, kind in table.dtypes.items()}
    groups = {cell: rows.to_dict("records") for cell, rows in table.groupby("cell")}
    for number, row in enumerate(cells.itertuples()):
        record = json.loads(str(row.record))
        record["repeats"] = [_from_columns(repeat, kinds) for repeat in groups.get(number, [])]
        if specification.digest(record) != row.digest:
            raise PackError(f"{file}: {row.path} is damaged (its digest differs)")
        if ".." in Path(str(row.path)).parts or Path(str(row.path)).is_absolute():
            raise PackError(f"{file}: {row.path} would lie outside the results")
        yield str(row.path), record


def unpack(file: Path, results: Path = Path("results")) -> int:
    """Write a pack's records below `results`; returns their number.

    A record that is already there with other content is not overwritten: PackError, and nothing is written.
    """
    found = list(records_in(file))
    for path, record in found:
        target = results / path
        if target.exists() and specification.digest(
            _without_origin(read_record(target))
        ) != specification.digest(record):
            raise PackError(f"{target}: holds another result; move it away, or unpack into another directory")
    for path, record in found:
        if not (results / path).exists():
            write_record(results / path, record)
    return len(found)
