"""The page of an advice: the sentence, the picture, then what was probed, predicted and verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab import text as fmt
from hyperslab.report.answer import layout_text
from hyperslab.report.data import Data
from hyperslab.report.model import Cell, Fact, Figure, Table, table
from hyperslab.report.quoted import times

# Within this factor of the advised layout today's is not worth the trouble of a rewrite.
WORTH = 1.10
# As a share of the machine's memory, an array that stays in the page cache once it was read.
CACHED_SHARE = 0.5


@dataclass(frozen=True)
class AdvicePage:
    """Everything a reader sees, as texts."""

    title: str
    study: str
    sentence: str
    remarks: Sequence[str]
    figure: Figure
    verified: Table | None
    probed: Sequence[Fact]
    predicted: Table
    timeline: Sequence[Fact]


def build(data: Data, prediction: Mapping[str, Any], figure: Figure, now: float) -> AdvicePage:
    """Return the page of a study's data and its prediction.json, made `now` (seconds since 1970)."""
    site = str(prediction["site"])
    choice = data.choice(site)
    return AdvicePage(
        title=str(data.study["title"]),
        study=str(data.study["name"]),
        sentence=_sentence(data, prediction, site, choice),
        remarks=list(_remarks(prediction)),
        figure=figure,
        verified=_verified(data, prediction, site, choice),
        probed=_probed(prediction),
        predicted=_predicted(prediction),
        timeline=_timeline(data, prediction, now),
    )


def _ranked(choice: Mapping[str, Any], layout: str | None) -> Mapping[str, Any]:
    return next((row for row in choice.get("ranking", []) if row["layout"] == layout), {})


def _words(data: Data, layout: str) -> str:
    """Return how to store the array, in words."""
    return layout_text(data.study, layout)


def _sentence(data: Data, prediction: Mapping[str, Any], site: str, choice: Mapping[str, Any]) -> str:
    """Return the advice as one says it: what to use, what it takes, what today's takes, what it gives up."""
    pick = choice.get("pick")
    if pick is None:
        return f"There is no advice for {site}: {choice.get('reason') or 'nothing was measured there'}."
    today, found = prediction["today"], times(data, site, "main")
    mine, old = _ranked(choice, pick), _ranked(choice, today)
    if today == pick:
        told = _each(found, pick, None)
        return f"Leave it as it is: none of the layouts measured is better than today's. {told}"
    if old and old["objective"] <= WORTH * mine["objective"]:
        told = _each(found, pick, today)
        return f"Do not bother: today's layout is within a tenth of the best, {pick}. {told}"
    noise = f" At this noise today's layout cannot be told from {pick}." if old and old["tied"] else ""
    size = mine["file_bytes"] / (old["file_bytes"] if old else prediction["raw_bytes"])
    of_what = "today's" if old else "the raw array"
    return (
        f"Store it as {_words(data, pick)}. {_each(found, pick, today if old else None)} "
        f"The file is {fmt.significant(size, 2)} times {of_what}.{noise}{_given_up(choice)}"
    )


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
            f"Measured was the first {part} of {whole}, because every layout is written several times. A "
            "read of all of an axis that was cut is shorter than yours, and so are its times."
        )
    if prediction["unnamed_filters"]:
        yield "Today's layout is not compared: the file has filters that a study cannot name."
    yield (
        "The times are of cold reads, which wait for the storage. The rounds that chose the layout are those "
        "that are quoted, which flatters it a little."
    )


def _verified(
    data: Data, prediction: Mapping[str, Any], site: str, choice: Mapping[str, Any]
) -> Table | None:
    """Return what was measured, best first, with what had been predicted below each time."""
    if not choice.get("ranking"):
        return None
    foretold = {one["layout"]: one for one in prediction["measured"]}
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
    return table("Verified", columns, body, note, pick=choice.get("pick"))


def _predicted(prediction: Mapping[str, Any]) -> Table:
    """Return the best predictions."""
    reads = [read["name"] for read in prediction["reads"]]
    measured = {one["layout"] for one in prediction["measured"]}
    body = [
        [
            Cell(one["layout"], "measured" if one["layout"] in measured else ""),
            *(fmt.seconds(one["times"][name]) for name in reads),
            fmt.megabytes(one["file_bytes"]),
        ]
        for one in prediction["predicted"]
    ]
    note = (
        f"The best of {prediction['considered']:,} candidates by what their requests would take with the "
        "speeds that were probed. None of these times is measured."
    )
    return table("Predicted", ["Layout", *(f"#{name}" for name in reads), "#File"], body, note, folded=True)


def _probed(prediction: Mapping[str, Any]) -> list[Fact]:
    """Return the parameters of the prediction."""
    probed = prediction["probed"]
    return [
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
    facts = [
        Fact("Probe", fmt.duration(prediction["seconds"]["probe"])),
        Fact("Predict", fmt.duration(prediction["seconds"]["predict"])),
    ]
    if len(rows):
        span = float(rows["ended_wall_s"].max() - rows["began_wall_s"].min())
        facts.append(Fact("Write and verify", fmt.duration(span)))
    return [*facts, Fact("From the command to this page", fmt.duration(now - prediction["began_wall_s"]))]
