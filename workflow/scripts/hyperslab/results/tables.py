"""Records into one tidy table: one row a repeat. Its columns are declared in columns.py."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.data.models import values_shape
from hyperslab.layouts import layout_of
from hyperslab.records import Moment, Record, Row, first_moment, parts_of, read_record
from hyperslab.results.column import Type
from hyperslab.results.columns import KEYS, MEASUREMENTS, OF_FILE, of_type
from hyperslab.sites import places
from hyperslab.specifications import Specification
from hyperslab.studies import specification
from hyperslab.studies.case_kinds import kind_of


def compression(spec: Specification, stored: float | None) -> dict[str, float]:
    """Return both compression ratios of an array whose chunks (or whole) take `stored` bytes;
    {} where unknown.
    """
    if not stored or kind_of(spec["case"]).many_arrays:
        return {}
    shape, itemsize = values_shape(spec["dataset"]), np.dtype(spec["dataset"]["dtype"]).itemsize
    padded = layout_of(spec["layout"]).stored_bytes(shape, itemsize)
    return {"ratio_raw": math.prod(shape) * itemsize / stored, "ratio_padded": padded / stored}


def rows_of(path: Path, study: str, expected: str | None, grid: Mapping[str, int]) -> list[Row]:
    """Return the rows of the record at `path`; see `record_rows`. Raises DamagedRecord."""
    record = read_record(path)
    with parts_of(path):
        return record_rows(record, path.parent.name, study, expected, grid)


def record_rows(
    record: Record, name: str, study: str, expected: str | None, grid: Mapping[str, int]
) -> list[Row]:
    """Return the rows of a record of the layout `name`.

    `expected` is the hash of today's specification (None: it has no such cell), `grid` what makes the layout
    one of a grid. Raises what is among records.MALFORMED for a record that no summary can be made of.
    """
    spec = record["specification"]
    layout, case, round_ = layout_of(spec["layout"]), spec["case"], spec["round"]
    writer: Mapping[str, Any] = record["writer"] or {}
    first, place = first_moment(record), places.recorded(record)
    _check_times(record, first)
    probes = [record["probes"][when] for when in ("before", "after")]
    values = list(grid.values())
    standing = specification.standing(expected, spec, study)
    common = {
        "study": study,
        "site": record["site"],
        "layout": name,
        "case": case["name"],
        "kind": case["kind"],
        "phase": "main" if round_.startswith("r") else "confirm",
        "round": int(round_[1:]),
        "stale": standing == "stale",
        "older_protocol": spec["protocol"] if standing == "older protocol" else None,
        **{name: record["file"].get(name, MEASUREMENTS[name].before) for name in OF_FILE},
        **compression(spec, record["file"].get("stored_bytes")),
        "error_bound": layout.promised_error(),
        "format": layout.described["format"],
        "chunk_shape": layout.chunk_words(),
        "filters": layout.filters_text(),
        "grid_m": values[0] if values else None,
        "grid_n": values[1] if len(values) > 1 else None,
        "generate_s": writer.get("generate_s"),
        "writer": writer.get("writer", ""),
        "probe_compute_s": max(probe["compute_s"] for probe in probes),
        "probe_read_s": max(probe["read_s"] for probe in probes),
        "node": record["machine"]["node"],
        "writer_node": writer.get("node", record["machine"]["node"]),
        "peak_memory_bytes": max(record["peak_memory_bytes"], writer.get("peak_memory_bytes", 0)),
        "attempt": int(record["environment"].get("SLURM_RESTART_COUNT", 0)),
        "began_boottime_s": first["boottime_s"],
        "ended_boottime_s": record["ended"]["boottime_s"],
        "began_wall_s": first["wall_s"],
        "ended_wall_s": record["ended"]["wall_s"],
        "boot_id": record["ended"]["boot_id"],
        "shared_root": "" if place.node_local else place.identity,
    }
    return [{**common, **repeat, **_spans(repeat)} for repeat in record["repeats"]]


def _check_times(record: Record, first: Moment) -> None:
    """Raise ValueError for a time that is none, a repeat that comes twice, an end before the beginning."""
    seen = set()
    for row in record["repeats"]:
        repeat = (row["state"], row["repeat"])
        if not 0 < float(row["time_s"]) < math.inf:
            raise ValueError(f"repeat {repeat[1]} ({repeat[0]}) has a time_s of {row['time_s']!r}")
        if repeat in seen:
            raise ValueError(f"repeat {repeat[1]} ({repeat[0]}) is there twice")
        seen.add(repeat)
    last = record["ended"]
    if not first["boottime_s"] <= last["boottime_s"] < math.inf or not math.isfinite(last["wall_s"]):
        raise ValueError("it ends before it begins, or nobody knows when")


def _spans(repeat: Mapping[str, Any]) -> dict[str, float]:
    """Return the span of a write that is a sum of its columns,
    also for records that are older than the column.
    """
    parts = ("create_s", "write_s", "flush_s", "close_s")
    return {"total_s": sum(repeat[part] for part in parts)} if repeat.keys() >= {*parts} else {}


def tidy(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows as a table with every column of MEASUREMENTS, in that order and of its type."""
    table = pd.DataFrame(rows).reindex(columns=list(MEASUREMENTS))
    for name, column in MEASUREMENTS.items():
        given = table[name]
        # Most have it already, and a table falls to pieces, which are slow, by every column that is replaced.
        match column.type:
            case "text" if given.dtype != "str" or given.hasnans:
                table[name] = given.astype("object").fillna("").astype("str")
            case "whole number" if given.dtype != np.int64:
                table[name] = given.astype("int64")
            case "yes or no" if given.dtype != bool:
                table[name] = given.astype("boolean").fillna(False).astype(bool)
            case "number" if given.dtype != np.float64:
                table[name] = given.astype(np.float64)
    return table.sort_values(
        ["site", "case", "layout", "phase", "round", "state", "repeat"], ignore_index=True
    )


# By a column's type the types of values of which `tidy` makes such a column, whatever others stand in it.
SURE_TYPES: Mapping[Type, tuple[type, ...]] = {
    "text": (str, NoneType),
    "whole number": (int,),
    "yes or no": (bool, NoneType),
    "number": (float, int, NoneType),
}
_SURE = {name: SURE_TYPES[column.type] for name, column in MEASUREMENTS.items()}


def is_sure(row: Row) -> bool:
    """Return whether `tidy` surely makes a table of rows with such values; where not, it has to be tried."""
    for name, value in row.items():
        if (types := _SURE.get(name)) is None:
            continue
        type_ = type(value)
        if type_ not in types:
            return False
        # A number may need more than 64 bits, and what is no valid text has a character beyond ASCII.
        if (type_ is int and not -(2**63) <= value < 2**63) or (type_ is str and not value.isascii()):
            return False
    return True


def superseded(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with results of an older protocol stale where today's are of the same case and round.

    What was asked differs between protocols, so that one round of both would be no block. Rounds of the one
    and rounds of the other are blocks, so that rounds may be added to older ones.
    """
    older = table["older_protocol"].notna()
    todays = ~older & ~table["stale"]
    measured = todays.groupby([table[key] for key in ("site", "case", "phase", "round")]).transform("any")
    return table.assign(
        stale=table["stale"] | (older & measured), older_protocol=table["older_protocol"].where(~measured)
    )


def read_table(source: str | Path | BytesIO, columns: list[str] | None = None) -> pd.DataFrame:
    """Return a Parquet table, all of it or some columns.

    Without threads: one that still holds the source when Python ends aborts the process (arrow issue 34314).
    """
    return pd.read_parquet(source, columns=columns, use_threads=False, pre_buffer=False)


def read_summary(path: str | Path) -> pd.DataFrame:
    """Return a summary.csv as it was written: names stay text, and only an empty field is missing."""
    header = pd.read_csv(path, nrows=0).columns
    text = [name for name in header if name in of_type("text")]
    numbers = {name: [""] for name in header if name not in text}
    return pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values=numbers)


def context_of(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return what was measured where: one entry for each distinct machine, file system, version and setting.

    Raises DamagedRecord.
    """
    seen: dict[str, dict[str, Any]] = {}
    for path in paths:
        record = read_record(path)
        with parts_of(path):
            entry = context_entry(record)
        text = specification.text(entry)
        found = seen.setdefault(text, {**entry, "cells": 0, "layouts": []})
        found["cells"] += 1
        # Not part of what tells entries apart: most settings are those of all layouts.
        found["layouts"] = sorted({*found["layouts"], path.parent.name})
    return list(seen.values())


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Return a copy whose names are text, not categories, of which some may be nowhere in the table."""
    others = {
        name: "str" for name in KEYS if name != "round" and name in table and table[name].dtype != "str"
    }
    # `astype` goes through all columns, and leaves each a block of its own, which is slow to work with; a
    # copy puts them together.
    return (table.astype(others) if others else table).copy()


def completed(measurements: pd.DataFrame) -> pd.DataFrame:
    """Return measurements that are `named`, with every column: a table made before one was added lacks it."""
    return named(measurements.reindex(columns=list(MEASUREMENTS)))


# What fills an array, in words: a donor's file and dataset, or how values are made.
REAL_VALUES = "real values of "
FILLS = {
    "mixed": "synthetic values that mix all indices",
    "constant-per-spectrum": "one synthetic value a spectrum",
    "random-below-256": "random whole numbers below 256",
    "counts": "synthetic counts, made so that gzip leaves about a third",
    "daily-grid": "synthetic daily fields, as smooth as measured ones, with no values over land",
}


def data_of(spec: Specification) -> str:
    """Return which values a test file holds: the file and dataset of a donor, or how they are made."""
    dataset: Mapping[str, Any] = spec["dataset"]
    if donor := dataset.get("donor"):
        name = donor.get("file") or Path(donor["path"]).name
        return f"{REAL_VALUES}{name}"
    return FILLS.get(dataset["fill"], str(dataset["fill"]))


def _store(record: Record) -> dict[str, Any]:
    """Return what a record says of the object store in which its data lay; nothing where it was none."""
    found: Mapping[str, Any] = record.get("root", {}).get("store") or {}
    return {
        "endpoint" if name == "start" else name: value for name, value in found.items() if value is not None
    }


def context_entry(record: Record) -> dict[str, Any]:
    """Return what a record says of machine, file system, versions and settings."""
    # Free space differs from cell to cell and says nothing of the platform.
    file_system = {k: v for k, v in record["file_system"].items() if k != "free_bytes"}
    settings = record["file"]["settings"]
    known = layout_of(record["specification"]["layout"]).settings
    return {
        "site": record["site"],
        "data": data_of(record["specification"]),
        "place": places.recorded(record).to_dict(),
        "machine": record["machine"],
        "file_system": file_system,
        "versions": record["versions"],
        "settings": {name: settings[name] for name in known if name in settings},
        "locks": record["locks"],
        "throttle": record.get("throttle"),
        "store": _store(record),
        "skipped": record["skipped"],
    }
