"""What a comparison can look at: which columns of a repeat, and how a round's repeats become one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Take = Literal["median", "mean", "geometric mean", "max", "min"]


@dataclass(frozen=True)
class Quantity:
    """The sum of `columns` in each repeat, and what is taken of a round's repeats; `state` is the only one in
    which it is taken, where it is not one of any state. Those `of_file` are of the file alone, in no state.

    A time has intervals from rounds, and so has what is `of_times`, whatever its unit. Anything else is
    `exact`: a count that has the value it has, whose range over the rounds is shown where they differ.
    """

    columns: tuple[str, ...]
    take: Take
    title: str
    unit: str = "s"
    writes_only: bool = False
    state: str | None = None
    of_file: bool = False
    of_times: bool = False

    @property
    def exact(self) -> bool:
        """Whether it is counted rather than timed."""
        return self.unit != "s" and not self.of_times

    @property
    def of_device(self) -> bool:
        """Whether it is of the device below a file system."""
        return any("device" in column for column in self.columns)


def _write(title: str, *columns: str) -> Quantity:
    return Quantity(columns, "median", title, writes_only=True)


def _count(column: str, unit: str, title: str) -> tuple[str, Quantity]:
    return column, Quantity((column,), "median", title, unit)


def _of_file(column: str, unit: str, title: str) -> tuple[str, Quantity]:
    return column, Quantity((column,), "median", title, unit, of_file=True)


# Which span of a write its source timed decides which of them a claim names.
QUANTITIES: dict[str, Quantity] = {
    "geometric_mean": Quantity(("time_s",), "geometric mean", "geometric mean"),
    "median": Quantity(("time_s",), "median", "median"),
    # Evict, open, select.
    "first_access": Quantity(("open_s", "time_s"), "median", "first access", state="cold"),
    "answer_requests": Quantity(
        ("open_requests", "wire_requests"), "median", "requests of an answer, opening included", "",
        state="cold",
    ),
    "first_picture": Quantity(("first_picture_s",), "median", "time to the first picture"),
    "max": Quantity(("time_s",), "max", "maximum"),
    "mean": Quantity(("time_s",), "mean", "mean"),
    "min": Quantity(("time_s",), "min", "minimum"),
    "durable": _write("create to fsync", "time_s"),
    "write_calls": _write("write calls", "write_s"),
    "open_to_close": _write("create to close", "create_s", "write_s", "flush_s", "close_s"),
    "flush_and_close": _write("flush and close", "flush_s", "close_s"),
    "create": _write("create", "create_s"),
    "order": _write("to put samples in order", "order_s"),
    "file_writes": _write("inside file writes", "file_writes_s"),
    "coarse_levels": _write("levels 0 to 6", "coarse_levels_s"),
    "all_levels": _write("all levels", "levels_s"),
    # Summaries of files that are copied first: the copying alone, and with what follows it.
    "fetch": Quantity(("fetch_s",), "median", "copying of all files"),
    "fetch_to_last": Quantity(("fetch_s", "open_s", "time_s"), "median", "copying, opening and summaries"),
    "plain_read": Quantity(("plain_read_s",), "median", "a plain read of the same files", state="cold"),
    "answer": Quantity(("answer_median_s",), "median", "time to an answer"),
    "answer_p95": Quantity(("answer_p95_s",), "median", "time within which 95 % are answered"),
    "call_mean": _write("mean of a call", "call_mean_s"),
    "read_to_close": Quantity(("time_s", "close_s"), "median", "first read to close"),
    "fairness": Quantity(("fairness",), "median", "fastest over slowest client", "ratio", of_times=True),
    "latency": _write("from a row's append to its reading, median", "latency_median_s"),
    "write_to_close": _write("first write to close", "write_s", "flush_s", "close_s"),
    **dict([
        _count("asked_bytes", "bytes", "bytes asked for"),
        _count("chunks_touched", "", "chunks touched"),
        _count("chunk_bytes", "bytes", "bytes of the chunks touched"),
        _count("requested_bytes", "bytes", "bytes requested from the kernel"),
        _count("first_requested_bytes", "bytes", "bytes requested for the first picture"),
        _count("first_device_bytes", "bytes", "bytes from the device until the first picture"),
        _count("requested_reads", "", "reads requested from the kernel"),
        _count("device_bytes", "bytes", "bytes from the device"),
        _count("written_bytes", "bytes", "bytes written to the kernel"),
        _count("requested_writes", "", "writes requested from the kernel"),
        _count("requests", "", "requests of all clients"),
        _count("errors", "", "requests that failed"),
        _count("server_memory_bytes", "bytes", "memory of the server"),
        _count("wire_requests", "", "requests to the object store"),
        _count("wire_bytes", "bytes", "bytes from the object store"),
        _count("server_requested_bytes", "bytes", "bytes that the server requested"),
        _count("opens", "", "files opened"),
        _count("most_opens", "", "opens of the same file by one rank"),
        _count("free_list_bytes", "bytes", "bytes in the library's free lists"),
        _of_file("ratio_raw", "ratio", "compression ratio to the array"),
        _of_file("ratio_padded", "ratio", "compression ratio to whole chunks"),
        _of_file("file_bytes", "bytes", "file size"),
        _of_file("data_bytes", "bytes", "bytes of the array in the file"),
        _of_file("padding_bytes", "bytes", "padding"),
        _of_file("index_bytes", "bytes", "chunk index"),
        _of_file("pyramid_bytes", "bytes", "bytes of coarser levels beside the array"),
        _of_file("remainder_bytes", "bytes", "other bytes of the file"),
        _count("heap_bytes", "bytes", "bytes of the global heap"),
        _count("row_pieces", "", "pieces of the file that hold a dataset's rows"),
        _count("extents", "", "extents of the file on its device"),
        _count("grown_bytes", "bytes", "bytes by which the file grew"),
        _count("lost_bytes", "bytes", "bytes that no row refers to"),
        _count("metadata_hit_rate", "ratio", "hit rate of the metadata cache"),
        _count("metadata_cache_bytes", "bytes", "bytes in the metadata cache"),
        _count("page_buffer_raw_hit_rate", "ratio", "hit rate of the page buffer, raw data"),
        _count("page_buffer_meta_hit_rate", "ratio", "hit rate of the page buffer, metadata"),
        _of_file("chunks", "", "chunks in the file"),
    ]),
}  # fmt: skip
