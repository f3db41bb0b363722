"""Ragged rows in numbers: what leads to them, the heap, the caches, and the spans of the source."""

from __future__ import annotations

from hyperslab import text as fmt
from hyperslab.report.data import Data, medians
from hyperslab.report.model import Table, table
from hyperslab.studies import case_kinds
from hyperslab.studies.summary import case_title, in_order

COUNTS = (
    "references_bytes", "lengths_bytes", "offsets_bytes", "heap_bytes", "heap_collections", "lost_bytes",
    "grown_bytes", "row_pieces", "extents",
)  # fmt: skip
CACHES = (
    "metadata_hit_rate", "metadata_cache_bytes", "page_buffer_meta_hit_rate", "page_buffer_raw_hit_rate",
)  # fmt: skip
# Of rows that readers follow -> the heading; such columns are there where a study has them.
FOLLOWED = {
    "rows_a_second": "#Rows a second", "latency_median_s": "#Latency, median",
    "latency_p99_s": "#Latency, 99 %", "latency_max_s": "#Latency, longest",
    "followed_share": "#Read before the end",
}  # fmt: skip
NOTE = (
    "Medians over all repeats. To close: the calls added up, and what follows them to the close of the file, "
    "as the source timed it. References, lengths and offsets lead to rows; the heap is that of HDF5's "
    "variable-length type, free space in its collections included; lost bytes belong to no row. Pieces are "
    "those of the file in which the rows of the first dataset lie, with more than 4 KiB of something else "
    "between them; extents are those of the whole file on its device. Hit rates are those of the library's "
    "metadata cache and page buffer, at the end of the operation."
)
FOLLOWED_NOTE = (
    " Latency is the time from the begin of a row's append until a reader beside had its values; read before "
    "the end are the rows that readers had when the last append returned."
)


def rows_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return one row a case, state and layout of cases of ragged rows; None where there are none."""
    rows = data.main(site)
    rows = rows[rows["kind"].isin(case_kinds.names(lambda kind: kind.data_model == "rows"))]
    if rows.empty:
        return None
    write = rows["state"] == "write"
    calls = rows["write_s"].where(write, rows["time_s"])
    span = calls + rows["flush_s"].where(write, 0.0) + rows["close_s"]
    rows = rows.assign(calls_s=calls, span_s=span)
    names = ["rows", "calls", "calls_s", "span_s", "written_bytes", "requested_writes", *COUNTS, *CACHES]
    followed = [name for name in FOLLOWED if rows[name].notna().any()]
    names += followed
    middle = medians(rows, ["case", "state", "layout"], names)
    body = []
    for case in in_order(set(rows["case"]), data.study["cases"]):
        for state in dict.fromkeys(rows["state"][rows["case"] == case]):
            here = rows[(rows["case"] == case) & (rows["state"] == state)]
            for layout in in_order(set(here["layout"]), data.study["layouts"]):
                entry = middle.loc[(case, state, layout)]
                body.append([
                    layout, case_title(data.study, case), state, fmt.whole(entry["rows"]),
                    fmt.whole(entry["calls"]), fmt.seconds(entry["calls_s"]), fmt.seconds(entry["span_s"]),
                    fmt.seconds(entry["calls_s"] / entry["rows"]), fmt.whole(entry["requested_writes"]),
                    *(fmt.whole(entry[name]) for name in COUNTS),
                    fmt.percent(entry[CACHES[0]]), fmt.whole(entry[CACHES[1]]),
                    *(fmt.percent(entry[name]) for name in CACHES[2:]),
                    *(_followed(name, entry[name]) for name in followed),
                ])  # fmt: skip
    columns = ["Layout", "Case", "State", "#Rows", "#Calls", "#Time of the calls", "#To close", "#A row",
               "#Writes", "#References, bytes", "#Lengths, bytes", "#Offsets, bytes", "#Heap, bytes",
               "#Heap collections", "#Lost, bytes", "#Grown, bytes", "#Pieces in the file",
               "#Extents on disk", "#Metadata cache hits", "#Metadata cache, bytes",
               "#Page buffer hits, metadata", "#Page buffer hits, raw data",
               *(FOLLOWED[name] for name in followed)]  # fmt: skip
    note = NOTE + FOLLOWED_NOTE * bool(followed)
    return table("Ragged rows", columns, body, note, folded=len(body) > 12, pick=pick)


def _followed(name: str, value: float) -> str:
    """Return a column of followed rows in words: a share, a number a second, or a time."""
    if name.endswith("_share"):
        return fmt.percent(value)
    return fmt.whole(value) if name.endswith("_second") else fmt.seconds(value)
