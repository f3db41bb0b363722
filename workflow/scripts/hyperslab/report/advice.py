"""The page of an advice: the sentence, the picture, then what was probed, predicted and verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hyperslab import text as fmt
from hyperslab.report import advice_whole, copies
from hyperslab.report.answer import layout_text
from hyperslab.report.data import Data
from hyperslab.report.model import Cell, Fact, Figure, Table, table
from hyperslab.report.quoted import times

# Within this factor of the advised layout today's is not worth the trouble of a rewrite.
WORTH = 1.10
# As a share of the machine's memory, an array that stays in the page cache once it was read.
CACHED_SHARE = 0.5
# So many layouts that cannot be told from the advised one are named.
MOST_TIED = 3
# A warm read that takes no longer than this is not noticed, seconds.
UNNOTICED_S = 0.01


@dataclass(frozen=True)
class SiteAdvice:
    """The advice for one site, as texts; `code` is how two copies are read, [] where they do not pay."""

    site: str
    sentence: str
    remarks: Sequence[str]
    figure: Figure
    verified: Table | None
    whole: Table | None
    copies: str
    code: Sequence[str]
    probed: Sequence[Fact]
    predicted: Table


@dataclass(frozen=True)
class AdvicePage:
    """Everything a reader sees, as texts."""

    title: str
    study: str
    sites: Sequence[SiteAdvice]
    remarks: Sequence[str]
    timeline: Sequence[Fact]


def build(data: Data, prediction: Mapping[str, Any], figures: Mapping[str, Figure], now: float) -> AdvicePage:
    """Return the page of a study's data and its prediction.json, made `now` (seconds since 1970)."""
    return AdvicePage(
        title=str(data.study["title"]),
        study=str(data.study["name"]),
        sites=[_site(data, prediction, site, figures[site]) for site in prediction["sites"]],
        remarks=list(_remarks(prediction)),
        timeline=_timeline(data, prediction, now),
    )


def _site(data: Data, prediction: Mapping[str, Any], site: str, figure: Figure) -> SiteAdvice:
    """Return the advice for one site."""
    choice, here = data.choice(site), prediction["sites"][site]
    estimated, second, code = pd.DataFrame(), "", list[str]()
    remarks = []
    if choice.get("pick") is not None:
        found = times(data, site, "main")
        estimated = advice_whole.estimates(found, here)
        second, code = _copies(data, prediction, site, found)
        remarks = [advice_whole.sentence(estimated, choice, prediction["today"])]
    return SiteAdvice(
        site=site,
        sentence=_sentence(data, prediction, site, choice),
        remarks=list(filter(None, remarks)),
        figure=figure,
        verified=_verified(data, prediction, site, choice),
        whole=advice_whole.estimate_table(estimated, fmt.shape(prediction["shape"])),
        copies=second,
        code=code,
        probed=_probed(here),
        predicted=_predicted(prediction, here),
    )


def _copies(
    data: Data, prediction: Mapping[str, Any], site: str, found: pd.DataFrame
) -> tuple[str, list[str]]:
    """Return the second answer, two copies in one file, and how they are read; "" where these do not pay."""
    pair = prediction["copies"]
    rows = data.main(site)
    if not pair or not (rows["layout"] == pair["layout"]).any():
        return "", []
    size = float(rows[rows["layout"] == pair["layout"]]["file_bytes"].median())
    better = copies.pays(found, data.choice(site), pair["layout"], size)
    if better is None:
        return "", []
    # Some arrays are still to be written.
    study = str(data.study["name"]) if prediction.get("has_file", True) else None
    said = copies.sentence(found, pair, better, size, prediction["raw_bytes"], study)
    return said, copies.lines(pair, prediction["array"].rpartition("::")[2] if study else "")


def _ranked(choice: Mapping[str, Any], layout: str | None) -> Mapping[str, Any]:
    return next((row for row in choice.get("ranking", []) if row["layout"] == layout), {})


def _words(data: Data, layout: str) -> str:
    """Return how to store the array, in words."""
    words = layout_text(data.study, layout)
    return "one contiguous piece, without chunks or filters" if words.startswith("no chunks") else words


def _sentence(data: Data, prediction: Mapping[str, Any], site: str, choice: Mapping[str, Any]) -> str:
    """Return the advice as one says it: what to use, what it takes, what today's takes, what it gives up."""
    pick = choice.get("pick")
    if pick is None:
        return f"There is no advice for {site}: {choice.get('reason') or 'nothing was measured there'}."
    today, found = prediction["today"], times(data, site, "main")
    mine, old = _ranked(choice, pick), _ranked(choice, today)
    if cached := _cached(prediction, old):
        told = _each(found, today, None)
        return f"Do not bother: the array is read warm, and {cached}. Today's layout: {told}"
    if today == pick:
        told = _each(found, pick, None)
        return f"Leave it as it is: none of the layouts measured is better than today's. {told}"
    if old and old["objective"] <= WORTH * mine["objective"]:
        told = _each(found, pick, today)
        return f"Do not bother: today's layout is within a tenth of the best, {pick}. {told}"
    tied = ["today's layout" if row["layout"] == today else row["layout"] for row in choice["ranking"]
            if row["tied"] and row["layout"] != pick]  # fmt: skip
    noise = f" At this noise it cannot be told from {fmt.listing(tied[:MOST_TIED])}." if tied else ""
    size = mine["file_bytes"] / (old["file_bytes"] if old else prediction["raw_bytes"])
    of_what = "today's" if old else "the raw array"
    return (
        f"Store it as {_words(data, pick)}. {_each(found, pick, today if old else None)} "
        f"The file is {fmt.significant(size, 2)} times {of_what}.{noise}{_given_up(choice)}"
    )


def _cached(prediction: Mapping[str, Any], today: Mapping[str, Any]) -> str:
    """Return why nobody would notice another layout: all lies in memory, where today's is quick; else ""."""
    memory = prediction["memory_bytes"]
    if prediction["state"] != "warm" or not today or today["file_bytes"] > CACHED_SHARE * memory:
        return ""
    if max(today["times"].values()) > UNNOTICED_S:
        return ""
    size = fmt.megabytes(today["file_bytes"])
    return f"it fits in the page cache ({size} of {fmt.megabytes(memory)} of memory)"


def _each(found: Any, pick: str, today: str | None) -> str:
    """Return the time of each read with the pick, and with today's layout."""
    parts = []
    for entry in found.columns:
        name = entry.rpartition(" ")[0]
        now = f" (now {fmt.seconds(found.loc[today, entry])})" if today in found.index else ""
        parts.append(f"{name} in {fmt.seconds(found.loc[pick, entry])}{now}")
    return f"It reads {fmt.listing(parts)}."


def _given_up(choice: Mapping[str, Any]) -> str:
    """Return what to take where the read that the pick gives up most is asked more often."""
    others = choice.get("alternatives") or []
    if not others:
        return ""
    share = fmt.percent(others[0]["above"], 0)
    return f" If more than {share} of your reads are {others[0]['case']}, take {others[0]['layout']}."


def _remarks(prediction: Mapping[str, Any]) -> Any:
    """Yield what limits the advice."""
    if prediction["guessed"]:
        yield "Nobody said how it is read: these reads are guessed from its shape. Name yours with READS."
    if prediction["shape"] != prediction["measured_shape"]:
        whole, part = (fmt.shape(prediction[key]) for key in ("shape", "measured_shape"))
        yield (
            f"Measured was the first {part} of {whole}: as much as can be written {_often(prediction)} in "
            f"{fmt.duration(prediction['limit_s'])} here. A read of all of an axis that was cut is shorter "
            "than yours, and so are its times."
        )
    if prediction["unnamed_filters"]:
        yield "Today's layout is not compared: the file has filters that a study cannot name."
    if prediction["state"] == "warm":
        yield "The times are of warm reads: all of the file lies in the page cache."
    else:
        yield "The times are of cold reads, which wait for the storage, opening included."
        if prediction["whole_bytes"] < CACHED_SHARE * prediction["memory_bytes"]:
            yield (
                f"The array ({fmt.megabytes(prediction['whole_bytes'])}) fits in the memory of the machine "
                "that advised: whoever reads it again and again reads it warm, where layouts differ less "
                "(STATE=warm asks for that)."
            )
    yield (
        "The rounds that chose the layout are those that are quoted, which flatters it a little; the full "
        "report measures the finalists again."
    )


def _often(prediction: Mapping[str, Any]) -> str:
    layouts = max(len(one["measured"]) for one in prediction["sites"].values())
    return f"for {layouts} layouts and {fmt.count(len(prediction['reads']), 'read')} in three rounds"


def _verified(
    data: Data, prediction: Mapping[str, Any], site: str, choice: Mapping[str, Any]
) -> Table | None:
    """Return what was measured, best first, with what had been predicted below each time."""
    if not choice.get("ranking"):
        return None
    foretold = {one["layout"]: one for one in prediction["sites"][site]["measured"]}
    reads = [read["name"] for read in prediction["reads"]]
    body = []
    for row in choice["ranking"]:
        one = foretold.get(row["layout"])
        cells = []
        for name in reads:
            seconds = next(
                (value for key, value in row["times"].items() if key.rpartition(" ")[0] == name), None
            )
            cells.append(
                Cell(fmt.seconds(seconds), f"predicted {fmt.seconds(one['times'][name])}" if one else "")
            )
        role = "today's" if row["layout"] == prediction["today"] else ""
        role = (
            f"{role}, tied with the best"
            if row["tied"] and role
            else "tied with the best"
            if row["tied"]
            else role
        )
        behind = fmt.significant(row["to_best"]) if row["to_best"] else fmt.ABSENT
        spread = fmt.interval(row["low"], row["high"])
        size = Cell(
            fmt.megabytes(row["file_bytes"]), f"predicted {fmt.megabytes(one['file_bytes'])}" if one else ""
        )
        body.append([Cell(row["layout"], role), *cells, size, Cell(behind, spread)])
    columns = ["Layout", *(f"#{name}" for name in reads), "#File", "#Over the best"]
    note = (
        f"Measured at {site} in {fmt.count(int(data.study['rounds']), 'round')}, every value read compared."
    )
    return table("Layouts that were measured", columns, body, note, pick=choice.get("pick"))


def _predicted(prediction: Mapping[str, Any], here: Mapping[str, Any]) -> Table:
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
    return table("Predicted", ["Layout", *(f"#{name}" for name in reads), "#File"], body, note, folded=True)


def _probed(here: Mapping[str, Any]) -> list[Fact]:
    """Return the parameters of the prediction."""
    probed = here["probed"]
    limit, chunk = probed["bytes_per_s"], probed["zarr_chunk_s"]
    return [
        *([Fact("Throttled to", f"{1e-6 * limit:,.0f} MB/s")] if limit else []),
        *([Fact("One chunk through zarr-python", fmt.seconds(chunk))] if chunk else []),
        Fact("Bytes written and synced", f"{1e-6 / probed['write_s']:,.0f} MB/s"),
        Fact("A cold read begins after", fmt.seconds(probed["latency_s"])),
        Fact("Bytes waited for", f"{1e-6 / probed['waited_s']:,.0f} MB/s"),
        Fact("Bytes read ahead", f"{1e-6 / probed['ahead_s']:,.0f} MB/s"),
        Fact("Bytes in memory", f"{1e-6 / probed['cached_s']:,.0f} MB/s"),
        Fact("One chunk looked up", fmt.seconds(probed["lookup_s"])),
        Fact("File and array opened", fmt.seconds(probed["open_s"])),
        Fact("The kernel reads ahead", fmt.megabytes(probed["read_ahead_bytes"], binary=True)),
        Fact(
            "Stolen meanwhile",
            f"{fmt.seconds(probed['steal_s'])}; stalled by I/O {fmt.seconds(probed['pressure_io_s'])}",
        ),
    ]


def _timeline(data: Data, prediction: Mapping[str, Any], now: float) -> list[Fact]:
    """Return how long each step took."""
    rows = data.fresh
    spent = prediction["seconds"]
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
    taken = Fact("From the command to this page", fmt.duration(now - prediction["began_wall_s"]))
    return [*facts, taken, Fact("Asked for", fmt.duration(prediction["limit_s"]))]
