"""Columns of the tables, each declared once: its type, its unit, what it holds, and where it comes from.

MEASUREMENTS are those of measurements.parquet, one row a repeat; SUMMARY those of summary.csv, one row a
cell, state and round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from hyperslab.results.comparisons import MIN_ROUNDS
from hyperslab.studies.case_kinds import KINDS

Type = Literal["text", "whole number", "number", "yes or no"]


@dataclass(frozen=True)
class Column:
    """A column: what it holds, the unit of its numbers ("" for words, counts and ratios), and its type."""

    meaning: str
    unit: str = ""
    type: Type = "number"
    # It is what the file says of itself, under the same name in a record.
    of_file: bool = False
    # The summary holds it, too: it is the same for all repeats of a round.
    in_summary: bool = False
    # What stands for it in a record that is older than the column; None: nothing is known.
    before: float | None = None


def _text(meaning: str, in_summary: bool = False) -> Column:
    return Column(meaning, type="text", in_summary=in_summary)


def _seconds(meaning: str) -> Column:
    return Column(meaning, "s")


def _bytes(meaning: str, in_summary: bool = False) -> Column:
    return Column(meaning, "bytes", in_summary=in_summary)


def _yes_no(meaning: str) -> Column:
    return Column(meaning, type="yes or no")


def _whole(meaning: str) -> Column:
    return Column(meaning, type="whole number")


def _said_by_files(columns: Mapping[str, Column]) -> dict[str, Column]:
    return {name: replace(column, of_file=True) for name, column in columns.items()}


# What tells the rounds of cells apart.
_IDENTITY = {
    "site": _text("name of the site (platform with file system)"),
    "layout": _text("name of the layout"),
    "case": _text("name of the case"),
    "kind": _text(f"kind of the case: {', '.join(KINDS)}"),
    "phase": _text("main (the study's rounds) or confirm (fresh rounds of the finalists)"),
    "round": _whole("number of the round within its phase, from 0"),
    "state": _text("cold, warm or session; library-cold where the file system lies in memory; write"),
}
_TIMES = {
    "time_s": _seconds("the operation: the selection, or create to fsync of a write"),
    "open_s": _seconds("to open file and array before the selection (first of an open file)"),
    "close_s": _seconds("to close the file"),
    "first_picture_s": _seconds(
        "until the coarsest level of a view is there, opening included where the file is cold (resolution); "
        "time_s and all counts of such a case are the sums over its levels"
    ),
    "fetch_s": _seconds(
        "to copy all files before they are opened, apart from the time (summaries of fetched files)"
    ),
    "create_s": _seconds("to create file and array (writes)"),
    "write_s": _seconds("inside the write calls (writes)"),
    "total_s": _seconds("from create to close, without fsync: open, write and close of the sources (writes)"),
    "calls": Column("number of calls that write_s adds up, of objects those of one object each"),
    "call_mean_s": _seconds("mean of one of these calls"),
    "call_median_s": _seconds("median of one of these calls"),
    "call_max_s": _seconds("longest of these calls"),
    "answer_median_s": _seconds("until a request was answered, median of all clients' (clients)"),
    "answer_p95_s": _seconds("within which 95 % of the requests were answered (clients)"),
    "answer_max_s": _seconds("until the slowest request was answered (clients)"),
    "flush_s": _seconds("to flush the library's buffers (writes)"),
    "fsync_s": _seconds("fsync after closing (writes)"),
    "upload_s": Column(
        "to put what was written into the object store, and see that it is there whole; of writes part of "
        "time_s, else before all selections",
        "s",
        of_file=True,
    ),
    "order_s": _seconds("of the slowest rank to put samples in order (sub-volumes)"),
    "exchange_s": _seconds("of the slowest rank to send samples to those who write them (sub-volumes)"),
    "file_writes_s": _seconds(
        "of the slowest rank inside calls that write into files; an aggregator's thread makes them while the "
        "next samples are put in order and exchanged (sub-volumes that tell them apart)"
    ),
    "coarse_levels_s": _seconds(
        "to write levels 0 to 6, each by its slowest rank (sub-volumes that are written level by level)"
    ),
    "levels_s": _seconds("to write all levels, added up likewise (the same sub-volumes)"),
    "time_by_level": _text("the seconds of each level from 0, with spaces between (the same sub-volumes)"),
    "reference_s": _seconds("a plain write and fsync of the same bytes, in turn before and after (writes)"),
    "discarded_reference_s": _seconds(
        "a cell's first plain write, which finds no warm memory and is in no ratio (writes)"
    ),
}
_COUNTS = {
    "asked_bytes": _bytes("of the selection, or of the array written"),
    "rows": Column("number of rows read or written (ragged rows)"),
    "files_touched": Column(
        "number of files, of a collection or of an IDX dataset, that the selection touches, by arithmetic"
    ),
    "levels_touched": Column(
        "number of levels that hold the selection's elements, by arithmetic (IDX; the coarsest has one)"
    ),
    "chunks_touched": Column("number of chunks that the selection touches, by arithmetic"),
    "chunks_shared": Column("number of chunks among them that more than one worker reads (reductions)"),
    "chunk_bytes": _bytes("stored for those chunks (for the selection, where contiguous), by arithmetic"),
    "requested_bytes": _bytes("that the library asked the kernel for (rchar)"),
    "requested_reads": Column("number of read calls of the library (syscr)"),
    "requested_predicted_bytes": _bytes(
        "what requested_bytes should be, index included; empty if not predictable"
    ),
    "first_requested_bytes": _bytes(
        "that the library asked the kernel for until the first picture (resolution)"
    ),
    "first_requested_predicted_bytes": _bytes(
        "what first_requested_bytes should be; empty if not predictable (resolution)"
    ),
    "first_device_bytes": _bytes("that came from the device until the first picture (resolution)"),
    "levels": _text(
        "each level of a view as JSON, coarsest first: level, time_s, counts; of the first view of a cell "
        "some have a small picture (resolution)"
    ),
    "requested_predicted_reads": Column("what requested_reads should be; empty if not predictable"),
    "rewritten_predicted_bytes": _bytes(
        "that a write reads and writes once more because its calls cover only parts of what the format "
        "writes whole (a chunk or shard), before codecs; empty where there are none"
    ),
    "device_bytes": _bytes(
        "that came from the device (read_bytes), read-ahead included; empty where the kernel does not count "
        "them for the process (FUSE, network file systems)"
    ),
    "open_requests": Column(
        "number of requests to open file and array, counted at the gateway (object stores)"
    ),
    "open_wire_bytes": _bytes("of the answers to those requests (object stores)"),
    "wire_requests": Column("number of requests of the selection, counted at the gateway (object stores)"),
    "wire_bytes": _bytes("of the answers to those requests (object stores)"),
    "wire_failures": Column(
        "number of requests, opening included, that failed and were asked again (object stores)"
    ),
    "written_bytes": _bytes("that the library handed to the kernel (wchar)"),
    "server_requested_bytes": _bytes("of requested_bytes, those of the server's processes"),
    "server_device_bytes": _bytes("of device_bytes, those of the server's processes"),
    "server_written_bytes": _bytes("of written_bytes, those of the server's processes"),
    "server_memory_bytes": _bytes(
        "largest resident memory of each process of the server up to then, summed; empty without a server"
    ),
    "requested_writes": Column("number of write calls of the library (syscw)"),
    "opens": Column("number of times that ranks made or opened files of data (sub-volumes)"),
    "most_opens": Column(
        "number of times that one rank opened the same file to write into it, at most (sub-volumes)"
    ),
    "opens_by_rank": _text("opens of each rank, with spaces between (sub-volumes)"),
    "writes_by_rank": _text("requested_writes of each rank, likewise (sub-volumes)"),
    "written_by_rank": _text("written_bytes of each rank, likewise (sub-volumes)"),
    "requests": Column("number of requests of all clients together (clients)"),
    "errors": Column("number of requests that failed and were made again (clients)"),
    "fairness": Column("requests a second of the fastest client over those of the slowest (clients)"),
    "processes": Column(
        "number of worker processes or MPI ranks that did the operation together; empty for a single process"
    ),
    "physical_cores": Column("number of physical cores within their reach"),
    "nodes": _text("names of the nodes on which workers or ranks ran, with spaces between; else empty"),
    "in_force": _text(
        "what the library says its last call was, and hints to MPI-IO as read back (parallel cases)"
    ),
    "resident_before": Column("share of the file in the page cache before the operation, 0 to 1"),
    "resident_after": Column("share of the file in the page cache after the operation, 0 to 1"),
    "free_list_bytes": _bytes("that the library's free lists held after the operation (objects)"),
    "metadata_hit_rate": Column("share of accesses that the library's metadata cache served, 0 to 1 (rows)"),
    "metadata_cache_bytes": _bytes("that the metadata cache held after the operation (rows)"),
    "page_buffer_meta_hit_rate": Column(
        "share of accesses to metadata that the page buffer served, 0 to 1; empty without one (rows)"
    ),
    "page_buffer_raw_hit_rate": Column(
        "share of accesses to raw data that the page buffer served, 0 to 1; empty without one (rows)"
    ),
    "rows_a_second": Column(
        "rows appended a second of the calls, each flushed before the next (followed rows)"
    ),
    "readers": Column("number of processes that read rows while they were appended (followed rows)"),
    "latency_median_s": _seconds(
        "from the begin of a row's append until a reader had its values, median of all rows (followed rows)"
    ),
    "latency_p99_s": _seconds("the same, of which 99 % of the rows have no more (followed rows)"),
    "latency_max_s": _seconds("the same of the latest row (followed rows)"),
    "followed_share": Column(
        "share of the rows that readers had before the last append returned, 0 to 1 (followed rows)"
    ),
    "looks": Column("number of times that readers looked at the file anew (followed rows)"),
    "grown_bytes": _bytes("by which the file became longer when rows were replaced (rows)"),
    "garbage_collections": Column("number of calls of H5garbage_collect during the operation (objects)"),
}
_FLAGS = {
    "throttled_s": _seconds(
        "that the site's limit alone would take for the device bytes (of a write, for the written bytes); "
        "empty where nothing is throttled"
    ),
    "throttle_artefact": _yes_no(
        "the cell's repeats in this state need less than 0.1 s at the limit in the median: most went at the "
        "speed of bursts, and their mean stands for them"
    ),
    "noisy": _yes_no("a probe before or after the cell lay beyond max(5 MAD, 25 %) of its site's median"),
    "overlap": _yes_no("another timed job ran on this node or file system meanwhile"),
    "stale": _yes_no(
        "measured under another specification than today's, or under a protocol whose results do not count "
        "(any more, or beside today's of the same case and round); left out of all results"
    ),
    "older_protocol": Column(
        "number of the timing protocol where it is an older one than today's and the results count all the "
        "same; empty under today's"
    ),
}
_FILES = _said_by_files(
    {
        "file_bytes": _bytes("size of the test file, or of all files of a directory", in_summary=True),
        "files": Column("number of files in which the array lies", in_summary=True, before=1),
        "folders": Column(
            "number of directories among them, the outermost one included (formats of many files)"
        ),
        "data_bytes": _bytes(
            "of the array in the file (after filters, where there are any)", in_summary=True
        ),
        "padding_bytes": _bytes("of edge chunks outside the array, as stored", in_summary=True),
        "padding_predicted_bytes": _bytes("the same by arithmetic"),
        "index_bytes": _bytes(
            "of the chunk index, or of the indexes of shards, as the file says", in_summary=True
        ),
        "index_predicted_bytes": _bytes(
            "the same by arithmetic; empty where not predictable", in_summary=True
        ),
        "remainder_bytes": _bytes("what is left of the file: headers, groups, free space", in_summary=True),
        "pyramid_bytes": _bytes(
            "stored for coarser levels beside the array, their indexes apart; empty where there are none"
        ),
        "pyramid_predicted_bytes": _bytes("the same by arithmetic; empty where not predictable"),
        "lengths_bytes": _bytes("of the index: lengths of rows; empty where none are stored (rows)"),
        "offsets_bytes": _bytes("of the index: offsets of rows, or offsets and lengths (rows)"),
        "references_bytes": _bytes("of the index: references into the global heap (rows)"),
        "heap_bytes": _bytes("of the collections of the global heap, free space in them included (rows)"),
        "heap_collections": Column("number of collections of the global heap (rows)"),
        "row_pieces": Column(
            "number of pieces of the file in which the rows of the first dataset lie, one behind the other; "
            "gaps of up to 4 KiB are none; empty where the file does not tell (rows in HDF5)"
        ),
        "extents": Column(
            "number of extents of the file on its device (FIEMAP); empty where the file system does not tell "
            "(rows in HDF5)"
        ),
        "lost_bytes": _bytes("that no row refers to any more, and that no row can take again (rows)"),
        "upload_requests": Column("number of requests that put the array into the object store"),
        "upload_bytes": _bytes("of the bodies of those requests"),
        "metadata_bytes": _bytes(
            "of the remainder in a file of its own that describes the array, such as zarr.json; empty where "
            "there is none"
        ),
        "chunks": Column("number of chunks in the file (0: contiguous)", in_summary=True),
        "chunks_predicted": Column("the same by arithmetic"),
        "chunks_left_alone": Column(
            "number of chunks that a filter left as they were, because it could not treat or shrink them"
        ),
        "error_max": Column(
            "largest absolute error of what was read of a lossy layout; empty: every byte was right"
        ),
        "error_rms": Column("root mean square of the error, over every element that was read"),
        "changed_share": Column("share of the elements read that differ from the array, 0 to 1"),
        "adjacent_share": Column("share of chunks that lie right behind their row-major predecessor, 0 to 1"),
    }
)
_LAYOUT = {
    "ratio_raw": Column("compression ratio to the array: its bytes over the bytes stored for it"),
    "ratio_padded": Column(
        "compression ratio to whole chunks: their bytes, edges filled up, over the bytes stored"
    ),
    "error_bound": Column(
        "largest absolute error that a lossy layout's filters promise; empty without a promise"
    ),
    "format": _text("format of the layout, such as hdf5 or zarr"),
    "chunk_shape": _text("chunk extents in array order, such as 4x4x2048, or contiguous", in_summary=True),
    "filters": _text("filters in order, with their parameter", in_summary=True),
    "grid_m": Column("value of the grid's first variable", in_summary=True),
    "grid_n": Column("value of the grid's second variable", in_summary=True),
}
_PLACE = {
    "generate_s": _seconds("in which the test file was made (a shortcut, not a write time)"),
    "writer": _text("how the test file was made: plain, or by which shortcut"),
    "probe_compute_s": _seconds("the slower of the two fixed computations around the cell"),
    "probe_read_s": _seconds("the slower of the two median direct 4 KiB reads around the cell"),
    "node": _text("node that read (and, for writes, wrote)"),
    "writer_node": _text("node that wrote the test file"),
    "peak_memory_bytes": _bytes("largest resident memory of the measuring process"),
    "attempt": Column("how often the scheduler had restarted the job"),
    "began_boottime_s": _seconds("boot-time clock at the cell's start, writer included"),
    "ended_boottime_s": _seconds("boot-time clock at the cell's end"),
    "began_wall_s": _seconds("since 1970 at the cell's start, writer included"),
    "ended_wall_s": _seconds("since 1970 at the cell's end"),
    "boot_id": _text("boot of the node, without which boot-time clocks cannot be compared"),
}
MEASUREMENTS: dict[str, Column] = {
    "study": _text("name of the study"),
    **_IDENTITY,
    "repeat": _whole("number of the repeat within cell, round and state, from 0"),
    **_TIMES, **_COUNTS, **_FLAGS, **_FILES, **_LAYOUT, **_PLACE,
}  # fmt: skip

# Statistics of one round.
ROUND: dict[str, Column] = {
    "n": _whole("number of repeats in the round"),
    "min_s": _seconds("smallest of the round's repeats"),
    "q1_s": _seconds("first quartile of the round's repeats (linear interpolation)"),
    "median_s": _seconds("median of the round's repeats"),
    "q3_s": _seconds("third quartile of the round's repeats (linear interpolation)"),
    "mean_s": _seconds("mean of the round's repeats"),
    "max_s": _seconds("largest of the round's repeats"),
    "first_access_s": _seconds(
        "request_s of cold states: the file is evicted, opened, and one selection is read"
    ),
    "first_selection_s": _seconds("of a session: its first selection (repeat 0), without opening"),
    "typical_s": _seconds(
        "what stands for the round: the median; of sessions the geometric mean; of throttled cold reads and "
        "writes the mean, and at least what the limit alone takes"
    ),
    "request_s": _seconds("what a request waits for: typical_s, of cold selections with their opening"),
}
THROTTLE: dict[str, Column] = {
    "throttled_s": _seconds("that the site's limit alone would take for all repeats; empty without one"),
    "throttle_artefact": MEASUREMENTS["throttle_artefact"],
}
# Statistics of a cell over its rounds.
POOLED: dict[str, Column] = {
    "rounds": _whole("number of rounds of this layout, case, phase and state"),
    "pooled_median_s": _seconds("geometric mean of the rounds' typical_s"),
    "pooled_low_s": _seconds(f"lower end of its 95 % interval; empty under {MIN_ROUNDS} rounds"),
    "pooled_high_s": _seconds(f"upper end of its 95 % interval; empty under {MIN_ROUNDS} rounds"),
    "sd_log": Column("the cell's own deviation between rounds of the log (base e) of typical_s"),
}
# In the order in which a summary has them.
KEYS = ["site", "layout", "case", "kind", "phase", "state", "round"]
# What the file says of itself, and what of all that the summary holds.
OF_FILE = tuple(name for name, column in MEASUREMENTS.items() if column.of_file)
CARRIED = [name for name, column in MEASUREMENTS.items() if column.in_summary]
SUMMARY: dict[str, Column] = {
    **{name: MEASUREMENTS[name] for name in KEYS},
    **ROUND, **THROTTLE, **POOLED,
    **{name: MEASUREMENTS[name] for name in CARRIED},
}  # fmt: skip


def of_type(type_: Type) -> set[str]:
    """Return the names of the columns of a type, of both tables."""
    both = {**SUMMARY, **MEASUREMENTS}
    return {name for name, column in both.items() if column.type == type_}
