"""Columns of the tables, each declared once: its type, its unit, what it holds, and where it comes from.

MEASUREMENTS are those of measurements.parquet, one row a repeat; SUMMARY those of summary.csv, one row a
cell, state and round.
"""

from __future__ import annotations

from hyperslab.results.column import Column, Type, said_by_files, seconds, size, text, whole, yes_no
from hyperslab.results.comparisons import MIN_ROUNDS
from hyperslab.results.wire_columns import WIRE, WIRE_OF_FILES
from hyperslab.studies.case_kinds import KINDS

# What tells the rounds of cells apart.
_IDENTITY = {
    "site": text("name of the site (platform with file system)"),
    "layout": text("name of the layout"),
    "case": text("name of the case"),
    "kind": text(f"kind of the case: {', '.join(KINDS)}"),
    "phase": text("main (the study's rounds) or confirm (fresh rounds of the finalists)"),
    "round": whole("number of the round within its phase, from 0"),
    "state": text("cold, warm or session; library-cold where the file system lies in memory; write"),
}
_TIMES = {
    "time_s": seconds("the operation: the selection, or create to fsync of a write"),
    "open_s": seconds(
        "to open file and array before the selection (first of an open file; of several processes the "
        "slowest); a server has been started before, and files of a collection are opened within time_s"
    ),
    "close_s": seconds("to close the file"),
    "first_picture_s": seconds(
        "until the coarsest level of a view is there, opening included where the file is cold (resolution); "
        "time_s and all counts of such a case are the sums over its levels"
    ),
    "fetch_s": seconds(
        "to copy all files before they are opened, apart from the time (summaries of fetched files)"
    ),
    "plain_read_s": seconds(
        "a plain read of all the files, as cold, by a process that does nothing else, in turn before and "
        "after the operation (cold summaries of everything)"
    ),
    "create_s": seconds("to create file and array (writes)"),
    "write_s": seconds("inside the write calls (writes)"),
    "total_s": seconds("from create to close, without fsync: open, write and close of the sources (writes)"),
    "calls": Column("number of calls that write_s adds up, of objects those of one object each"),
    "call_mean_s": seconds("mean of one of these calls"),
    "call_median_s": seconds("median of one of these calls"),
    "call_max_s": seconds("longest of these calls"),
    "answer_median_s": seconds("until a request was answered, median of all clients' (clients)"),
    "answer_p95_s": seconds("within which 95 % of the requests were answered (clients)"),
    "answer_max_s": seconds("until the slowest request was answered (clients)"),
    "flush_s": seconds("to flush the library's buffers (writes)"),
    "fsync_s": seconds("fsync after closing (writes)"),
    "order_s": seconds("of the slowest rank to put samples in order (sub-volumes)"),
    "exchange_s": seconds("of the slowest rank to send samples to those who write them (sub-volumes)"),
    "file_writes_s": seconds(
        "of the slowest rank inside calls that write into files; an aggregator's thread makes them while the "
        "next samples are put in order and exchanged (sub-volumes that tell them apart)"
    ),
    "coarse_levels_s": seconds(
        "to write levels 0 to 6, each by its slowest rank (sub-volumes that are written level by level)"
    ),
    "levels_s": seconds("to write all levels, added up likewise (the same sub-volumes)"),
    "time_by_level": text("the seconds of each level from 0, with spaces between (the same sub-volumes)"),
    "reference_s": seconds("a plain write and fsync of the same bytes, in turn before and after (writes)"),
    "discarded_reference_s": seconds(
        "a cell's first plain write, which finds no warm memory and is in no ratio (writes)"
    ),
}
_COUNTS = {
    "asked_bytes": size("of the selection, or of the array written"),
    "rows": Column("number of rows read or written (ragged rows)"),
    "files_touched": Column(
        "number of files, of a collection or of an IDX dataset, that the selection touches, by arithmetic"
    ),
    "levels_touched": Column(
        "number of levels that hold the selection's elements, by arithmetic (IDX; the coarsest has one)"
    ),
    "chunks_touched": Column("number of chunks that the selection touches, by arithmetic"),
    "chunks_shared": Column("number of chunks among them that more than one worker reads (reductions)"),
    "chunk_bytes": size("stored for those chunks (for the selection, where contiguous), by arithmetic"),
    "requested_bytes": size("that the library asked the kernel for (rchar)"),
    "requested_reads": Column("number of read calls of the library (syscr)"),
    "requested_predicted_bytes": size(
        "what requested_bytes should be, index included; empty if not predictable"
    ),
    "first_requested_bytes": size(
        "that the library asked the kernel for to read the first picture, without opening (resolution)"
    ),
    "first_requested_predicted_bytes": size(
        "what first_requested_bytes should be; empty if not predictable (resolution)"
    ),
    "first_device_bytes": size("that came from the device for them (resolution)"),
    "levels": text(
        "each level of a view as JSON, coarsest first: level, time_s, counts; of the first view of a cell "
        "some have a small picture (resolution)"
    ),
    "requested_predicted_reads": Column("what requested_reads should be; empty if not predictable"),
    "rewritten_predicted_bytes": size(
        "that a write reads and writes once more because its calls cover only parts of what the format "
        "writes whole (a chunk or shard), before codecs; empty where there are none"
    ),
    "device_bytes": size(
        "that came from the device (read_bytes), read-ahead included; empty where the kernel does not count "
        "them for the process (FUSE, network file systems, images that are cached themselves)"
    ),
    **WIRE,
    "written_bytes": size("that the library handed to the kernel (wchar)"),
    "written_device_bytes": size(
        "that are to reach the device (write_bytes less cancelled_write_bytes): whole pages, each once "
        "however often it is written before that; empty where device_bytes are"
    ),
    "server_requested_bytes": size("of requested_bytes, those of the server's processes"),
    "server_device_bytes": size("of device_bytes, those of the server's processes"),
    "server_written_bytes": size("of written_bytes, those of the server's processes"),
    "server_memory_bytes": size(
        "largest resident memory of each process of the server up to then, summed; empty without a server"
    ),
    "requested_writes": Column("number of write calls of the library (syscw)"),
    "opens": Column("number of times that ranks made or opened files of data (sub-volumes)"),
    "most_opens": Column(
        "number of times that one rank opened the same file to write into it, at most (sub-volumes)"
    ),
    "opens_by_rank": text("opens of each rank, with spaces between (sub-volumes)"),
    "writes_by_rank": text("requested_writes of each rank, likewise (sub-volumes)"),
    "written_by_rank": text("written_bytes of each rank, likewise (sub-volumes)"),
    "requests": Column("number of requests of all clients together that were answered (clients)"),
    "errors": Column("number of requests that failed, most of which were made again (clients)"),
    "refused": Column(
        "number of requests that a server turned away as often as they were made; their time is in time_s "
        "and in no latency (clients)"
    ),
    "fairness": Column("requests a second of the fastest client over those of the slowest (clients)"),
    "processes": Column(
        "number of worker processes or MPI ranks that did the operation together; empty for a single process"
    ),
    "physical_cores": Column("number of physical cores within their reach"),
    "nodes": text("names of the nodes on which workers or ranks ran, with spaces between; else empty"),
    "in_force": text(
        "what the library says its last call was, and hints to MPI-IO as read back (parallel cases)"
    ),
    "resident_before": Column("share of the file in the page cache before the operation, 0 to 1"),
    "resident_after": Column("share of the file in the page cache after the operation, 0 to 1"),
    "free_list_bytes": size("that the library's free lists held after the operation (objects)"),
    "metadata_hit_rate": Column("share of accesses that the library's metadata cache served, 0 to 1 (rows)"),
    "metadata_cache_bytes": size("that the metadata cache held after the operation (rows)"),
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
    "latency_median_s": seconds(
        "from the begin of a row's append until a reader had its values, median of all rows (followed rows)"
    ),
    "latency_p99_s": seconds("the same, of which 99 % of the rows have no more (followed rows)"),
    "latency_max_s": seconds("the same of the latest row (followed rows)"),
    "followed_share": Column(
        "share of the rows that readers had before the last append returned, 0 to 1 (followed rows)"
    ),
    "looks": Column("number of times that readers looked at the file anew (followed rows)"),
    "grown_bytes": size("by which the file became longer when rows were replaced (rows)"),
    "garbage_collections": Column("number of calls of H5garbage_collect during the operation (objects)"),
}
_FLAGS = {
    "throttled_s": seconds(
        "that the site's limit alone would take for device_bytes; for a write the smaller of written_bytes "
        "and written_device_bytes, in older records written_bytes; empty where nothing is throttled"
    ),
    "throttle_artefact": yes_no(
        "the cell's repeats in this state need less than 0.1 s at the limit in the median: most went at the "
        "speed of bursts; of cold reads and writes the mean stands for them"
    ),
    "noisy": yes_no("a probe before or after the cell lay beyond max(5 MAD, 25 %) of its site's median"),
    "overlap": yes_no("another timed job ran on this node or file system meanwhile"),
    "stale": yes_no(
        "measured under another specification than today's, or under a protocol whose results do not count "
        "(any more, or beside today's of the same case and round); left out of all results"
    ),
    "older_protocol": Column(
        "number of the timing protocol where it is an older one than today's and the results count all the "
        "same; empty under today's"
    ),
}
_FILES = said_by_files(
    {
        "file_bytes": size("size of the test file, or of all files of a directory", in_summary=True),
        "files": Column("number of files in which the array lies", in_summary=True, before=1),
        "folders": Column(
            "number of directories among them, the outermost one included (formats of many files)"
        ),
        "data_bytes": size("of the array in the file (after filters, where there are any)", in_summary=True),
        "padding_bytes": size("of edge chunks outside the array, as stored", in_summary=True),
        "padding_predicted_bytes": size("the same by arithmetic"),
        "index_bytes": size(
            "of the chunk index, or of the indexes of shards, as the file says", in_summary=True
        ),
        "index_predicted_bytes": size("the same by arithmetic; empty where not predictable", in_summary=True),
        "remainder_bytes": size("what is left of the file: headers, groups, free space", in_summary=True),
        "pyramid_bytes": size(
            "stored for coarser levels beside the array, their indexes apart; empty where there are none"
        ),
        "pyramid_predicted_bytes": size("the same by arithmetic; empty where not predictable"),
        "lengths_bytes": size("of the index: lengths of rows; empty where none are stored (rows)"),
        "offsets_bytes": size("of the index: offsets of rows, or offsets and lengths (rows)"),
        "references_bytes": size("of the index: references into the global heap (rows)"),
        "heap_bytes": size("of the collections of the global heap, free space in them included (rows)"),
        "heap_collections": Column("number of collections of the global heap (rows)"),
        "row_pieces": Column(
            "number of pieces of the file in which the rows of the first dataset lie, one behind the other; "
            "gaps of up to 4 KiB are none; empty where the file does not tell (rows in HDF5)"
        ),
        "extents": Column(
            "number of extents of the file on its device (FIEMAP); empty where the file system does not tell "
            "(rows in HDF5)"
        ),
        "lost_bytes": size("that no row refers to any more, and that no row can take again (rows)"),
        **WIRE_OF_FILES,
        "metadata_bytes": size(
            "of the remainder in a file of its own that describes the array, such as zarr.json; empty where "
            "there is none"
        ),
        "chunks": Column("number of chunks in the file (0: contiguous)", in_summary=True),
        "chunks_predicted": Column("the same by arithmetic; empty where some hold nothing and are left out"),
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
    "format": text("format of the layout, such as hdf5 or zarr"),
    "chunk_shape": text("chunk extents in array order, such as 4x4x2048, or contiguous", in_summary=True),
    "filters": text("filters in order, with their parameter", in_summary=True),
    "grid_m": Column("value of the grid's first variable", in_summary=True),
    "grid_n": Column("value of the grid's second variable", in_summary=True),
}
_PLACE = {
    "generate_s": seconds("in which the test file was made (a shortcut, not a write time)"),
    "writer": text("how the test file was made: plain, or by which shortcut"),
    "probe_compute_s": seconds("the slower of the two fixed computations around the cell"),
    "probe_read_s": seconds("the slower of the two median direct 4 KiB reads around the cell"),
    "node": text("node that read (and, for writes, wrote)"),
    "writer_node": text("node that wrote the test file"),
    "peak_memory_bytes": size(
        "largest resident memory of the measuring process and of each of its workers, clients or ranks, "
        "summed; that of what made the test file, with its workers, where that is more"
    ),
    "attempt": Column("how often the scheduler had restarted the job"),
    "began_boottime_s": seconds("boot-time clock at the cell's start, writer included"),
    "ended_boottime_s": seconds("boot-time clock at the cell's end"),
    "began_wall_s": seconds("since 1970 at the cell's start, writer included"),
    "ended_wall_s": seconds("since 1970 at the cell's end"),
    "boot_id": text("boot of the node, without which boot-time clocks cannot be compared"),
    "shared_root": text("root that other nodes see, too; empty where it is the node's own"),
}
MEASUREMENTS: dict[str, Column] = {
    "study": text("name of the study"),
    **_IDENTITY,
    "repeat": whole("number of the repeat within cell, round and state, from 0"),
    **_TIMES, **_COUNTS, **_FLAGS, **_FILES, **_LAYOUT, **_PLACE,
}  # fmt: skip

# Statistics of one round.
ROUND: dict[str, Column] = {
    "n": whole("number of repeats in the round"),
    "min_s": seconds("smallest of the round's repeats"),
    "q1_s": seconds("first quartile of the round's repeats (linear interpolation)"),
    "median_s": seconds("median of the round's repeats"),
    "q3_s": seconds("third quartile of the round's repeats (linear interpolation)"),
    "mean_s": seconds("mean of the round's repeats"),
    "max_s": seconds("largest of the round's repeats"),
    "first_access_s": seconds(
        "request_s of cold states: the file is evicted, opened, and one selection is read"
    ),
    "first_selection_s": seconds("of a session: its first selection (repeat 0), without opening"),
    "typical_s": seconds(
        "what stands for the round: the median; of sessions the geometric mean; of throttled cold reads and "
        "writes the mean, and at least what the limit alone takes"
    ),
    "request_s": seconds(
        "what a request waits for: typical_s, of cold selections with copying and opening; of several "
        "clients the median of their requests"
    ),
}
THROTTLE: dict[str, Column] = {
    "throttled_s": seconds("that the site's limit alone would take for all repeats; empty without one"),
    "throttle_artefact": MEASUREMENTS["throttle_artefact"],
}
# Statistics of a cell over its rounds.
POOLED: dict[str, Column] = {
    "rounds": whole("number of rounds of this layout, case, phase and state"),
    "pooled_median_s": seconds("geometric mean of the rounds' typical_s"),
    "pooled_low_s": seconds(f"lower end of its 95 % interval; empty under {MIN_ROUNDS} rounds"),
    "pooled_high_s": seconds(f"upper end of its 95 % interval; empty under {MIN_ROUNDS} rounds"),
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
