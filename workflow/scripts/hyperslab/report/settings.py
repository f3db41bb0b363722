"""Numbers of library settings: the source's table, many small datasets, requests, and what was in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab import layouts
from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Table, table
from hyperslab.states import COLD_STATES
from hyperslab.studies import case_kinds
from hyperslab.studies.case_kinds import kind_of
from hyperslab.studies.summary import case_title, in_order

REQUESTS = ("requested_reads", "requested_bytes", "requested_writes", "written_bytes")
PUBLISHED = {"total_s": fmt.seconds, "write_s": fmt.seconds, "call_mean_s": fmt.seconds}


def published_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return the source's table with the measured numbers: medians over all repeats."""
    rows = data.main(site)
    body = []
    for case, published in data.study.get("published", {}).items():
        own = rows[(rows["case"] == case) & (rows["state"] == "write")]
        medians = own.groupby("layout", observed=True)[[*PUBLISHED, "call_max_s", "file_bytes"]].median()
        for layout in in_order(set(medians.index), data.study["layouts"]):
            found, there = medians.loc[layout], published.get(layout, {})
            pairs = [
                text
                for name, show in PUBLISHED.items()
                for text in (show(found[name]), show(there.get(name)))
            ]
            sizes = (fmt.megabytes(found["file_bytes"]), fmt.megabytes(there.get("file_bytes")))
            body.append([layout, *pairs, fmt.seconds(found["call_max_s"]), *sizes])
    if not body:
        return None
    columns = ["Layout", "#Total", "#published", "#Write", "#published", "#Mean call", "#published",
               "#Longest call", "#File", "#published"]  # fmt: skip
    note = "Total: create, write, flush and close, without fsync. Medians over all repeats."
    return table("Measured and published", columns, body, note, pick=pick)


def objects_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return the times and requests of one small dataset, by the number of them in the file."""
    rows = data.main(site)
    rows = rows[rows["kind"].isin(case_kinds.names(lambda kind: kind.many_arrays))]
    if rows.empty:
        return None
    body = []
    for case in in_order(set(rows["case"]), data.study["cases"]):
        count = kind_of(data.study["cases"][case]).arrays(data.study["cases"][case])
        own = rows[rows["case"] == case]
        for layout in in_order(set(own["layout"]), data.study["layouts"]):
            of_layout = own[own["layout"] == layout]
            times = of_layout.groupby("state", observed=True)["time_s"].median()
            written = of_layout[of_layout["state"] == "write"][["call_mean_s", "requested_writes"]].median()
            cold = of_layout[of_layout["state"].isin(COLD_STATES)]["requested_reads"].median()
            reads = [times.get(state) for state in ("session", "warm", *COLD_STATES)]
            body.append([
                layout, fmt.whole(count), fmt.seconds(times.get("write", float("nan")) / count),
                fmt.seconds(written["call_mean_s"]), fmt.significant(written["requested_writes"] / count),
                *(fmt.seconds(value) for value in reads), fmt.whole(cold),
            ])  # fmt: skip
    columns = ["Layout", "#Datasets", "#Write, durable, each", "#Create and write call", "#Writes each",
               "#Read latest: session", "#warm", *(f"#{state}" for state in COLD_STATES),
               "#Reads, cold"]  # fmt: skip
    note = "Durable: create to fsync of the whole file over its datasets. Medians over all repeats."
    return table("Many small datasets", columns, body, note, folded=len(body) > 12, pick=pick)


def requests_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return the calls and bytes that reached the kernel, by layout, case and state."""
    rows = data.main(site)
    if rows.empty or not data.study.get("settings_vary"):
        return None
    medians = rows.groupby(["case", "state", "layout"], observed=True)[["time_s", *REQUESTS]].median()
    body = []
    for case in in_order(set(rows["case"]), data.study["cases"]):
        for state in sorted(set(rows["state"][rows["case"] == case])):
            found = medians.loc[(case, state)]
            for layout in in_order(set(found.index), data.study["layouts"]):
                entry = found.loc[layout]
                counts = [
                    show(entry[name])
                    for name, show in zip(REQUESTS, (fmt.whole, fmt.megabytes) * 2, strict=True)
                ]
                title = case_title(data.study, case)
                body.append([layout, title, state, fmt.seconds(entry["time_s"]), *counts])
    columns = ["Layout", "Case", "State", "#Time", "#Reads", "#Bytes read", "#Writes", "#Bytes written"]
    note = "Reads and writes: calls of the library that reached the kernel. Medians over all repeats."
    return table("Requests", columns, body, note, folded=len(body) > 24, pick=pick)


def _flat(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings as texts, with the parts of those that have several under names of their own."""
    found = {}
    for name, value in settings.items():
        parts = value if isinstance(value, dict) else {"": value}
        for part, one in parts.items():
            text = " to ".join(map(str, one)) if isinstance(one, list) else str(one)
            found[f"{name} {part}".strip()] = text
    return found


def settings_table(data: Data) -> Table | None:
    """Return the settings in which layouts differ, each as its files say it."""
    by_layout: dict[str, dict[str, str]] = {}
    # Only files of these libraries may be of one release or another.
    formats = [layouts.load(name) for name in layouts.FORMATS]
    released = {each.released: each.libraries[each.released] for each in formats if each.released}
    for entry in data.context:
        versions = entry.get("versions") or {}
        releases = {label: versions[name] for name, label in released.items() if name in versions}
        flat = _flat({**(entry.get("settings") or {}), **releases})
        for layout in entry.get("layouts", ()):
            for name, text in flat.items():
                seen = by_layout.setdefault(str(layout), {})
                if text not in seen.get(name, "").split("; "):
                    seen[name] = "; ".join(filter(None, [seen.get(name), text]))
    known = dict.fromkeys(name for found in by_layout.values() for name in found)
    # A setting that a format does not have makes no difference between those that have it.
    vary = [name for name in known if len({found[name] for found in by_layout.values() if name in found}) > 1]
    if not vary:
        return None
    names = in_order(set(by_layout), data.study["layouts"])
    body = [[layout, *(by_layout[layout].get(name, fmt.ABSENT) for name in vary)] for layout in names]
    note = "What is the same for all layouts stands above."
    return table(
        "Settings by layout, as read back from the files",
        ["Layout", *vary],
        body,
        note,
        folded=len(body) > 24,
    )
