"""Records into one tidy table: one row a repeat. Every column is described, with its unit, in COLUMNS."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hyperslab import text
from hyperslab.layouts import layout_of
from hyperslab.records import parts_of, read_record
from hyperslab.studies import specification
from hyperslab.studies.case_kinds import KINDS, kind_of

# state -> its words; tables and figures show states in this order.
STATES = {
    "cold": "cold",
    "library-cold": "library-cold (file in memory)",
    "warm": "warm",
    "session": "session",
    "write": "write",
}
# column -> what it holds, with its unit; the README's and the report's tables of columns are made from this.
COLUMNS: dict[str, str] = {
    "study": "name of the study",
    "site": "name of the site (platform with file system)",
    "layout": "name of the layout",
    "case": "name of the case",
    "kind": f"kind of the case: {', '.join(KINDS)}",
    "phase": "main (the study's rounds) or confirm (fresh rounds of the finalists)",
    "round": "number of the round within its phase, from 0",
    "state": "cold, warm or session; library-cold where the file system lies in memory; write",
    "repeat": "number of the repeat within cell, round and state, from 0",
    "time_s": "seconds of the operation: the selection, or create to fsync of a write",
    "open_s": "seconds to open file and array before the selection (first of an open file)",
    "close_s": "seconds to close the file",
    "create_s": "seconds to create file and array (writes)",
    "write_s": "seconds inside the write calls (writes)",
    "total_s": "seconds from create to close, without fsync: open, write and close of the sources (writes)",
    "calls": "number of calls that write_s adds up, of objects those of one object each",
    "call_mean_s": "mean seconds of one of these calls",
    "call_median_s": "median seconds of one of these calls",
    "call_max_s": "longest of these calls, in seconds",
    "flush_s": "seconds to flush the library's buffers (writes)",
    "fsync_s": "seconds of fsync after closing (writes)",
    "reference_s": "seconds of a plain write and fsync of the same bytes, in turn before and after (writes)",
    "discarded_reference_s": "seconds of a cell's first plain write, which finds no warm memory and is in no "
    "ratio (writes)",
    "asked_bytes": "bytes of the selection, or of the array written",
    "chunks_touched": "chunks that the selection touches, by arithmetic",
    "chunks_shared": "chunks among them that more than one worker reads (reductions)",
    "chunk_bytes": "stored bytes of those chunks (of the selection, where contiguous), by arithmetic",
    "requested_bytes": "bytes that the library asked the kernel for (rchar)",
    "requested_reads": "read calls of the library (syscr)",
    "requested_predicted_bytes": "what requested_bytes should be, index included; empty if not predictable",
    "requested_predicted_reads": "what requested_reads should be; empty if not predictable",
    "rewritten_predicted_bytes": "bytes that a write reads and writes once more because its calls cover only "
    "parts of what the format writes whole (a chunk or shard), before codecs; empty where there are none",
    "device_bytes": "bytes that came from the device (read_bytes), read-ahead included; empty where the "
    "kernel does not count them for the process (FUSE, network file systems)",
    "written_bytes": "bytes that the library handed to the kernel (wchar)",
    "requested_writes": "write calls of the library (syscw)",
    "processes": "worker processes or MPI ranks that did the operation together; empty for a single process",
    "physical_cores": "physical cores within their reach",
    "in_force": "what HDF5 says its last call was, and hints to MPI-IO as read back (parallel cases)",
    "resident_before": "share of the file in the page cache before the operation, 0 to 1",
    "resident_after": "share of the file in the page cache after the operation, 0 to 1",
    "free_list_bytes": "bytes that the library's free lists held after the operation (objects)",
    "garbage_collections": "calls of H5garbage_collect during the operation (objects)",
    "throttled_s": "seconds that the site's limit alone would take for the device bytes (of a write, for "
    "the written bytes); empty where nothing is throttled",
    "throttle_artefact": "the cell's repeats in this state need less than 0.1 s at the limit in the median: "
    "most went at the speed of bursts, and their mean stands for them",
    "noisy": "a probe before or after the cell lay beyond max(5 MAD, 25 %) of its site's median",
    "overlap": "another timed job ran on this node or file system meanwhile",
    "stale": "measured under another specification or protocol than today's",
    "file_bytes": "size of the test file, or of all files of a directory",
    "files": "number of files in which the array lies",
    "folders": "number of directories among them, the outermost one included (formats of many files)",
    "data_bytes": "bytes of the array in the file (after filters, where there are any)",
    "padding_bytes": "bytes of edge chunks outside the array, as stored",
    "padding_predicted_bytes": "the same by arithmetic",
    "index_bytes": "bytes of the chunk index, as the file reports it",
    "index_predicted_bytes": "the same by arithmetic; empty where not predictable",
    "remainder_bytes": "what is left of the file, in bytes: headers, groups, free space",
    "chunks": "number of chunks in the file (0: contiguous)",
    "chunks_predicted": "the same by arithmetic",
    "chunks_left_alone": "chunks that a filter left as they were, because it could not treat or shrink them",
    "ratio_raw": "compression ratio to the array: its bytes over the bytes stored for it",
    "ratio_padded": "compression ratio to whole chunks: their bytes, edges filled up, over the bytes stored",
    "error_max": "largest absolute error of what was read of a lossy layout; empty: every byte was right",
    "error_rms": "root mean square of the error, over every element that was read",
    "changed_share": "share of the elements read that differ from the array, 0 to 1",
    "error_bound": "largest absolute error that a lossy layout's filters promise; empty without a promise",
    "adjacent_share": "share of chunks that lie right behind their row-major predecessor",
    "format": "format of the layout, such as hdf5 or zarr",
    "chunk_shape": "chunk extents in array order, such as 4x4x2048, or contiguous",
    "filters": "filters in order, with their parameter",
    "grid_m": "value of the grid's first variable",
    "grid_n": "value of the grid's second variable",
    "generate_s": "seconds in which the test file was made (a shortcut, not a write time)",
    "writer": "how the test file was made: allocated or compressed (shortcuts), or plain",
    "probe_compute_s": "the slower of the two fixed computations around the cell, seconds",
    "probe_read_s": "the slower of the two median direct 4 KiB reads around the cell, seconds",
    "node": "node that read (and, for writes, wrote)",
    "writer_node": "node that wrote the test file",
    "peak_memory_bytes": "largest resident memory of the measuring process",
    "attempt": "how often the scheduler had restarted the job",
    "began_boottime_s": "boot-time clock at the cell's start, writer included",
    "ended_boottime_s": "boot-time clock at the cell's end",
    "began_wall_s": "seconds since 1970 at the cell's start, writer included",
    "ended_wall_s": "seconds since 1970 at the cell's end",
    "boot_id": "boot of the node, without which boot-time clocks cannot be compared",
}

FILE_COLUMNS = (
    "file_bytes", "files", "folders", "data_bytes", "padding_bytes", "padding_predicted_bytes", "index_bytes",
    "index_predicted_bytes", "remainder_bytes", "chunks", "chunks_predicted", "adjacent_share",
    "chunks_left_alone", "error_max", "error_rms", "changed_share",
)  # fmt: skip
TEXT = {
    "study", "site", "layout", "case", "kind", "phase", "state", "format", "chunk_shape", "filters", "writer",
    "node", "writer_node", "boot_id", "in_force",
}  # fmt: skip
WHOLE = {"round", "repeat"}
# Settings of a file that the context names; each as the file says it.
SETTINGS = (
    "alloc_time", "fill_time", "chunk_cache_bytes", "chunk_cache_slots", "chunk_cache_w0", "sieve_bytes",
    "conversion_buffer_bytes", "meta_block_bytes", "metadata_cache", "alignment", "driver", "paging",
    "garbage_collect_every", "libver", "dtype", "codec_pipeline.path",
    "codec_pipeline.chunk_concurrent_maximum", "async.concurrency", "threading.max_workers",
    "write_empty_chunks",
)  # fmt: skip
YES_NO = {"noisy", "overlap", "stale", "throttle_artefact"}


def compression(spec: Mapping[str, Any], stored: float | None) -> dict[str, float]:
    """Both compression ratios of an array whose chunks (or whole) take `stored` bytes; {} where unknown."""
    if not stored or kind_of(spec["case"]).many_arrays:
        return {}
    dataset = spec["dataset"]
    itemsize = np.dtype(dataset["dtype"]).itemsize
    raw = math.prod(dataset["shape"]) * itemsize
    padded = layout_of(spec["layout"]).stored_bytes(dataset["shape"], itemsize)
    return {"ratio_raw": raw / stored, "ratio_padded": padded / stored}


def rows_of(path: Path, study: str, expected: str | None, grid: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the rows of the record at `path`; see `record_rows`. Raises DamagedRecord."""
    record = read_record(path)
    with parts_of(path):
        return record_rows(record, path.parent.name, study, expected, grid)


def record_rows(
    record: Mapping[str, Any], name: str, study: str, expected: str | None, grid: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the rows of a record of the layout `name`.

    `expected` is the hash of today's specification (None: it has no such cell), `grid` what makes the layout
    one of a grid.
    """
    spec = record["specification"]
    layout, case, round_ = layout_of(spec["layout"]), spec["case"], spec["round"]
    writer = record["writer"] or {}
    first = writer.get("began", record["began"])
    probes = [record["probes"][when] for when in ("before", "after")]
    values = list(grid.values())
    common = {
        "study": study,
        "site": record["site"],
        "layout": name,
        "case": case["name"],
        "kind": case["kind"],
        "phase": "main" if round_.startswith("r") else "confirm",
        "round": int(round_[1:]),
        "stale": not specification.agrees(expected, spec),
        **{column: record["file"].get(column) for column in FILE_COLUMNS},
        **compression(spec, record["file"].get("stored_bytes")),
        "error_bound": layout.promised_error(),
        "format": layout.described["format"],
        "chunk_shape": text.shape(layout.chunks),
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
    }
    return [{**common, **repeat, **_spans(repeat)} for repeat in record["repeats"]]


def _spans(repeat: Mapping[str, Any]) -> dict[str, float]:
    """The span of a write that is a sum of its columns, also for records that are older than the column."""
    parts = ("create_s", "write_s", "flush_s", "close_s")
    return {"total_s": sum(repeat[part] for part in parts)} if repeat.keys() >= {*parts} else {}


def tidy(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a table with every column of COLUMNS, in that order and of one type."""
    table = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    for name in COLUMNS:
        if name in TEXT:
            table[name] = table[name].astype("object").fillna("").astype("str")
        elif name in WHOLE:
            table[name] = table[name].astype("int64")
        elif name in YES_NO:
            table[name] = table[name].astype("boolean").fillna(False).astype(bool)
        else:
            table[name] = table[name].astype(np.float64)
    return table.sort_values(
        ["site", "case", "layout", "phase", "round", "state", "repeat"], ignore_index=True
    )


def read_table(source: str | Path | BytesIO, columns: list[str] | None = None) -> pd.DataFrame:
    """A Parquet table, all of it or some columns.

    Without threads: one that still holds the source when Python ends aborts the process (arrow issue 34314).
    """
    return pd.read_parquet(source, columns=columns, use_threads=False, pre_buffer=False)


def read_summary(path: str | Path) -> pd.DataFrame:
    """A summary.csv as it was written: names stay text, and only an empty field is missing."""
    header = pd.read_csv(path, nrows=0).columns
    text = [name for name in header if name in TEXT]
    numbers = {name: [""] for name in header if name not in TEXT}
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


def context_entry(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record says of machine, file system, versions and settings."""
    # Free space differs from cell to cell and says nothing of the platform.
    file_system = {k: v for k, v in record["file_system"].items() if k != "free_bytes"}
    settings = record["file"]["settings"]
    return {
        "site": record["site"],
        "machine": record["machine"],
        "file_system": file_system,
        "versions": record["versions"],
        "settings": {name: settings[name] for name in SETTINGS if name in settings},
        "locks": record["locks"],
        "throttle": record.get("throttle"),
        "skipped": record["skipped"],
    }
