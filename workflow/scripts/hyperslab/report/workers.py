"""The numbers of cases that several workers carry out: speed-up of reductions, rates of parallel access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Cell, Table, table
from hyperslab.results.scaling import against, speedups
from hyperslab.results.statistics import round_words
from hyperslab.states import STATES
from hyperslab.studies.case_kinds import families, kind_of, shown_by
from hyperslab.studies.case_kinds.workers import API_NAMES, WORKERS, interface_of, way_of
from hyperslab.studies.summary import case_title, in_order

# Parts of a write by ranks, as columns.
PHASES = ("create", "order", "exchange", "file_writes", "write")
# Figures of the same cases.
SPEEDUP, RATES = "speedup", "parallel"
BEYOND = "beyond the physical cores: not claimed"


def speedup_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return the mean time and speed-up of every reduction by layout, state and number of workers."""
    rows, summary = data.main(site), data.summary_of(site)
    body = []
    for family, teams in families(data.study["cases"], SPEEDUP).items():
        for by, counts in teams.items():
            chosen = rows[rows["case"].isin(counts.values())]
            for layout in in_order(set(chosen["layout"]), data.study["layouts"]):
                for state in in_order(set(chosen["state"]), STATES):
                    here = chosen[(chosen["layout"] == layout) & (chosen["state"] == state)]
                    own = summary[(summary["layout"] == layout) & (summary["state"] == state)]
                    body += _speedups([_common(data, counts, family), layout, state], by, counts, here, own)
    if not body:
        return None
    columns = ["Reduction", "Layout", "State", "#Workers", "#Mean ± standard deviation", "#Repeats",
               "#Speed-up", "#Efficiency", "#Over a plain read", "#Chunks read by two",
               "#Requested"]  # fmt: skip
    reduced = rows[rows["case"].isin(shown_by(data.study["cases"], SPEEDUP))]
    note = (
        f"Times over all repeats of all rounds. Speed-up: ratio of the rounds' {round_words(reduced)} to the "
        "fewest workers, with its 95 % interval, adjusted over the numbers of workers; efficiency: speed-up "
        "over how many times more workers there are. Over a plain read: opening and reduction over the time "
        "in which one process that does nothing else reads all files, as cold, in turn with it; geometric "
        "mean over all repeats."
    )
    return table("Speed-up", columns, body, note, folded=len(body) > 16, pick=pick)


def _common(data: Data, counts: Mapping[int, str], family: str) -> str:
    """Return what the titles of a family's cases begin with."""
    return _without_workers(str(data.study["cases"][next(iter(counts.values()))].get("title") or family))


def _without_workers(title: str) -> str:
    """Return the title of a case of several workers without how many they are, with which it ends."""
    return title.rpartition(", ")[0] or title


def _speedups(
    leading: list[Any], by: str, counts: Mapping[int, str], rows: pd.DataFrame, summary: pd.DataFrame
) -> list[list[Any]]:
    """Return one row a number of workers."""
    gains = speedups(summary, counts).set_index("case")
    fewest, body = min(counts), []
    for workers, case in sorted(counts.items()):
        times = rows["time_s"][rows["case"] == case]
        if times.empty:
            continue
        middle = rows[rows["case"] == case][["chunks_shared", "requested_bytes", "physical_cores"]].median()
        word = WORKERS[by][1 if workers == 1 else 2]
        mean, sd = fmt.seconds(times.mean()), fmt.seconds(times.std())
        gain, efficiency = Cell(fmt.ABSENT), fmt.ABSENT
        plain = _over_plain(rows[rows["case"] == case])
        if case in gains.index:
            entry = gains.loc[case]
            note = fmt.interval(entry.get("low"), entry.get("high"))
            beyond = workers > middle["physical_cores"]
            gain = Cell(
                fmt.significant(entry["ratio"]), BEYOND if beyond else note, "muted" if beyond else ""
            )
            efficiency = fmt.percent(entry["ratio"] * fewest / workers, 0)
        body.append([
            *leading, Cell(f"{workers} {word}", _where(rows[rows["case"] == case])),
            f"{mean} ± {sd}" if len(times) > 1 else mean, len(times), gain, efficiency,
            fmt.significant(plain), fmt.whole(middle["chunks_shared"]),
            fmt.megabytes(middle["requested_bytes"]),
        ])  # fmt: skip
    return body


def _where(rows: pd.DataFrame) -> str:
    """Return on which nodes workers ran, where that was more than one."""
    names = sorted({name for nodes in rows["nodes"].unique() for name in nodes.split()})
    return f"on {', '.join(names)}" if len(names) > 1 else ""


def _over_plain(rows: pd.DataFrame) -> float:
    """Return how many times as long as a plain read of the same files opening and reduction take."""
    ratios = (rows["open_s"] + rows["time_s"]) / rows["plain_read_s"]
    return float(np.exp(np.log(ratios.dropna()).mean()))


def parallel_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return the bytes per second of every parallel case: durable writes, write calls alone,
    cold and warm reads.
    """
    cases = {name: case for name, case in shown_by(data.study["cases"], RATES).items() if interface_of(case)}
    rows, summary = data.main(site), data.summary_of(site)
    rows = rows[rows["case"].isin(cases)]
    if rows.empty:
        return None
    states = in_order(set(rows["state"]) - {"write"}, STATES)
    body = []
    for name, case in cases.items():
        mine = rows[rows["case"] == name]
        for layout in in_order(set(mine["layout"]), data.study["layouts"]):
            here = mine[mine["layout"] == layout]
            own = summary[(summary["layout"] == layout)]
            cores = here["physical_cores"].median()
            asked = here["asked_bytes"].median()
            ranks = Cell(str(case["workers"]), "beyond the physical cores" if case["workers"] > cores else "")
            calls = here["write_s"].median()
            access = Cell(_access(case), next(iter(here["in_force"]), ""))
            body.append([
                access, API_NAMES[case["parallel"]["api"]], ranks, layout, fmt.megabytes(asked),
                _rate(own, name, "write", asked), Cell(_per_second(asked, calls)),
                *(_rate(own, name, state, asked) for state in states),
                *(_mpiio(own, cases, name, state) for state in ("write", *states[:1])),
            ])  # fmt: skip
    columns = ["Access", "Interface", "#Ranks", "Layout", "#Bytes", "#Durable write", "#Write calls alone",
               *(f"#Read {state}" for state in states), "#MPI-IO, durable write, is",
               *(f"#MPI-IO, read {state}, is" for state in states[:1])]  # fmt: skip
    note = (
        f"Rates from the geometric mean of the rounds' {round_words(rows)}, with its 95 % interval; write "
        "calls alone: median over all repeats, into the page cache. The last columns compare with MPI-IO for "
        "the same access and ranks."
    )
    return table("Rates of parallel access", columns, body, note, folded=len(body) > 24, pick=pick)


def subvolumes_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return how ranks have written their sub-volumes: rates, phases, files opened and calls."""
    cases = {name: case for name, case in data.study["cases"].items() if way_of(case)}
    rows, summary = data.main(site), data.summary_of(site)
    rows = rows[rows["case"].isin(cases)]
    if rows.empty:
        return None
    body = []
    for name, case in cases.items():
        title, way = kind_of(case).apart(case, case_title(data.study, name))
        mine = rows[rows["case"] == name]
        for layout in in_order(set(mine["layout"]), data.study["layouts"]):
            here = mine[mine["layout"] == layout]
            middle = here.median(numeric_only=True)
            beyond = "beyond the physical cores" if case["workers"] > middle["physical_cores"] else ""
            beside = ", ".join(filter(None, (_where(here), beyond)))
            twins = _plain_twins(cases, case)
            own = summary[summary["layout"] == layout]
            if not own["case"].isin(twins).any():
                # The same bytes in no order are those of any layout.
                others = summary[summary["case"].isin(twins)]
                own = pd.concat([own, others.drop_duplicates(["case", "round", "state"])])
            share = middle["coarse_levels_s"] / middle["write_s"]
            body.append([
                _without_workers(title), way, Cell(str(case["workers"]), beside), layout,
                fmt.megabytes(middle["asked_bytes"]),
                _rate(own, name, "write", middle["asked_bytes"]), _compared(own, name, "write", twins),
                *(fmt.seconds(middle[f"{phase}_s"]) for phase in PHASES),
                fmt.percent(share, 1) if share == share else fmt.ABSENT,
                Cell(fmt.whole(middle["opens"]), _by_rank(here["opens_by_rank"], fmt.whole)),
                Cell(fmt.whole(middle["requested_writes"]), _by_rank(here["writes_by_rank"], fmt.whole)),
                Cell(
                    fmt.megabytes(middle["written_bytes"]), _by_rank(here["written_by_rank"], fmt.megabytes)
                ),
            ])  # fmt: skip
    columns = ["Sub-volumes", "Way", "#Ranks", "Layout", "#Bytes", "#Durable write", "#Plain MPI-IO is",
               "#Create", "#Order", "#Exchange", "#File writes", "#Write", "#Levels 0 to 6",
               "#Files made and opened", "#Write calls", "#Bytes written",
    ]  # fmt: skip
    durable = round_words(rows[rows["state"] == "write"])
    note = (
        f"Durable write: from the geometric mean of the rounds' {durable}, with its 95 % interval. Plain "
        "MPI-IO: as many ranks that write as large an array, of the same case or else of another. Order, "
        "exchange and file writes are parts of the write, those of the slowest rank; where they are more "
        "than the write in all, they overlap. Times, files, calls and bytes are medians over all repeats; "
        "under counts stand the least and the most of a rank. Levels 0 to 6: their share of the write, where "
        "levels are written in turn."
    )
    return table("Sub-volumes written by ranks", columns, body, note, folded=len(body) > 24, pick=pick)


def _plain_twins(cases: Mapping[str, Mapping[str, Any]], case: Mapping[str, Any]) -> list[str]:
    """Return the plain cases of as many ranks and as large an array: of a case's family, else the first."""
    plain = [
        name for name, one in cases.items()
        if way_of(one) == "plain" and one["workers"] == case["workers"] and one["shape"] == case["shape"]
    ]  # fmt: skip
    return [name for name in plain if cases[name]["family"] == case["family"]] or plain[:1]


def _by_rank(told: pd.Series, words: Callable[[float], str]) -> str:
    """Return the least and the most of what ranks count, as the last repeat has them; "" where none does."""
    known = [text for text in told.fillna("").astype(str) if text]
    counts = [int(one) for one in known[-1].split()] if known else []
    if len(counts) < 2:
        return ""
    low, high = words(min(counts)), words(max(counts))
    return f"{low} a rank" if low == high else f"{low} to {high} a rank"


def _access(case: Mapping[str, Any]) -> str:
    """Return how a parallel case reaches its bytes, in words."""
    asked = case["parallel"]
    blocks = f"interleaved blocks of {_size(asked['block'])}" if asked["interleaved"] else "contiguous"
    hints = ", ".join(f"{name} {value}" for name, value in asked["hints"].items())
    words = [
        "collective" if asked["collective"] else "independent",
        blocks,
        f"{asked['datasets']} x {_size(asked['bytes'])} a rank",
        f"{_size(asked['transfer'])} a call",
    ]
    return ", ".join([*words, hints] if hints else words)


def _size(value: int) -> str:
    """Return a size in binary units."""
    for unit, scale in (("MiB", 2**20), ("KiB", 2**10)):
        if value % scale == 0:
            return f"{value // scale} {unit}"
    return f"{value} B"


def _per_second(volume: float, seconds: float) -> str:
    """Return a rate in MB (10^6) per second."""
    return f"{fmt.significant(volume / seconds / 1e6)} MB/s" if seconds > 0 else fmt.ABSENT


def _rate(summary: pd.DataFrame, case: str, state: str, volume: float) -> Cell:
    """Return the rate of a cell over its rounds, with its interval."""
    found = summary[(summary["case"] == case) & (summary["state"] == state)]
    if found.empty:
        return Cell(fmt.ABSENT)
    entry = found.iloc[0]
    low, high = (volume / entry[name] / 1e6 for name in ("pooled_high_s", "pooled_low_s"))
    return Cell(_per_second(volume, entry["pooled_median_s"]), fmt.interval(low, high))


def _mpiio(summary: pd.DataFrame, cases: Mapping[str, Mapping[str, Any]], name: str, state: str) -> Cell:
    """Return how MPI-IO compares with a case of the same family and as many ranks."""
    mine = cases[name]
    twins = [
        other
        for other, case in cases.items()
        if (case["family"], case["workers"], case["parallel"]["api"])
        == (mine["family"], mine["workers"], "mpiio")
    ]
    return _compared(summary, name, state, twins)


def _compared(summary: pd.DataFrame, name: str, state: str, twins: list[str]) -> Cell:
    """Return how a case compares with another of the same family and as many ranks."""
    if name in twins:
        return Cell("itself", "", "muted")
    found = against(summary[summary["state"] == state], name, twins)
    if found.empty:
        return Cell(fmt.ABSENT)
    entry = found.iloc[0]
    return Cell(*fmt.speed(entry["ratio"], entry["low"], entry["high"], bool(entry["different"])))
