"""What is foreseen before anything is measured: which part of an array, which layouts, and their times."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.advising import budget, reads
from hyperslab.advising.budget import Effort
from hyperslab.advising.candidates import Candidate
from hyperslab.advising.choice import FLOOR_S, Asked, Choice, choose
from hyperslab.advising.coding import Coded, coded, samples
from hyperslab.advising.copies import TwoCopies, best_pair
from hyperslab.advising.model import Array, Predicted, predict
from hyperslab.advising.probe import Storage
from hyperslab.advising.reads import Read
from hyperslab.advising.subject import Subject, part_of
from hyperslab.data.values import Values, open_values
from hyperslab.formats.donor_files import DonorArray, converted, open_donor, prepare
from hyperslab.studies.advice_schema import Advise
from hyperslab.validation.errors import name_mistake

# Chunks of today's layout that are tried before it is known how much is measured.
TRIED = 3
# So many predictions are kept for the page.
KEPT = 40
# Of a short array less is predicted in less time.
MOST_PREDICTING_S = 10.0


class NoneFits(Exception):
    """No layout is predicted to be within the size; the text is one line with the fix."""


@dataclass(frozen=True)
class Part:
    """The part of the array that is measured, how much of it, its reads, and the seconds for everything."""

    extents: list[int]
    effort: Effort
    reads: Sequence[Read]
    seconds: float = budget.USUAL_S


@dataclass(frozen=True)
class Prospect:
    """What is to be measured, how often, and per site all that was predicted, as JSON has it."""

    layouts: Sequence[Candidate | TwoCopies]
    effort: Effort
    round_seconds: float
    sites: Mapping[str, Mapping[str, Any]]
    copies: TwoCopies | None = None


def always(subject: Subject) -> list[Candidate]:
    """Return what is measured whatever is predicted: contiguous, and today's layout where that is another."""
    _, today = subject.today(subject.shape)
    return [Candidate(None), *([today] if today and today.chunks else [])]


def part(
    subject: Subject, asked: Advise, whole: Sequence[Read], probed: Mapping[str, Storage], spent: float
) -> Part:
    """Return which part of the array is measured at all sites; raises TooShort (advising.budget).

    `spent` are the seconds that are gone.
    """
    fixed = [_tried(one, subject) for one in always(subject)]

    def steps_in(seconds: float) -> list[tuple[Effort, float]]:
        return [
            budget.step(seconds, spent, len(whole), fixed, subject.raw_bytes, storage)
            for storage in probed.values()
        ]

    seconds = budget.limit(asked.seconds, steps_in, probed.values())
    steps = steps_in(seconds)
    effort, largest = min(steps, key=lambda entry: entry[1])
    extents = part_of(subject.shape, subject.itemsize, whole, largest)
    return Part(extents, effort, reads.cropped(whole, extents), seconds)


def _tried(candidate: Candidate, subject: Subject) -> Coded:
    """Return what a layout's filters make of a few chunks."""
    if not candidate.filters or candidate.chunks is None:
        return Coded(1.0, 0.0)
    with in_place(subject) as values:
        return coded(samples(values, candidate.chunks, TRIED), candidate.filters)


def values_of(subject: Subject, extents: Sequence[int], donor: Path) -> Values:
    """Return the values of the part; those of a file are copied to `donor` once, for whoever writes them."""
    spec = subject.part(extents)
    if spec.get("donor"):
        prepare(spec, donor)
    return open_values(spec, str(donor))


def foresee(
    subject: Subject, asked: Advise, whole: Sequence[Read], chosen: Part, values: Values,
    probed: Mapping[str, Storage], left: float, say: Callable[[str], None],
) -> Prospect:  # fmt: skip
    """Predict at every site and return what is to be measured in `left` seconds; raises NoneFits."""
    array = Array(tuple(subject.shape), subject.itemsize)
    _, today = subject.today(chosen.extents)
    question = Asked(
        array, whole, asked.filters, asked.size_bound * subject.raw_bytes,
        min(MOST_PREDICTING_S, budget.PREDICTING_SHARE * chosen.seconds), tuple(chosen.extents),
        tuple(asked.formats), asked.orders == "any", asked.state == "warm",
    )  # fmt: skip
    known = today if today and today.chunks else None
    choices = {
        site: choose(question, values, storage, known, chosen.effort.layouts, say)
        for site, storage in probed.items()
    }
    if all(one.predicted[0].file_bytes > question.most_bytes for one in choices.values()):
        raise NoneFits(
            f"no layout is predicted to have at most {asked.size_bound:g} of the array without filters; "
            "raise SIZE_BOUND (size_bound)"
        )
    pair = _pair(question, next(iter(choices.values())))
    fixed = len(always(subject))
    layouts = _in_turn([one.measured for one in choices.values()], fixed, chosen.effort.layouts)
    told = {site: _told(question, choice, layouts, chosen, probed[site]) for site, choice in choices.items()}
    efforts = []
    for site, choice in choices.items():
        parts = [told[site]["foretold"][one] for one in layouts]
        codes = [choice.codes.get(one, Coded(1.0, 0.0)) for one in layouts]
        raw = math.prod(chosen.extents) * subject.itemsize
        if pair:
            parts.insert(0, _short(pair[1], raw / subject.raw_bytes))
            codes.insert(0, codes[-1])
        anyway = fixed + bool(pair)
        efforts.append(
            budget.effort(left, parts, codes, chosen.reads, chosen.effort, anyway, raw, probed[site])
        )
    effort, seconds = min(
        efforts, key=lambda entry: (entry[0].layouts, entry[0].repeats, entry[0].most_rounds)
    )
    kept = layouts[: fixed + effort.layouts + len(choices) - 1]
    contents = {
        site: {
            "probed": asdict(probed[site]),
            "considered": choices[site].considered,
            "predicted": found["predicted"],
            "measured": [one for one in found["measured"] if one["layout"] in {each.name for each in kept}],
        }
        for site, found in told.items()
    }
    copies = [pair[0]] if pair else []
    return Prospect([*kept, *copies], effort, seconds, contents, copies[0] if copies else None)


def _pair(question: Asked, choice: Choice) -> tuple[TwoCopies, Predicted] | None:
    """Return the best two copies by what is predicted for the whole array, of which chunks fit the part."""
    found = best_pair(choice.predicted, question.reads, question.most_bytes, FLOOR_S)
    # A name of a study has its length.
    return found if found and not name_mistake(found[0].name) else None


def _short(whole: Predicted, share: float) -> Predicted:
    """Return about what a prediction for the whole array is for a share of it."""
    times = {name: seconds * share for name, seconds in whole.times.items()}
    return Predicted(whole.candidate, times, whole.file_bytes * share)


def _in_turn(measured: Sequence[Sequence[Predicted]], fixed: int, count: int) -> list[Candidate]:
    """Return the fixed layouts, then those of all sites in turn: one more for each further site."""
    found = [one.candidate for one in measured[0][:fixed]]
    for row in itertools.zip_longest(*(one[fixed:] for one in measured)):
        found += [one.candidate for one in row if one is not None and one.candidate not in found]
    return found[: fixed + count + len(measured) - 1]


def _told(
    question: Asked, choice: Choice, layouts: Sequence[Candidate], chosen: Part, probed: Storage
) -> dict[str, Any]:
    """Return what was predicted at a site, of the part and of the whole, as JSON has it."""
    storage = probed.warm() if question.warm else probed
    array = Array(tuple(chosen.extents), question.array.itemsize)
    whole = {one.candidate: one for one in choice.predicted}
    cut = array.shape != question.array.shape
    foretold: dict[Candidate, Predicted] = {}

    def said(candidate: Candidate) -> dict[str, Any]:
        long = whole.get(candidate)
        if long is None:
            # Another site's; what filters make of chunks is about that of the same filters here.
            code = next(
                (found for one, found in choice.codes.items() if one.filters == candidate.filters),
                choice.codes[Candidate(None)],
            )
            long = predict(candidate, question.array, question.reads, storage, code)
        else:
            code = choice.codes[candidate]
        short = predict(candidate, array, chosen.reads, storage, code) if cut else long
        foretold[candidate] = short
        told = {"layout": candidate.name, "times": dict(short.times), "file_bytes": short.file_bytes}
        return {
            **told,
            **({"whole": {"times": dict(long.times), "file_bytes": long.file_bytes}} if cut else {}),
        }

    predicted = [said(one.candidate) for one in choice.predicted[:KEPT]]
    measured = [said(one) for one in layouts]
    return {"predicted": predicted, "measured": measured, "foretold": foretold}


class InPlace:
    """The values of an array in its own file, read as they are sampled."""

    def __init__(self, array: DonorArray, shape: Sequence[int], dtype: str, file: Path) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self._array, self._file = array, file

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        piece = tuple(slice(start, start + width) for start, width in zip(origin, extent, strict=True))
        return converted(np.asarray(self._array[piece]), self.dtype, self._file)


@contextmanager
def in_place(subject: Subject) -> Iterator[Values]:
    """Open the values of an array in its own file, which has to be there; nothing is copied."""
    assert subject.found is not None
    with open_donor(subject.found.file, subject.found.dataset) as array:
        yield InPlace(array, subject.shape, subject.found.dtype, subject.found.file)
