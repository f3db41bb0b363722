"""How much is measured in the time that there is: how large a part of the array, of how many layouts.

Each layout is written anew in each round and read some times in each way, so that the part that is measured
decides how long everything takes. It is as large as the measured speed of the site allows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hyperslab.advising.candidates import HDF5, Candidate
from hyperslab.advising.model import Array, Predicted
from hyperslab.advising.prices import Coded, Storage
from hyperslab.advising.reads import Read
from hyperslab.layouts.chunks import chunk_count, run_axis
from hyperslab.measuring.processors import processors
from hyperslab.measuring.throttling import ENOUGH_SECONDS

# Snakemake's start, its tables and pages; a cell's processes and probes (seen, in seconds).
OVERHEAD_S, CELL_S = 13.0, 0.25
# Another look at the rounds, for which Snakemake starts again; and the tables and the page at the end.
LOOK_S, PAGES_S = 6.0, 6.0
# Where nobody says how long it may take, and where a site is throttled, so that each cell reads for longer.
USUAL_S, USUAL_THROTTLED_S = 60.0, 120.0
# To predict in, and at most to decode the chunks in that the part touches, of all the time.
PREDICTING_SHARE, DECODING_SHARE = 0.12, 0.15
# A byte of the array brought into a file's order, each run of elements in that order, and a byte that is read
# once of the user's file (seen).
TURN_S, RUN_S, PREPARE_S = 1.2e-9, 4e-9, 3e-9
# A test file beside its bytes: what is loaded for it, and its way to the device (seen).
FILE_S = 0.1
# Two copies in one file have so many files in a round: each read's has its own copy first.
FILES_OF_COPIES = 2
# Before anything is predicted: what filters take of a usual layout, which share of the array a read fetches.
USUAL, READ_SHARE = Coded(0.5, 0.0, 4e-9), 0.15
ROUNDS = 3
# Rounds that may be added to these, where time is left.
MOST_ADDED = 6
# New layouts and cold repeats, from much to little. Contiguous and today's come on top.
STEPS = ((5, 7), (4, 7), (3, 7), (3, 5), (2, 5), (2, 3))
# A smaller part says nothing of the whole: the kernel reads it ahead in a few pieces.
LEAST_BYTES = 16 * 10**6


class TooShort(Exception):
    """The time is too short for any measurement; the text is one line with the fix, `needed` are seconds."""

    def __init__(self, text: str, needed: float) -> None:
        super().__init__(text)
        self.needed = needed


@dataclass(frozen=True)
class Effort:
    """How many new layouts are measured, how often each cell reads, and after how many rounds it ends."""

    layouts: int
    repeats: int
    rounds: int = ROUNDS
    most_rounds: int = ROUNDS

    @property
    def adaptive(self) -> bool:
        """Whether rounds are added where a comparison is open."""
        return self.most_rounds > self.rounds


def limit(asked: float | None, find: Callable[[float], object], probed: Iterable[Storage]) -> float:
    """Return how long everything may take: what is asked, else a minute, or what `find` says that is needed.

    `find` raises TooShort. Without anything asked a throttled site among those probed has more.
    """
    if asked is not None:
        find(asked)
        return asked
    found = usual(probed)
    while True:
        try:
            find(found)
        except TooShort as short:
            # A little more, since what was found is rounded; another site may need more again.
            found = max(1.02 * short.needed, 1.02 * found)
        else:
            return found


def usual(probed: Iterable[Storage]) -> float:
    """Return how long everything may take where nobody says: longer where a site is throttled."""
    return USUAL_THROTTLED_S if any(one.bytes_per_s is not None for one in probed) else USUAL_S


def processes_seconds(storage: Storage) -> float:
    """Return what a cell takes beside writing and reading, and what it reads at least on a throttled site."""
    return CELL_S + (ENOUGH_SECONDS if storage.bytes_per_s is not None else 0.0)


def check(seconds: float, reads: int, always: int) -> None:
    """Raise TooShort where not even the processes of the fewest cells fit into the time."""
    cells = (STEPS[-1][0] + always) * reads * ROUNDS
    if OVERHEAD_S + cells * CELL_S > seconds:
        raise _too_short(seconds, STEPS[-1][0] + always, reads, OVERHEAD_S + cells * CELL_S)


def _too_short(seconds: float, layouts: int, reads: int, needed: float) -> TooShort:
    about = math.ceil(needed / 5) * 5
    return TooShort(
        f"{seconds:g} s are too short to measure {layouts} layouts read in {reads} ways; about {about} s are "
        "needed (SECONDS)",
        needed,
    )


def run_bytes(candidate: Candidate, array: Array) -> float:
    """Return how many bytes lie beside each other in the array as in a file; math.inf for one piece."""
    if candidate.order:
        return array.itemsize
    if candidate.chunks is None:
        return math.inf
    along = run_axis(candidate.chunks, array.shape)
    return math.prod(candidate.chunks[along:]) * array.itemsize


def chunk_files(candidate: Candidate, array: Array) -> int:
    """Return how many chunks of a layout are files of their own: in HDF5 none, in any other format all."""
    if candidate.format == HDF5 or candidate.chunks is None:
        return 0
    return chunk_count(array.shape, candidate.chunks)


def turning_seconds(code: Coded, run: float) -> float:
    """Return what a byte of the array takes until it is as in a file; `run` bytes lie beside each other."""
    return TURN_S + RUN_S / run + code.encode_s / processors()


def copies_seconds(itemsize: int, storage: Storage) -> float:
    """Return what a byte of the array takes in a round of two copies, one turned element by element."""
    turned = turning_seconds(USUAL, math.inf) + turning_seconds(USUAL, itemsize)
    return FILES_OF_COPIES * (turned + 2 * USUAL.ratio * storage.to_device_s)


def byte_seconds(fixed: Sequence[Coded], layouts: int, repeats: int, reads: int, storage: Storage) -> float:
    """Return the seconds that a byte of the array takes in one round of all layouts.

    `fixed` are those that are measured anyway, of which it is known what their filters take; of the others,
    the new ones, and of what is read only a usual share is. All reads of a layout read one file.
    """
    codes = [*fixed, *([USUAL] * layouts)]
    writing = sum(turning_seconds(code, math.inf) + code.ratio * storage.to_device_s for code in codes)
    return writing + len(codes) * reads * (1 + repeats) * READ_SHARE * storage.ahead_s


def step(
    seconds: float, spent: float, reads: int, fixed: Sequence[Coded], array: Array, storage: Storage
) -> tuple[Effort, float]:
    """Return how much to measure and how many bytes of the array, where `spent` seconds are gone already.

    `fixed` says what filters make of the layouts that are measured anyway. Two copies may come on top, which
    few reads leave no time for where the whole is short. Raises TooShort.
    """
    short = math.inf
    raw_bytes = math.prod(array.shape) * array.itemsize
    of_cells = reads * processes_seconds(storage)
    for copies, (layouts, repeats) in itertools.product((True, False) if reads > 1 else (False,), STEPS):
        each = byte_seconds(fixed, layouts, repeats, reads, storage)
        processes = (layouts + len(fixed)) * (FILE_S + of_cells)
        if copies:
            each += copies_seconds(array.itemsize, storage)
            processes += FILES_OF_COPIES * FILE_S + of_cells
        each, processes = PREPARE_S + ROUNDS * each, OVERHEAD_S + ROUNDS * processes
        part = (seconds * (1 - PREDICTING_SHARE) - spent - processes) / each
        if part >= min(raw_bytes, LEAST_BYTES):
            return Effort(layouts, repeats), min(part, raw_bytes)
        needed = (spent + processes + each * min(raw_bytes, LEAST_BYTES)) / (1 - PREDICTING_SHARE)
        short = min(short, needed)
    raise _too_short(seconds, STEPS[-1][0] + len(fixed), reads, short)


@dataclass(frozen=True)
class Planned:
    """A layout that may be measured: what is predicted of the part, what a byte takes until it is as in the
    file, of two copies both, in how many files of a round it lies, and how many chunks are files themselves.
    """

    predicted: Predicted
    turning_s: float
    files: int = 1
    chunk_files: int = 0

    def seconds(self, reads: Sequence[Read], raw_bytes: float, repeats: int, storage: Storage) -> float:
        """Return about how long a round of it takes: files written and synced, and read."""
        device = self.predicted.file_bytes * storage.to_device_s
        writing = self.files * (FILE_S + raw_bytes * self.turning_s + device)
        writing += self.chunk_files * (storage.file_s or 0.0)
        least, evicting = processes_seconds(storage), self.chunk_files * (storage.evict_s or 0.0)
        return writing + sum(
            max(CELL_S + (1 + repeats) * (self.predicted.times[read.name] + evicting), least)
            for read in reads
        )


def effort(
    left: float, always: Sequence[Planned], new: Sequence[Planned], reads: Sequence[Read], planned: Effort,
    raw_bytes: float, storage: Storage,
) -> tuple[Effort, float]:  # fmt: skip
    """Return how much of what was planned fits into what is `left`, and about how long a round of it takes.

    `always` are measured anyway, of `new` as many as fit, best first; `raw_bytes` are those of the part.
    Where time is left, rounds may be added.
    """
    steps = [one for one in STEPS if one[0] <= planned.layouts and one[1] <= planned.repeats]
    for layouts, repeats in steps or STEPS[-1:]:
        each = [*always, *new[:layouts]]
        rounds = sum(one.seconds(reads, raw_bytes, repeats, storage) for one in each)
        if rounds * ROUNDS <= left - OVERHEAD_S:
            break
    # A look at the rounds so far is a run of Snakemake of its own.
    more = int((left - OVERHEAD_S - LOOK_S - rounds * ROUNDS) / max(rounds, 1e-9))
    return Effort(layouts, repeats, ROUNDS, ROUNDS + min(max(more, 0), MOST_ADDED)), rounds
