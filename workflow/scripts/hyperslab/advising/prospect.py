"""What is foreseen before anything is measured: which part of an array, which layouts, and their times."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.advising import budget, reads
from hyperslab.advising.budget import Effort
from hyperslab.advising.candidates import Candidate
from hyperslab.advising.choice import FLOOR_S, Asked, Choice, choose
from hyperslab.advising.coding import coded, samples
from hyperslab.advising.copies import TwoCopies, best_pair
from hyperslab.advising.model import Array, Predicted, predict
from hyperslab.advising.prices import Coded, Storage
from hyperslab.advising.probe import timed
from hyperslab.advising.reads import Read
from hyperslab.advising.subject import Subject, part_of
from hyperslab.data.values import Values, open_values
from hyperslab.formats.donor_files import prepare, read_box
from hyperslab.formats.donor_opening import DonorArray, open_donor
from hyperslab.layouts.chunks import chunk_count
from hyperslab.results.two_copies import PAYS
from hyperslab.studies.advice_schema import Advise
from hyperslab.validation.errors import name_mistake

# Chunks of today's layout that are tried before it is known how much is measured; fewer than take so many
# seconds to be read.
TRIED, TRYING_S = 3, 1.0
# Of a file so much is read to know what a chunk takes, where chunks are short, and so much where nothing can
# be written, bytes.
RUN_BYTES, MOST_IN_MEMORY = 2**21, 2**27
# How often the user's file is opened again once it is known how much is measured: its values are copied, and
# the run that measures sees whether it is there. Of a virtual dataset each opens all files of its values.
OPENED_AGAIN = 2
# Of a short array less is predicted in less time.
MOST_PREDICTING_S = 10.0
# Of that time candidates have so much, and half as much again for samples of the best; boxes have the rest.
CHOOSING_SHARE = 0.5


class NoneFits(Exception):
    """No layout is predicted to be within the size; the text is one line with the fix."""


@dataclass(frozen=True)
class Part:
    """The part of the array that is measured, how much of it, its reads, the seconds for everything, and
    those in which the user's file is opened.
    """

    extents: list[int]
    effort: Effort
    reads: Sequence[Read]
    seconds: float = budget.USUAL_S
    opening_s: float = 0.0

    @property
    def predicting_s(self) -> float:
        """Seconds in which candidates are predicted at a site, and the boxes of those that are measured."""
        return min(MOST_PREDICTING_S, budget.PREDICTING_SHARE * self.seconds)


@dataclass(frozen=True)
class AtSite:
    """What is foreseen at one site: its storage as probed, all that was predicted, and two copies where these
    may pay.
    """

    storage: Storage
    choice: Choice
    pair: TwoCopies | None = None


@dataclass(frozen=True)
class Prospect:
    """What is to be measured, how often, and what is foreseen at each site."""

    layouts: Sequence[Candidate]
    pairs: Sequence[TwoCopies]
    effort: Effort
    round_seconds: float
    sites: Mapping[str, AtSite]

    @property
    def measured(self) -> list[Candidate | TwoCopies]:
        """All layouts, in the order of the study."""
        return [*self.layouts, *self.pairs]


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
    begun = time.monotonic()
    with in_place(subject) as own:
        opening = time.monotonic() - begun
        each = chunk_seconds(subject, own)
        fixed = [_tried(one, own, each) for one in always(subject)]
    spent += time.monotonic() - begun + OPENED_AGAIN * opening
    array = Array(tuple(subject.shape), subject.itemsize)

    def found(seconds: float, spent: float) -> tuple[Effort, list[int]]:
        steps = [
            budget.step(seconds, spent, len(whole), fixed, array, storage) for storage in probed.values()
        ]
        effort, largest = min(steps, key=lambda entry: entry[1])
        return effort, _extents(subject, whole, largest, each, seconds)

    def fitting(seconds: float) -> tuple[Effort, list[int]]:
        _, extents = found(seconds, spent)
        # How many chunks a part touches is known when it is cut; a smaller one touches no more of them.
        return found(seconds, spent + each * _touched(subject, extents))

    seconds = budget.limit(asked.seconds, fitting, probed.values())
    effort, extents = fitting(seconds)
    return Part(extents, effort, reads.cropped(whole, extents), seconds, opening)


def _pieces(subject: Subject) -> list[int]:
    """Return the extents of what is read whole of a file or a donor; [] where there is nothing such."""
    return subject.used.pieces if subject.used else []


def _touched(subject: Subject, extents: Sequence[int]) -> int:
    """Return how many of these the values of a part lie in; a donor may be shorter than the part."""
    if subject.used is None or not subject.used.pieces:
        return 0
    held = [min(pair) for pair in zip(extents, subject.used.shape, strict=True)]
    return chunk_count(held, subject.used.pieces)


def _extents(
    subject: Subject, whole: Sequence[Read], largest: float, each: float, seconds: float
) -> list[int]:
    """Return the extents of a part of at most `largest` bytes, whose chunks, of which one takes `each`, are
    decoded in their share of the time; however long they take, it is as large as a part has to be.
    """
    chunks, most = _pieces(subject), math.inf
    if chunks and each > 0:
        least = -(-budget.LEAST_BYTES // (math.prod(chunks) * subject.itemsize))
        most = max(budget.DECODING_SHARE * seconds / each, least)
        # However large a part is, of a short donor no more is decoded than there is.
        most = most if _touched(subject, subject.shape) > most else math.inf
    return part_of(subject.shape, subject.itemsize, whole, largest, chunks, most)


def chunk_seconds(subject: Subject, own: Values | None) -> float:
    """Return what a chunk of the user's file takes until it is read and decoded; 0 where there are none.

    Those in a run are timed, as they are read when values are copied. `own` are the values in the open file,
    None where there is no file.
    """
    run = _pieces(subject)
    if own is None or not run:
        return 0.0
    for axis in reversed(range(len(run))):
        several = RUN_BYTES // (math.prod(run) * own.dtype.itemsize)
        run = [*run[:axis], min(own.shape[axis], run[axis] * max(1, several)), *run[axis + 1 :]]
    return timed(lambda: samples(own, run, 1)) / chunk_count(run, _pieces(subject))


def _tried(candidate: Candidate, own: Values | None, each: float) -> Coded:
    """Return what a layout's filters make of a few chunks, of which one takes `each` to be read."""
    if own is None or not candidate.filters or candidate.chunks is None:
        return Coded(1.0, 0.0)
    count = max(1, min(TRIED, int(TRYING_S / max(each, 1e-9))))
    return coded(samples(own, candidate.chunks, count), candidate.filters)


def sampled(subject: Subject, whole: Sequence[Read], seconds: float) -> Values:
    """Return the values of a part of an array, of which samples are taken where nothing can be written: in
    its own file each would take the chunks that it touches.
    """
    with in_place(subject) as own:
        assert subject.found is not None and own is not None
        extents = _extents(subject, whole, MOST_IN_MEMORY, chunk_seconds(subject, own), seconds)
        block: Any = own.block([0] * len(extents), extents)
    return InPlace(block, extents, subject.found.dtype, subject.found.file)


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
        CHOOSING_SHARE * chosen.predicting_s, tuple(chosen.extents), tuple(asked.formats),
        asked.orders == "any", asked.state == "warm", subject.grows,
    )  # fmt: skip
    known = today if today and today.chunks else None
    choices = {
        site: choose(question, values, storage, known, chosen.effort.layouts, say)
        for site, storage in probed.items()
    }
    # The best is none that is too large or cannot be had, where there is another.
    best = [one.predicted[0] for one in choices.values()]
    if not any(one.file_bytes <= question.most_bytes and question.can_have(one.candidate) for one in best):
        raise NoneFits(
            f"no layout is predicted to have at most {asked.size_bound:g} of the array without filters; "
            "raise SIZE_BOUND (size_bound)"
        )
    found = {site: _pair(question, choice, asked.copies) for site, choice in choices.items()}
    # Sites may name the same two copies and say otherwise which reads each is for: measured is one of them.
    pairs = {pair.name: pair for pair, _ in filter(None, found.values())}
    fixed = len(always(subject))
    layouts = _in_turn([one.measured for one in choices.values()], fixed, chosen.effort.layouts)
    part = Array(tuple(chosen.extents), subject.itemsize)
    raw = math.prod(chosen.extents) * subject.itemsize
    efforts = []
    for site, choice in choices.items():
        storage = probed[site].warm() if question.warm else probed[site]
        each = [
            budget.Planned(
                predict(one, part, chosen.reads, storage, choice.code_of(one)),
                _turning(one, choice, part),
                chunk_files=budget.chunk_files(one, part),
            )
            for one in layouts
        ]
        both = [
            budget.Planned(
                _short(predicted, raw / subject.raw_bytes),
                _turning(pair.first, choice, part) + _turning(pair.second, choice, part),
                budget.FILES_OF_COPIES,
            )
            for pair, predicted in filter(None, found.values())
        ]
        efforts.append(
            budget.effort(
                left, [*each[:fixed], *both], each[fixed:], chosen.reads, chosen.effort, raw, probed[site]
            )
        )
    effort, seconds = min(
        efforts, key=lambda entry: (entry[0].layouts, entry[0].repeats, entry[0].most_rounds)
    )
    kept = layouts[: fixed + effort.layouts + len(choices) - 1]
    sites = {
        site: AtSite(probed[site], choice, pairs[own[0].name] if (own := found[site]) else None)
        for site, choice in choices.items()
    }
    return Prospect(kept, list(pairs.values()), effort, seconds, sites)


def _pair(question: Asked, choice: Choice, wanted: bool) -> tuple[TwoCopies, Predicted] | None:
    """Return the best two copies by what is predicted for the whole array, of which chunks fit the part.

    None where they do not pay, unless they are `wanted`.
    """
    least = 1.0 if wanted else PAYS
    possible = [one for one in choice.predicted if question.can_have(one.candidate)]
    found = best_pair(possible, question.reads, question.most_bytes, FLOOR_S, least)
    # A name of a study has its length.
    return found if found and not name_mistake(found[0].name) else None


def _turning(one: Candidate, choice: Choice, part: Array) -> float:
    """Return what a byte of the part takes until it is as in a file of this layout, in seconds."""
    return budget.turning_seconds(choice.code_of(one), budget.run_bytes(one, part))


def _short(whole: Predicted, share: float) -> Predicted:
    """Return about what a prediction for the whole array is for a share of it."""
    times = {name: seconds * share for name, seconds in whole.times.items()}
    return Predicted(whole.candidate, times, whole.file_bytes * share)


def _in_turn(measured: Sequence[Sequence[Predicted]], fixed: int, count: int) -> list[Candidate]:
    """Return the fixed layouts, then those of all sites in turn: one more for each further site."""
    found = [one.candidate for one in measured[0][:fixed]]
    rows = itertools.zip_longest(*(one[fixed:] for one in measured))
    found += [one.candidate for row in rows for one in row if one is not None]
    # Sites may agree.
    return list(dict.fromkeys(found))[: fixed + count + len(measured) - 1]


class InPlace:
    """The values of an array that is open, read as they are sampled."""

    def __init__(
        self, array: DonorArray, shape: Sequence[int], dtype: str, file: Path, dataset: str | None = None
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self._array, self._file, self._dataset = array, file, dataset

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        piece = tuple(slice(start, start + width) for start, width in zip(origin, extent, strict=True))
        return read_box(self._array, piece, self.dtype, self._file, self._dataset)


@contextmanager
def in_place(subject: Subject) -> Iterator[Values | None]:
    """Open the values of an array in its own file, or those of its donor, None where there is neither;
    nothing is copied.
    """
    if (used := subject.used) is None:
        yield None
        return
    with open_donor(used.file, used.dataset) as array:
        yield InPlace(array, used.shape, subject.spec["dtype"], used.file, used.dataset)
