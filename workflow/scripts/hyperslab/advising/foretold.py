"""What was predicted, as prediction.json has it: candidates, and the very boxes that cells read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from hyperslab.advising.candidates import Candidate, Filters
from hyperslab.advising.coding import Chain
from hyperslab.advising.copies import TwoCopies
from hyperslab.advising.model import Array, Predicted, of_box, predict
from hyperslab.advising.prices import Coded, Storage, seconds
from hyperslab.advising.prospect import AtSite, Part, Prospect
from hyperslab.advising.reads import Read
from hyperslab.advising.subject import TODAY, Subject
from hyperslab.data.selections import Box, asked_boxes
from hyperslab.studies.specification import cell_specification
from hyperslab.studies.study import LoadedStudy

# So many predictions are kept for the page.
KEPT = 40


def at_site(
    subject: Subject, part: Part, whole: Sequence[Read], foreseen: Prospect, site: AtSite, study: LoadedStudy,
    state: str,
) -> dict[str, Any]:  # fmt: skip
    """Return what is told of one site: candidates, those that are measured, two copies, and tried filters.

    `study` is the one that measures, of which the boxes are.
    """
    storage = site.storage.warm() if state == "warm" else site.storage
    arrays = [Array(tuple(extents), subject.itemsize) for extents in (part.extents, subject.shape)]
    cut = arrays[0].shape != arrays[1].shape
    known = {one.candidate: one for one in site.choice.predicted}

    def said(candidate: Candidate) -> dict[str, Any]:
        code = site.choice.code_of(candidate)
        if cut and candidate.name == TODAY:
            # In the whole array its chunks may be longer than the part that is measured.
            long = predict(subject.today(subject.shape)[1] or candidate, arrays[1], whole, storage, code)
        else:
            long = known.get(candidate) or predict(candidate, arrays[1], whole, storage, code)
        short = predict(candidate, arrays[0], part.reads, storage, code) if cut else long
        return {"layout": candidate.name, **_numbers(short), **({"whole": _numbers(long)} if cut else {})}

    measured: list[dict[str, Any]] = []
    serves: dict[str, dict[str, Candidate]] = {}
    for one in foreseen.measured:
        reads = [read.name for read in part.reads]
        if isinstance(one, TwoCopies):
            told = _of_both(one, {copy: said(copy) for copy in (one.first, one.second)}, reads)
        else:
            told = said(one)
        serves[one.name] = {name: one.of(name) if isinstance(one, TwoCopies) else one for name in reads}
        measured.append(told)
    left = part.predicting_s - site.choice.took_s
    each, drawn = boxes(study, serves, site.choice.code_of, arrays[0], storage, state, left)
    for told in measured:
        told["boxes"] = each[told["layout"]]
    return {
        "considered": site.choice.considered,
        "predicted": [said(one.candidate) for one in site.choice.predicted[:KEPT]],
        "measured": measured,
        "drawn": drawn,
        "copies": _copies(site.pair, whole),
        "filters": _tried(site.choice.chains),
    }


def boxes(
    study: LoadedStudy, serves: Mapping[str, Mapping[str, Candidate]], code_of: Callable[[Candidate], Coded],
    array: Array, storage: Storage, state: str, most_s: float,
) -> tuple[dict[str, dict[str, list[float]]], tuple[int, int]]:  # fmt: skip
    """Return by layout and read, for every round that the study may have, the predicted seconds of a
    selection; and the boxes of a cell that were simulated for that, of how many.

    They are the means over the boxes that a cell reads in that round: over the first, as many of every cell,
    where all take longer than about `most_s` to be simulated. `serves` says which candidate a read finds in a
    layout, `code_of` what filters make of the data.
    """
    end, seen = monotonic() + most_s, dict[tuple[Candidate, Box], float]()
    numbers = range(study.study.most_rounds)
    codes = {one: code_of(one) for copies in serves.values() for one in copies.values()}
    asked = {
        (layout, name): [_asked(study, layout, name, number, state) for number in numbers]
        for layout, copies in serves.items()
        for name in copies
    }
    count = min(len(each) for rounds in asked.values() for each in rounds)
    drawn = 0
    while drawn < count and (not drawn or monotonic() < end):
        for (layout, name), rounds in asked.items():
            candidate = serves[layout][name]
            prices, code = storage.through(candidate.format), codes[candidate]
            for key in ((candidate, each[drawn]) for each in rounds):
                if key not in seen:
                    counts = of_box(candidate, array, key[1], storage, code)
                    seen[key] = float(seconds(counts, prices, code))
        drawn += 1
    found: dict[str, dict[str, list[float]]] = {layout: {} for layout in serves}
    for (layout, name), rounds in asked.items():
        candidate = serves[layout][name]
        found[layout][name] = [sum(seen[candidate, box] for box in each[:drawn]) / drawn for each in rounds]
    return found, (drawn, count)


def _asked(study: LoadedStudy, layout: str, read: str, number: int, state: str) -> list[Box]:
    """Return the boxes that a cell reads in the round of that number."""
    spec = cell_specification(study, layout, read, f"r{number}")
    return list(itertools.islice(asked_boxes(spec, state), spec["repeats"][state]))


def _numbers(predicted: Predicted) -> dict[str, Any]:
    return {"times": dict(predicted.times), "file_bytes": predicted.file_bytes}


def _of_both(pair: TwoCopies, told: Mapping[Candidate, Any], reads: Sequence[str]) -> dict[str, Any]:
    """Return what is told of two copies by what is of each."""

    def numbers(each: Mapping[Candidate, Any]) -> dict[str, Any]:
        size = sum(one["file_bytes"] for one in each.values())
        return {"times": {name: each[pair.of(name)]["times"][name] for name in reads}, "file_bytes": size}

    found = {"layout": pair.name, **numbers(told)}
    if "whole" in told[pair.first]:
        found["whole"] = numbers({copy: one["whole"] for copy, one in told.items()})
    return found


def _copies(pair: TwoCopies | None, reads: Sequence[Read]) -> dict[str, Any] | None:
    """Return which copy serves which reads, as JSON has it."""
    if pair is None:
        return None
    first = [read.name for read in reads if read.name not in pair.reads]
    served = [(pair.first.name, first), (pair.second.name, list(pair.reads))]
    return {"layout": pair.name, "reads": dict(served)}


def _tried(chains: Mapping[tuple[str, Filters], Chain]) -> list[dict[str, Any]]:
    """Return what filters made of samples of the data, as JSON has it: a row a chain and size of chunks."""
    return [
        {
            "format": format, "filters": "-".join(one.word for one in filters), "chunk_bytes": size,
            "ratio": code.ratio, "decode_s": code.decode_s, "encode_s": code.encode_s,
        }
        for (format, filters), tried in chains.items() if filters
        for size, code in zip(tried.sizes, tried.codes, strict=True)
    ]  # fmt: skip
