"""What a study judges by: that criteria, weights and published numbers speak of what the study has."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hyperslab.studies.case_kinds import kind_of
from hyperslab.validation.nearest import choices

if TYPE_CHECKING:
    from hyperslab.studies.schema import Criterion, Recommendation, State
    from hyperslab.studies.study import LoadedStudy

# Who waits does not notice how much shorter than this a time is, milliseconds.
IMPERCEPTIBLE_MS = 10.0
# What a table of scores calls columns of its own.
SCORE_COLUMNS = ("site", "layout", "score", "missing")
# Path inside the study, and what is wrong there.
Mistake = tuple[str, str]


def label(
    statistic: str, below: float, case: str | None = None, state: str | None = None, title: str | None = None
) -> str:
    """Return the name of a criterion: its title, or else the criterion in words."""
    parts = [case, state, statistic, "<", f"{below:.10g}"]
    return title or " ".join(part for part in parts if part)


def mistakes(study: LoadedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with the criteria, published numbers, weights and trade-off of a study."""
    yield from _of_criteria(study)
    yield from _of_published(study)
    yield from _of_recommendation(study)
    yield from _of_tradeoff(study)
    yield from _of_prices(study)
    if study.study.adaptive and not study.study.claims and not study.study.recommendation.confirm_rounds:
        yield "rounds", "there is nothing to decide: the study has no claims, and confirms no recommendation"


def _label(criterion: Criterion) -> str:
    # A bound on the file has no state.
    state = None if criterion.statistic == "file_bytes" else criterion.state
    return label(criterion.statistic, criterion.below, criterion.case, state, criterion.title)


def _of_criteria(study: LoadedStudy) -> Iterator[Mistake]:
    score = study.study.score
    if score is None:
        return
    seen: dict[str, int] = {}
    for position, criterion in enumerate(score.criteria):
        path = f"score.criteria.{position}"
        of_file = criterion.statistic == "file_bytes"
        if criterion.case not in study.cases and not (of_file and criterion.case is None):
            known = choices(criterion.case, study.cases)
            yield f"{path}.case", f"no case {criterion.case!r}; the study has {known}"
        elif not of_file and criterion.state not in study.cases[str(criterion.case)]["states"]:
            message = f"case {criterion.case!r} is not measured in state {criterion.state!r}"
            yield f"{path}.case", message
        if criterion.title in SCORE_COLUMNS:
            yield f"{path}.title", f"{criterion.title!r} is what a table of scores calls a column of its own"
        name = _label(criterion)
        if name in seen:
            yield path, f"the same as criterion {seen[name]}, {name!r}; give one of them a title of its own"
        seen.setdefault(name, position)
    for layout in score.published:
        if layout not in study.layouts:
            yield "score.published", f"no layout {layout!r}; the study has {choices(layout, study.layouts)}"
    if "target" in score.model_fields_set and score.target > len(study.layouts):
        message = f"{score.target} layouts are asked for; the study has {len(study.layouts)}"
        yield "score.target", message


def _of_published(study: LoadedStudy) -> Iterator[Mistake]:
    for case, layouts in study.study.published.items():
        if case not in study.cases:
            yield f"published.{case}", f"no such case; the study has {choices(case, study.cases)}"
            continue
        known = study.cases[case]["layouts"]
        for layout in layouts:
            if layout not in known:
                message = f"no such layout in this case; it has {choices(layout, known)}"
                yield f"published.{case}.{layout}", message


def _of_recommendation(study: LoadedStudy) -> Iterator[Mistake]:
    given, path = study.study.recommendation, "recommendation"
    for name in given.mix:
        if name not in study.cases:
            yield f"{path}.mix", f"no case {name!r}; the study has {choices(name, study.cases)}"
    if given.mix and not any(given.mix.values()):
        yield f"{path}.mix", "all are zero: nothing is left to judge by"
    named = [(f"quoted.{position}", name) for position, name in enumerate(given.quoted)]
    for place, name in [*named, *((f"excluded.{name}", name) for name in given.excluded)]:
        if name not in study.layouts:
            yield f"{path}.{place}", f"no layout {name!r}; the study has {choices(name, study.layouts)}"
    measured = {state for case in study.cases.values() for state in case["states"]}
    # The default, cold, may be what no case of a study has.
    for state in given.states if "states" in given.model_fields_set else ():
        if state not in measured:
            yield f"{path}.states", f"no case is measured in state {state!r}"
    yield from _of_mix(study, given)


def _of_mix(study: LoadedStudy, given: Recommendation) -> Iterator[Mistake]:
    """Yield which cases of a mix lack a state that counts: nothing would be recommended in the end."""
    lacking: dict[str, list[State]] = {}
    for name in given.mix:
        case = study.cases.get(name)
        # What is written counts as written (results/requests.py).
        if case and given.mix[name] and not kind_of(case).writes_array and case["states"] != ["write"]:
            lacking[name] = [state for state in given.states if state not in case["states"]]
    # Where none has the default, cold, another state is measured on purpose.
    if "states" not in given.model_fields_set and all(lacking.values()):
        return
    for name, absent in lacking.items():
        if absent:
            message = f"case {name!r} is not measured in state {absent[0]!r}, which counts"
            fix = "measure it, or say in recommendation.states which count"
            yield f"recommendation.mix.{name}", f"{message}; {fix}"


def _of_prices(study: LoadedStudy) -> Iterator[Mistake]:
    prices = study.study.prices
    for name in prices.cases if prices else ():
        if name not in study.cases:
            yield "prices.cases", f"no case {name!r}; the study has {choices(name, study.cases)}"
        elif set(study.cases[name]["states"]) == {"write"}:
            yield "prices.cases", f"{name!r} only writes, which answers nothing"
    for pattern in prices.running_hour if prices else ():
        if not fnmatch.filter(study.layouts, pattern):
            yield "prices.running_hour", f"{pattern!r} fits no layout of this study"


def _of_tradeoff(study: LoadedStudy) -> Iterator[Mistake]:
    names = study.tradeoff
    if len(names) not in (0, 2):
        yield "tradeoff", "names two read cases, one for each axis of its figure"
    for name in names:
        if name not in study.cases or not kind_of(study.cases[name]).reads_selections:
            yield "tradeoff", f"{name!r} is not a read case of this study"
    if len(set(names)) < len(names):
        yield "tradeoff", f"names {names[0]!r} twice"
