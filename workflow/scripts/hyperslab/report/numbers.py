"""The numbers behind the figures of one site, as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from hyperslab import text as fmt
from hyperslab.report.data import CELL, Data, medians
from hyperslab.report.model import Cell, Table, table
from hyperslab.results.file_sizes import COPY, of_whole_files
from hyperslab.results.statistics import by_mean, round_words
from hyperslab.states import COLD_STATES, cold_of
from hyperslab.studies import case_kinds
from hyperslab.studies.summary import case_title, in_order

WRITE_PARTS = ("create_s", "write_s", "flush_s", "close_s", "fsync_s")
SIZE_PAIRS = (
    ("chunks", "chunks_predicted"),
    ("padding_bytes", "padding_predicted_bytes"),
    ("index_bytes", "index_predicted_bytes"),
    ("pyramid_bytes", "pyramid_predicted_bytes"),
)
REQUEST_PAIRS = (
    ("requested_bytes", "requested_predicted_bytes"),
    ("requested_reads", "requested_predicted_reads"),
    ("first_requested_bytes", "first_requested_predicted_bytes"),
)
FILTER_COLUMNS = ["#Array to stored", "#Whole chunks to stored", "#Chunks left unfiltered", "#Largest error"]
FILTER_NOTE = (
    " Compression ratios: bytes of the array, and of its chunks filled up at the edges, over the bytes "
    "stored. Left unfiltered: chunks that a filter could not treat or shrink. The error of a lossy layout is "
    "over everything that was read of it."
)
SIZE_KEYS = {"array": "Array", "made": "Written"}


def pooled(rows: pd.DataFrame, state: str) -> pd.DataFrame:
    """Return layout -> pooled median and interval in one state;
    `rows` are the summary of one site and case.
    """
    here = rows[rows["state"] == state].drop_duplicates("layout")
    return here.set_index("layout")[["pooled_median_s", "pooled_low_s", "pooled_high_s", "sd_log", "rounds"]]


def _pooled_cell(found: pd.DataFrame, layout: str) -> Cell:
    """Return a pooled median with its interval."""
    if layout not in found.index:
        return Cell(fmt.ABSENT)
    entry = found.loc[layout]
    note = fmt.time_interval(entry["pooled_low_s"], entry["pooled_high_s"])
    return Cell(fmt.seconds(entry["pooled_median_s"]), fmt.with_deviation(note, entry["sd_log"]))


def spread(values: pd.Series) -> str:
    """Return the median of some seconds, with the lowest and the highest; absent where none is known."""
    if values.notna().sum() == 0:
        return fmt.ABSENT
    return f"{fmt.seconds(values.median())} ({fmt.seconds(values.min())} to {fmt.seconds(values.max())})"


def case_table(data: Data, site: str, case: str, pick: str | None) -> Table | None:
    """Return cold and warm medians, and the session's statistics, of every layout."""
    rows = data.summary[(data.summary["site"] == site) & (data.summary["case"] == case)]
    if rows.empty:
        return None
    steady = [state for state in (*COLD_STATES, "warm") if (rows["state"] == state).any()]
    found = {state: pooled(rows, state) for state in steady}
    cold = cold_of(rows["state"])
    accesses = medians(rows[rows["state"] == cold], ["layout"], ["first_access_s"])["first_access_s"]
    session_names = ["min_s", "median_s", "mean_s", "max_s", "first_selection_s"]
    session = medians(rows[rows["state"] == "session"], ["layout"], session_names)
    body = [
        [
            layout,
            *([fmt.seconds(accesses.get(layout))] if cold else []),
            *(_pooled_cell(found[state], layout) for state in steady),
            *(fmt.seconds(session[name].get(layout)) for name in session_names if len(session)),
        ]
        for layout in in_order(set(rows["layout"]), data.study["layouts"])
    ]
    words = {state: "mean" if by_mean(rows[rows["state"] == state]) else "median" for state in steady}
    columns = [
        "Layout",
        *(["#First access"] if cold else []),
        *(f"#{state.capitalize()}, {word}" for state, word in words.items()),
    ]
    if len(session):
        columns += [f"#Session {word}" for word in ("min", "median", "mean", "max", "first selection")]
    note = (
        "Cold and warm: geometric mean of the rounds' medians (means, where I/O is throttled) with its 95 % "
        "interval (each layout by itself; for comparisons see the answer) and sd, its own deviation between "
        "rounds. First access, opening plus cold "
        "selection, and session: median over the rounds."
    )
    return table(f"Numbers: {case_title(data.study, case)}", columns, body, note, folded=True, pick=pick)


def size_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return what every file consists of, and whether arithmetic agrees with what the files report.

    One row a layout, array shape and way of writing: a write case inserts chunks in an order of its own.
    """
    rows = data.main(site).drop_duplicates(CELL)
    # Files of parallel cases are no layout's: most have no layout at all.
    rows = rows[rows["kind"].isin(case_kinds.names(lambda kind: kind.sized))]
    if rows.empty:
        return None
    cases = data.study["cases"]
    shapes = {name: fmt.shape(case["shape"]) for name, case in cases.items()}
    rows = rows.assign(
        array=rows["case"].map(shapes).fillna("unknown"),
        made=[
            case_title(data.study, case) if own else "row-major"
            for case, own in zip(rows["case"], _in_own_order(rows), strict=True)
        ],
    )
    rows = of_whole_files(rows, ["layout", "array", "made"])
    shown = [name for name, label in SIZE_KEYS.items() if rows[name].nunique() > 1]
    any_filter, many = (rows["filters"] != "").any(), (rows["files"] > 1).any()
    pyramids = rows["pyramid_bytes"].notna().any()
    body = []
    for layout in in_order(set(rows["layout"]), data.study["layouts"]):
        for (array, made), files in rows[rows["layout"] == layout].groupby(["array", "made"], sort=False):
            case = cases.get(files["case"].iloc[0])
            raw = raw_bytes(data, case) if case else math.nan
            keys = {"array": array, "made": made}
            filtered = _filter_cells(files) if any_filter else []
            number = [fmt.whole(files["files"].median())] if many else []
            levels = [fmt.whole(files["pyramid_bytes"].median())] if pyramids else []
            row = [*number, *_size_row(files, raw), *levels, *filtered]
            body.append([layout, *(keys[name] for name in shown), *row])
    columns = ["Layout", *(SIZE_KEYS[name] for name in shown), *(["#Files"] if many else []),
               "#Chunks", "#File", "#To the raw data",
               "#Data, bytes", "#Padding, bytes", "#Index, bytes", "#Index computed, bytes",
               "Computed and measured agree", "#Remainder, bytes"]  # fmt: skip
    columns += ["#Coarser levels, bytes"] if pyramids else []
    columns += FILTER_COLUMNS if any_filter else []
    note = (
        "Raw data: the array's bytes. Padding: edge chunks beyond the array. Index: also those of shards. "
        "Remainder: headers, groups, free space, zarr.json. Computed: chunks, padding and index; the index "
        "of a write case depends on the order in which its chunks left the cache, and is not compared."
    )
    note += (
        " Coarser levels: their elements and padding; their chunks and indexes count with the array's."
        * bool(pyramids)
    )
    note += FILTER_NOTE if any_filter else ""
    return table("Size of the files", columns, body, note, folded=len(body) > 12, pick=pick)


def raw_bytes(data: Data, case: Mapping[str, Any]) -> float:
    """Return the bytes of all elements of a case: of an array its extents say them."""
    return float(case.get("raw_bytes", math.prod(case["shape"]) * data.study["itemsize"]))


def _size_row(files: pd.DataFrame, raw: float) -> list[Any]:
    """Return the cells of one layout; `files` has one row a file,
    `raw` are the bytes of the array's elements.
    """
    names = ["chunks", "file_bytes", "data_bytes", "padding_bytes", "index_bytes", "index_predicted_bytes"]
    middle = files[[*names, "remainder_bytes"]].median()
    wrong = disagreeing(files)
    compared = files[[predicted for _, predicted in SIZE_PAIRS]].notna().any(axis=None)
    verdict = Cell("yes", "", "good") if compared else Cell("not predictable", "", "unknown")
    if wrong:
        verdict = Cell("no", f"differ: {fmt.listing(wrong)}", "bad")
    written = _in_own_order(files).all()
    return [
        fmt.whole(middle["chunks"]),
        fmt.megabytes(middle["file_bytes"]),
        f"{fmt.significant(middle['file_bytes'] / raw, 4)} x",
        *(fmt.whole(middle[name]) for name in ("data_bytes", "padding_bytes", "index_bytes")),
        fmt.ABSENT if written else fmt.whole(middle["index_predicted_bytes"]),
        verdict,
        fmt.whole(middle["remainder_bytes"]),
    ]


def _filter_cells(files: pd.DataFrame) -> list[Any]:
    """Return what filters did to the files of one layout: both ratios, chunks left alone, and the error."""
    # Of several copies no one ratio is that of the file.
    if not files["filters"].iloc[0] or len(files[COPY].drop_duplicates()) > 1:
        return [fmt.ABSENT] * 3 + [_error_cell(files) if files["filters"].any() else "exact"]
    ratios = [f"{fmt.significant(files[name].median())} x" for name in ("ratio_raw", "ratio_padded")]
    return [*ratios, fmt.whole(files["chunks_left_alone"].median()), _error_cell(files)]


def _error_cell(files: pd.DataFrame) -> Cell:
    """Return the largest error in any of the files of one layout; "exact" where every byte was right."""
    largest, root, changed = (files[name].max() for name in ("error_max", "error_rms", "changed_share"))
    if files["error_max"].isna().all():
        return Cell("exact", "", "good")
    if math.isinf(largest):
        return Cell(fmt.NUMBER_LOST, f"lossy: {fmt.percent(changed)} of the elements", "bad")
    bound = files["error_bound"].iloc[0]
    promise = f"; promised {fmt.significant(bound)}" if fmt.known(bound) else ""
    note = f"lossy: rms {fmt.significant(root)}, {fmt.percent(changed)} of the elements{promise}"
    return Cell(fmt.significant(largest), note, "unknown")


def disagreeing(files: pd.DataFrame) -> list[str]:
    """Return which of chunks, padding and index differ from arithmetic in some file (`files`: one row a
    file).

    Empty predictions do not count, nor does the index of a file that a write case made: a version-1 B-tree
    depends on the order of insertion, which there is the strategy's and the chunk cache's.
    """
    return [
        measured.removesuffix("_bytes")
        for measured, predicted in SIZE_PAIRS
        if different(files, measured, predicted).any()
    ]


def _in_own_order(rows: pd.DataFrame) -> pd.Series:
    """Return which rows are of cases that write the array by a strategy, so chunks in an order of its own."""
    return rows["kind"].isin(case_kinds.names(lambda kind: kind.writes_array))


def different(files: pd.DataFrame, measured: str, predicted: str) -> pd.Series:
    """Return which rows have a prediction that counts and another measured value; see `disagreeing`."""
    wrong = files[predicted].notna() & (files[measured] != files[predicted])
    return wrong & ~_in_own_order(files) if measured == "index_bytes" else wrong


def write_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return durable write times, their parts, and the plain write of the same bytes beside them."""
    rows = data.main(site)
    # What was written may have been read afterwards, by the same case.
    rows = rows[_in_own_order(rows) & (rows["state"] == "write")]
    if rows.empty:
        return None
    summary = data.summary
    summary = summary[(summary["site"] == site) & _in_own_order(summary) & (summary["state"] == "write")]
    names = [*WRITE_PARTS, "upload_s", "reference_s", "asked_bytes", "time_s", "rewritten_predicted_bytes"]
    parts = medians(rows, ["case", "layout"], names)
    again = parts["rewritten_predicted_bytes"].notna().any()
    uploaded = parts["upload_s"].notna().any()
    body = []
    for case in in_order(set(rows["case"]), data.study["cases"]):
        found = pooled(summary[summary["case"] == case], "write")
        for layout in in_order(set(rows["layout"][rows["case"] == case]), data.study["layouts"]):
            entry = parts.loc[(case, layout)]
            plain = entry["time_s"] / entry["reference_s"] if entry["reference_s"] else np.nan
            body.append([
                layout, case_title(data.study, case), _pooled_cell(found, layout),
                f"{fmt.significant(entry['asked_bytes'] / entry['time_s'] / 1e6)} MB/s",
                *(fmt.seconds(entry[name]) for name in WRITE_PARTS),
                *([fmt.seconds(entry["upload_s"])] if uploaded else []),
                fmt.seconds(entry["reference_s"]), f"{fmt.significant(plain)} x",
                *([fmt.megabytes(entry["rewritten_predicted_bytes"])] if again else []),
            ])  # fmt: skip
    columns = ["Layout", "Strategy", f"#Durable (create to {'upload' if uploaded else 'fsync'})", "#Rate",
               "#Create", "#Write", "#Flush", "#Close", "#fsync", *(["#Upload"] if uploaded else []),
               "#Plain write and fsync", "#Durable to plain"]  # fmt: skip
    word = round_words(summary)
    note = f"Durable: geometric mean of the rounds' {word}; other columns: medians over all repeats."
    if again:
        columns.append("#Read and written again")
        note += (
            " Read and written again, by arithmetic: what the format writes whole (a chunk, or a shard of "
            "chunks) and a call covers in part."
        )
    return table("Write times", columns, body, note, folded=len(body) > 12, pick=pick)


def requested_otherwise(rows: pd.DataFrame) -> pd.Series:
    """Return which rows requested other bytes, or in other calls, than was predicted."""
    wrong = pd.Series(False, rows.index)
    for measured, predicted in REQUEST_PAIRS:
        # Where the kernel counts nothing, nobody knows.
        known = rows[[measured, predicted]].notna().all(axis=1)
        wrong |= known & (rows[measured] != rows[predicted])
    return wrong


def count_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return the four counts of a selection beside its time, cold."""
    rows = data.main(site)
    rows = rows[rows["kind"].isin(case_kinds.names(lambda kind: kind.reads_selections))]
    state = cold_of(rows["state"]) or next(iter(rows["state"]), None)
    rows = rows[rows["state"] == state]
    if rows.empty:
        return None
    names = ["asked_bytes", "chunk_bytes", "requested_bytes", "requested_predicted_bytes", "device_bytes",
             "requested_reads", "chunks_touched", "time_s"]  # fmt: skip
    middle = medians(rows, ["case", "layout"], names)
    wrong = rows[requested_otherwise(rows)]
    differ = set(zip(wrong["case"], wrong["layout"], strict=True))
    body = []
    for case in in_order(set(rows["case"]), data.study["cases"]):
        for layout in in_order(set(rows["layout"][rows["case"] == case]), data.study["layouts"]):
            entry = middle.loc[(case, layout)]
            agree = Cell("no", "", "bad") if (case, layout) in differ else Cell("yes", "", "good")
            if not fmt.known(entry["requested_predicted_bytes"]):
                agree = Cell("not predictable", "", "unknown")
            elif not fmt.known(entry["requested_bytes"]):
                agree = Cell("not counted", "", "unknown")
            body.append([
                layout, case_title(data.study, case), fmt.megabytes(entry["asked_bytes"]),
                fmt.whole(entry["chunks_touched"]), fmt.megabytes(entry["chunk_bytes"]),
                fmt.megabytes(entry["requested_bytes"]), fmt.whole(entry["requested_reads"]), agree,
                fmt.megabytes(entry["device_bytes"]),
                f"{fmt.significant(entry['requested_bytes'] / entry['asked_bytes'])} x",
                fmt.seconds(entry["time_s"]),
            ])  # fmt: skip
    columns = ["Layout", "Case", "#Asked", "#Chunks touched", "#Chunk bytes", "#Requested", "#Read calls",
               "Requested as predicted", "#Device", "#Requested to asked", "#Time"]  # fmt: skip
    note = (
        f"Medians over all repeats, {state}. Device bytes include read-ahead; {fmt.ABSENT} where the kernel "
        "does not count them for the process (FUSE, network file systems)."
    )
    return table("Counts", columns, body, note, folded=True, pick=pick)
