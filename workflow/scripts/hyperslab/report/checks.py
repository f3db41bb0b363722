"""What is missing or doubtful: check by check, with verdict, sentence and the cells concerned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from hyperslab import text as fmt
from hyperslab.records import LETTER
from hyperslab.report.added_rounds import added_rounds
from hyperslab.report.context_checks import locks, mixtures, not_controlled, reclaim
from hyperslab.report.data import CELL, Data, PlannedCell
from hyperslab.report.model import Check, Table, table
from hyperslab.report.numbers import SIZE_PAIRS, different, requested_otherwise
from hyperslab.report.speeds import unconfirmed
from hyperslab.report.throttled import throttled
from hyperslab.results.comparisons import MIN_ROUNDS
from hyperslab.states import COLD_AT_MOST, STATES, WARM_AT_LEAST
from hyperslab.studies import case_kinds
from hyperslab.studies.summary import in_order

# Between two cells of a round; after a longer pause the machine may be in another mood.
PAUSE_S = 900.0
# So many reasons for a state that was skipped are told.
MOST_REASONS = 2


def checks(data: Data) -> list[Check]:
    """Return all checks: the doubtful ones, what only needs to be known, then those that found nothing."""
    found = [*(make(data) for make in CHECKS), *added_rounds(data)]
    order = ("bad", "unknown", "good")
    return sorted(found, key=lambda check: order.index(check.tone))


def _cells(rows: pd.DataFrame) -> list[PlannedCell]:
    """Return the distinct cells of `rows`, as the plan names them."""
    cells = rows[CELL].drop_duplicates()
    return [
        (site, layout, case, f"{LETTER[phase]}{number}")
        for site, layout, case, phase, number in cells.itertuples(index=False)
    ]


def _list(title: str, cells: Iterable[PlannedCell]) -> Table:
    """Return the cells as a folded table, one row a site, layout and case, with its rounds."""
    rounds: dict[tuple[str, str, str], list[str]] = {}
    for site, layout, case, round_ in cells:
        rounds.setdefault((site, layout, case), []).append(round_)
    body = [[*key, ", ".join(found)] for key, found in rounds.items()]
    note = "Rounds: r0, r1, … choose; c0, c1, … confirm."
    return table(title, ["Site", "Layout", "Case", "Rounds"], body, note, folded=True)


def _per_site(cells: Sequence[PlannedCell]) -> str:
    """Return the cells counted by site: "disk 3, memory 1"."""
    sites = [cell[0] for cell in cells]
    return ", ".join(f"{site} {sites.count(site):,}" for site in dict.fromkeys(sites))


def _missing(data: Data) -> Check:
    known = set(_cells(data.rows))
    outdated = known.difference(_cells(data.fresh))
    absent = [cell for cell in data.expected if cell not in known]
    stale = [cell for cell in data.expected if cell in outdated]
    total = fmt.count(len(data.expected), "planned cell")
    said = [f"{len(absent):,} of {total} have no result ({_per_site(absent)})"] if absent else []
    # Which these are, the check of stale records lists.
    said += [f"{len(stale):,} of {total} have only a stale result ({_per_site(stale)})"] if stale else []
    if sites := data.study.get("without_results"):
        said.append(f"no cell has a result at {fmt.listing(sites)}")
    if not said:
        return Check("Cells missing", f"None: there are results of all {total}.", "good")
    details = [_list("Missing cells", absent)] if absent else []
    text = "; ".join(said)
    return Check("Cells missing", f"{text[0].upper()}{text[1:]}.", "bad", details)


def _stale(data: Data) -> Check:
    cells = _cells(data.rows[data.rows["stale"].astype(bool)])
    if not cells:
        return Check(
            "Stale records",
            "None: every record was measured under today's study and a protocol that counts.",
            "good",
        )
    text = f"{fmt.count(len(cells), 'record')} measured under another study, donor or protocol than today's"
    return Check("Stale records", f"{text}: left out of all results.", "bad", [_list("Stale records", cells)])


def _older_protocol(data: Data) -> Check:
    name, older = "Older timing protocol", data.fresh[data.fresh["older_protocol"].notna()]
    if older.empty:
        return Check(name, "None: every record that counts is of today's timing protocol.", "good")
    parts = []
    for (kind, number), rows in older.groupby(["kind", "older_protocol"], sort=False, observed=True):
        known = case_kinds.KINDS[str(kind)]
        parts.append(
            f"{fmt.count(len(_cells(rows)), 'record')} of {kind} cases are of protocol {int(number)}, "
            f"today's is {known.protocol}: {known.older_protocols[int(number)]}"
        )
    text = f"{'; '.join(parts)}. Times mean the same: they count, round by round."
    return Check(name, text, "unknown", [_list("Records of an older protocol", _cells(older))])


def _unconfirmed(data: Data) -> Check:
    name = "Confirmation"
    picks = {site: data.choice(site).get("pick") for site in data.sites}
    picked = {site: pick for site, pick in picks.items() if pick is not None}
    late = {site: why for site, pick in picked.items() if (why := unconfirmed(data, site, pick))}
    if not picked:
        return Check(name, "Nothing is recommended, so there is nothing to confirm.", "unknown")
    if late:
        which = "; ".join(f"{picked[site]} at {site}: {why}" for site, why in late.items())
        whose, it = ("Its", "it") if len(late) == 1 else ("Their", "them")
        come = f"{whose} speed-ups come from the rounds that chose {it}, and flatter {it}."
        return Check(name, f"Not confirmed. {which}. {come}", "bad")
    return Check(name, "Every recommended layout was measured again in fresh rounds.", "good")


def _few_rounds(data: Data) -> Check:
    name, both = "Results without interval", pd.concat([data.summary, data.confirmed])
    cells = both.drop_duplicates(["site", "layout", "case", "state", "phase"])
    few = cells[cells["rounds"] < MIN_ROUNDS]
    if few.empty:
        return Check(name, f"None: every result has {MIN_ROUNDS} rounds or more.", "good")
    total = fmt.count(len(cells), "result")
    text = f"{len(few):,} of {total} have fewer than {MIN_ROUNDS} rounds, so no interval."
    body = few[["site", "layout", "case", "state", "phase", "rounds"]].to_numpy().tolist()
    columns = ["Site", "Layout", "Case", "State", "Phase", "#Rounds"]
    return Check(name, text, "bad", [table("Results without interval", columns, body, folded=True)])


def _flagged(column: str, name: str, none: str, some: str) -> Callable[[Data], Check]:
    """Return a check of a flag that each cell carries."""

    def check(data: Data) -> Check:
        flagged = _cells(data.fresh[data.fresh[column].astype(bool)])
        if not flagged:
            return Check(name, none, "good")
        total = fmt.count(len(_cells(data.fresh)), "cell")
        text = f"{len(flagged):,} of {total} ({_per_site(flagged)}): {some}"
        return Check(name, text, "bad", [_list(name, flagged)])

    return check


def _skipped(data: Data) -> Check:
    name = "States skipped"
    reasons: dict[tuple[str, str], list[str]] = {}
    for entry in data.context:
        for state, reason in (entry.get("skipped") or {}).items():
            reasons.setdefault((str(entry["site"]), str(state)), []).append(str(reason))
    absent = _absent_states(data)
    for site, state in absent:
        reasons.setdefault((site, state), ["no reason was recorded"])
    if not reasons:
        return Check(name, "None: every cell was measured in every state that its case names.", "good")
    text = "; ".join(f"{site}, {state}: {_first(why)}" for (site, state), why in reasons.items())
    tables = [_list(f"Cells without {state} at {site}", cells) for (site, state), cells in absent.items()]
    return Check(name, f"{text}.", "bad", tables)


def _first(reasons: Iterable[str]) -> str:
    """Return the first reasons, each once, and how many more there are."""
    known = list(dict.fromkeys(reasons))
    more = f" and {len(known) - MOST_REASONS} more" if len(known) > MOST_REASONS else ""
    return "; ".join(known[:MOST_REASONS]) + more


def _absent_states(data: Data) -> dict[tuple[str, str], list[PlannedCell]]:
    """Return (site, state) -> the cells with a result that lacks this state of their case."""
    absent: dict[tuple[str, str], list[PlannedCell]] = {}
    seen: dict[PlannedCell, set[str]] = {}
    found = data.fresh[[*CELL, "state"]].drop_duplicates()
    for site, layout, case, phase, number, state in found.itertuples(index=False):
        states = seen.setdefault((site, layout, case, f"{LETTER[phase]}{number}"), set())
        states.add(state.removeprefix("library-"))
    for planned, states in seen.items():
        for state in data.study["cases"].get(planned[2], {}).get("states", []):
            if state not in states:
                absent.setdefault((planned[0], state), []).append(planned)
    return absent


def _pauses(data: Data) -> Check:
    name, body, longest = "Rounds in parts", [], 0.0
    cells = data.fresh.drop_duplicates(CELL).sort_values("began_wall_s")
    for (site, phase, number), here in cells.groupby(["site", "phase", "round"], observed=True):
        waited = here["began_wall_s"] - here["ended_wall_s"].cummax().shift()
        if pauses := [seconds for seconds in waited if seconds > PAUSE_S]:
            longest = max(longest, *pauses)
            round_ = f"{LETTER[phase]}{number}"
            body.append([site, round_, len(here), len(pauses) + 1, fmt.duration(max(pauses))])
    if not body:
        return Check(name, f"None: no pause within a round was over {PAUSE_S / 60:.0f} min.", "good")
    text = (
        f"{fmt.count(len(body), 'round')} with pauses of up to {fmt.duration(longest)} between cells, which "
        "were not measured side by side then: an interval covers how rounds differ, not how parts of one do."
    )
    columns = ["Site", "Round", "#Cells", "#Parts", "#Longest pause"]
    return Check(name, text, "unknown", [table(name, columns, body, folded=True)])


def _arithmetic(data: Data) -> Check:
    name = "Computed and measured"
    files = data.fresh.drop_duplicates(CELL)
    wrong = files[np.logical_or.reduce([different(files, *pair) for pair in SIZE_PAIRS])]
    reads = data.fresh[data.fresh[["requested_bytes", "requested_predicted_bytes"]].notna().all(axis=1)]
    other = reads[requested_otherwise(reads)]
    # Every state may have predictions: also that of a file that stays open.
    states = fmt.listing(in_order(set(reads["state"]), STATES))
    read = " ".join(filter(None, [f"{len(reads):,}", states, "reads"]))
    parts, lists = [], []
    if len(wrong):
        parts.append(f"file sizes of {len(wrong):,} of {len(files):,} files differ from arithmetic")
        lists.append(_list("Files whose size differs from arithmetic", _cells(wrong)))
    if len(other):
        parts.append(f"{len(other):,} of {read} requested other bytes, or in other calls, than predicted")
        lists.append(_list("Reads whose requests were not as predicted", _cells(other)))
    if parts:
        return Check(name, f"{'; '.join(parts).capitalize()}.", "bad", lists)
    text = (
        f"Chunks, padding and index of all {len(files):,} files, and what {read} requested, are as computed "
        "where predictable."
    )
    return Check(name, text, "good")


def _resident(state: str, name: str) -> Callable[[Data], Check]:
    """Return the check that a state was one: as much of each file lay in the page cache as it allows."""
    cold = state == "cold"

    def check(data: Data) -> Check:
        rows = data.fresh[data.fresh["state"] == state]
        # What lies in an object store has no pages here.
        rows = rows[rows["resident_before"].notna() & rows["wire_requests"].isna()]
        shares = rows["resident_before"]
        worst = shares.max() if cold else shares.min()
        if rows.empty or not fmt.known(worst):
            return Check(name, f"Nothing was read {state} with a known residency.", "unknown")
        wrong = rows[shares > COLD_AT_MOST] if cold else rows[shares < WARM_AT_LEAST]
        said = f"at {'most' if cold else 'least'} {fmt.share(worst, 1)} of the file lay in the page cache"
        lists = [_list(f"Reads that were not {state}", _cells(wrong))] if len(wrong) else []
        return Check(name, f"Before {len(rows):,} {state} reads {said}.", "bad" if lists else "good", lists)

    return check


CHECKS: tuple[Callable[[Data], Check], ...] = (
    _missing,
    _stale,
    _older_protocol,
    _unconfirmed,
    _few_rounds,
    _skipped,
    _flagged("noisy", "Noisy cells", "None.", "a probe was far from the site's median; not dropped."),
    _flagged("overlap", "Overlapping cells", "None: no two ran at once.", "another ran meanwhile."),
    mixtures,
    _pauses,
    locks,
    _arithmetic,
    _resident("cold", "Cold was cold"),
    _resident("warm", "Warm was warm"),
    throttled,
    reclaim,
    not_controlled,
)  # fmt: skip
