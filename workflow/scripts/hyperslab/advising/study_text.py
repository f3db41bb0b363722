"""The studies of an advice as text: what asks for it, and what measures the layouts that were chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hyperslab.advising.budget import Effort
from hyperslab.advising.candidates import Candidate
from hyperslab.advising.copies import TwoCopies
from hyperslab.advising.found import flow
from hyperslab.advising.reads import Read, shares
from hyperslab.advising.subject import CONTIGUOUS, Subject
from hyperslab.studies import advised
from hyperslab.studies.advice_schema import AdviceStudy, Advise
from hyperslab.studies.criteria import IMPERCEPTIBLE_MS

# What a study that the command wrote begins with: only such a one is written over.
WRITTEN = "# Written by `make advise`, which writes it anew; copy it under another name to keep a change."
# Fresh rounds of the finalists, where the full report is asked for.
CONFIRMING = 3
# Of a read that is cut less is noticed, as its time stands for a longer one; never less than this, ms.
UNNOTICED_LEAST_MS = 0.5


def asking(asked: Advise) -> str:
    """Return a study that asks for advice."""
    content = asked.asked()
    lines = [WRITTEN, "advise:", *(f"  {key}: {flow(value)}" for key, value in content.items())]
    return "\n".join(lines) + "\n"


def measuring(
    study: AdviceStudy, subject: Subject, extents: Sequence[int], reads: Sequence[Read],
    layouts: Sequence[Candidate | TwoCopies], effort: Effort, sites: Sequence[str], whole: Sequence[Read],
) -> str:  # fmt: skip
    """Return the study that measures `layouts`, as text; `whole` are the reads of the whole array."""
    return "\n".join(_lines(study, subject, extents, reads, layouts, effort, sites, whole)) + "\n"


def title_of(study: AdviceStudy, subject: Subject) -> str:
    """Return what the study is called."""
    return study.title or f"How should {subject.words} be stored?"


def _lines(
    study: AdviceStudy, subject: Subject, extents: Sequence[int], reads: Sequence[Read],
    layouts: Sequence[Candidate | TwoCopies], effort: Effort, sites: Sequence[str], whole: Sequence[Read],
) -> Iterator[str]:  # fmt: skip
    asked = study.advise
    yield advised.head(study)
    yield f"title: {flow(title_of(study, subject))}"
    yield "dataset:"
    yield from (f"  {key}: {flow(value)}" for key, value in subject.part(extents).items())
    yield "layouts:"
    for one in layouts:
        yield f"  {flow(one.name)}: {flow(one.layout(subject.axes))}"
    yield "cases:"
    for read in reads:
        box = dict(zip(subject.axes, read.extent, strict=True))
        case = {"title": _title(read, extents), "read": box, "states": [asked.state]}
        yield f"  {flow(read.name)}: {flow(case)}"
    yield f"repeats: {{{asked.state}: {effort.repeats}}}"
    yield "shared_files: true"
    rounds = {"first": effort.rounds, "most": effort.most_rounds} if effort.adaptive else effort.rounds
    yield f"rounds: {flow(rounds)}"
    yield f"recommendation: {flow(dict(_recommendation(reads, whole, asked, subject.grows)))}"
    if len(reads) > 1:
        yield f"tradeoff: {flow([read.name for read in reads[:2]])}"
    yield f"sites: {flow(list(sites))}"


def _recommendation(
    reads: Sequence[Read], whole: Sequence[Read], asked: Advise, grows: bool = False
) -> Iterator[tuple[str, Any]]:
    if any(read.weight is not None for read in reads):
        mix: Mapping[str, float] = shares(reads)
        yield "mix", dict(mix)
    yield "states", [asked.state]
    yield "size_bound", asked.size_bound
    share = min(
        math.prod(one.extent) / math.prod(all_of.extent) for one, all_of in zip(reads, whole, strict=True)
    )
    yield "imperceptible_ms", round(max(UNNOTICED_LEAST_MS, IMPERCEPTIBLE_MS * share), 3)
    yield "confirm_rounds", CONFIRMING
    if asked.copies:
        yield "copies", True
    if grows:
        yield "excluded", {CONTIGUOUS: "the dataset can grow, which needs chunks"}


def _title(read: Read, extents: Sequence[int]) -> str:
    box = [
        "all" if one == size and size > 1 else str(one)
        for one, size in zip(read.extent, extents, strict=True)
    ]
    return f"{read.name} of {' x '.join(box)}"
