"""Tables and facts of the page of an advice: what was verified, predicted and probed, how long it took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from hyperslab import text as fmt
from hyperslab.report.data import CELL, Data
from hyperslab.report.model import Cell, Fact, Table, table
from hyperslab.report.numbers import spread
from hyperslab.results.comparisons import ALPHA

# A regret below this is that of the best itself.
NO_REGRET = 1.005


def verified(data: Data, prediction: Mapping[str, Any], site: str, choice: Mapping[str, Any]) -> Table | None:
    """Return what was measured, best first, with what had been predicted below each time."""
    if not choice.get("ranking"):
        return None
    foretold = {one["layout"]: one for one in prediction["sites"][site]["measured"]}
    reads = [read["name"] for read in prediction["reads"]]
    body = []
    for row in choice["ranking"]:
        one = foretold.get(row["layout"])
        times = {key.rpartition(" ")[0]: seconds for key, seconds in row["times"].items()}
        cells = [
            Cell(fmt.seconds(times.get(name)), f"predicted {fmt.seconds(one['times'][name])}" if one else "")
            for name in reads
        ]
        size = Cell(
            fmt.megabytes(row["file_bytes"]), f"predicted {fmt.megabytes(one['file_bytes'])}" if one else ""
        )
        behind = fmt.significant(row["to_best"]) if row["to_best"] else fmt.ABSENT
        spread = fmt.interval(row["low"], row["high"], choice.get("alpha", ALPHA))
        body.append(
            [Cell(row["layout"], _role(row, prediction)), *cells, size, _regret(row), Cell(behind, spread)]
        )
    columns = ["Layout", *(f"#{name}" for name in reads), "#File", "#Largest regret", "#Over the best"]
    note = (
        f"Measured at {site} in {_rounds(choice['ranking'])}, every value read compared. The largest "
        "regret is that of the read for which the layout is worst: its time over that of the best layout for "
        f"this read, where less than {fmt.seconds(choice['imperceptible_ms'] / 1e3)} counts as that. An "
        "interval is of its layout by itself, not adjusted for the number of layouts; which are tied with "
        "the best is."
    )
    return table("Layouts that were measured", columns, body, note, pick=choice.get("pick"))


def _role(row: Mapping[str, Any], prediction: Mapping[str, Any]) -> str:
    words = ["today's"] if row["layout"] == prediction["today"] else []
    return ", ".join([*words, *(["tied with the best"] if row["tied"] else [])])


def _regret(row: Mapping[str, Any]) -> Cell:
    """Return what a layout gives up most."""
    value = max(row["regrets"].values())
    if value < NO_REGRET:
        return Cell("none")
    return Cell(f"{fmt.significant(value)}x", row["worst"].rpartition(" ")[0])


def _rounds(ranking: Sequence[Mapping[str, Any]]) -> str:
    """Return in how many rounds layouts were measured, in words."""
    least, most = (pick(row["rounds"] for row in ranking) for pick in (min, max))
    if least == most:
        return fmt.count(least, "round")
    return f"{least} to {most} rounds, more where a layout could not be told from the best"


def predicted(prediction: Mapping[str, Any], here: Mapping[str, Any]) -> Table:
    """Return the best predictions."""
    reads = [read["name"] for read in prediction["reads"]]
    measured = {one["layout"] for one in here["measured"]}
    body = [
        [
            Cell(one["layout"], "measured" if one["layout"] in measured else ""),
            *(fmt.seconds(one["times"][name]) for name in reads),
            fmt.megabytes(one["file_bytes"]),
        ]
        for one in here["predicted"]
    ]
    note = (
        f"The best of {here['considered']:,} candidates by what their requests would take with the "
        "speeds that were probed. None of these times is measured."
    )
    if any("whole" in one for one in here["predicted"]):
        note += " Times and sizes are of the part that is measured; the order is that of the whole array."
    return table("Predicted", ["Layout", *(f"#{name}" for name in reads), "#File"], body, note, folded=True)


def _speed(value: float) -> str:
    return f"{fmt.significant(1e-6 / value)} MB/s"


# What was probed: its words, where it stands, and how it is said.
PROBED: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("Throttled to", "bytes_per_s", lambda value: _speed(1 / value)),
    ("One chunk through zarr-python", "zarr_chunk_s", fmt.seconds),
    ("One of many files written and removed", "file_s", fmt.seconds),
    ("One of many files dropped from the page cache", "evict_s", fmt.seconds),
    ("Bytes written and synced", "write_s", _speed),
    ("A cold read begins after", "latency_s", fmt.seconds),
    ("Bytes waited for", "waited_s", _speed),
    ("Bytes read ahead", "ahead_s", _speed),
    ("Bytes in memory", "cached_s", _speed),
    ("One chunk looked up", "lookup_s", fmt.seconds),
    ("One read of the library besides", "read_s", fmt.seconds),
    ("One run copied out of a chunk", "run_s", fmt.seconds),
    ("File and array opened", "open_s", fmt.seconds),
    ("The kernel reads ahead", "read_ahead_bytes", lambda value: fmt.megabytes(value, binary=True)),
    ("HDF5's chunk cache", "chunk_cache_bytes", lambda value: fmt.megabytes(value, binary=True)),
)


def probed(probes: Sequence[Mapping[str, Any]], rows: pd.DataFrame) -> list[Fact]:
    """Return the prices of the prediction, those of the first probe, between what they lay in all, and what a
    small read took beside the cells; `rows` are the repeats of the site that are not stale.
    """
    facts = []
    for words, key, said in PROBED:
        # A prediction of before may lack it.
        values = [value for probe in probes if (value := probe["storage"].get(key)) is not None]
        if not values:
            continue
        ends = [said(pick(values)) for pick in (min, max)]
        around = f" ({ends[0]} to {ends[1]} in {len(values)} probes)" if ends[0] != ends[1] else ""
        facts.append(Fact(words, said(values[0]) + around))
    return [*facts, *_disturbed(probes), *_beside(rows)]


def filters(here: Mapping[str, Any]) -> Table | None:
    """Return what filters made of samples of the data; None for a prediction of before, which lacks it."""
    body = [
        [
            Cell(one["filters"], "" if one["format"] == "hdf5" else one["format"]),
            fmt.size(one["chunk_bytes"]),
            fmt.significant(one["ratio"], 2),
            _speed(one["decode_s"]),
        ]
        for one in here.get("filters", [])
    ]
    if not body:
        return None
    note = (
        "Tried where the command ran, on samples of the array; the prediction takes what lies between these "
        "sizes, and tries the chunks of the best layouts themselves."
    )
    columns = ["Filters", "#Chunk", "#Stored over raw", "#Decoded"]
    return table("Filters, tried on the data", columns, body, note, folded=True)


def _disturbed(probes: Sequence[Mapping[str, Any]]) -> list[Fact]:
    """Return what disturbed the probes."""

    def told(values: Sequence[float | None]) -> str:
        known = [value for value in values if value is not None]
        return ", ".join(fmt.seconds(value) for value in known) if known else "not known here"

    stalls = [
        f"{name} {told([probe['pressure_s'].get(name) for probe in probes])}"
        for name in probes[0]["pressure_s"]
    ]
    return [
        Fact("Stolen by the host meanwhile", told([probe["steal_s"] for probe in probes])),
        Fact("Stalled meanwhile for want of", "; ".join(stalls)),
    ]


def _beside(rows: pd.DataFrame) -> list[Fact]:
    """Return what cells say of the storage while they were measured; nothing where none had a probe."""
    each = rows.drop_duplicates(CELL)["probe_read_s"].dropna()
    if each.empty:
        return []
    said = f"{spread(each)}, the median (and lowest to highest) of {fmt.count(len(each), 'cell')}"
    return [Fact("A direct read of 4 KiB beside the cells", said)]


def timeline(data: Data, prediction: Mapping[str, Any], ended: float) -> list[Fact]:
    """Return how long each step took, where all of it ended at `ended` (seconds since 1970)."""
    rows, spent = data.fresh, prediction["seconds"]
    facts = [
        Fact("Probe", fmt.duration(spent["probe"])),
        Fact("Read the values", fmt.duration(spent["read"])),
        Fact("Predict", fmt.duration(spent["predict"])),
    ]
    if len(rows):
        cells = rows.drop_duplicates(["site", "layout", "case", "round"])
        span = float(rows["ended_wall_s"].max() - rows["began_wall_s"].min())
        writing = min(span, float(cells["generate_s"].sum()))
        facts += [Fact("Write", fmt.duration(writing)), Fact("Verify", fmt.duration(span - writing))]
    facts.append(Fact("From the command to this page", fmt.duration(ended - prediction["began_wall_s"])))
    asked = "Asked for" if prediction["asked"].get("seconds") else "Meant to take, where nobody said"
    return [*facts, Fact(asked, fmt.duration(prediction["limit_s"]))]
