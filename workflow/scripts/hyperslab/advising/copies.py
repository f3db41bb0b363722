"""Two copies of an array in one file, each for the reads that it serves best."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab.advising.candidates import HDF5, Candidate
from hyperslab.advising.model import Predicted
from hyperslab.advising.reads import Read, shares
from hyperslab.results.two_copies import AND, PAYS, gain, geometric_mean

# Of all candidates so many of the best in all, and of the best for each read, are tried in pairs.
OF_ALL, OF_A_READ = 30, 6


@dataclass(frozen=True)
class TwoCopies:
    """Two layouts in one file; `reads` are those that the second one serves."""

    first: Candidate
    second: Candidate
    reads: tuple[str, ...]

    @property
    def name(self) -> str:
        """A name that a study can give the layout."""
        return self.first.name + AND + self.second.name

    def of(self, read: str) -> Candidate:
        """Return the copy that serves a read."""
        return self.second if read in self.reads else self.first

    def layout(self, axes: Sequence[str] = ()) -> dict[str, Any]:
        """Return the layout as a study says it; `axes` are the names of those of the array."""
        return {**self.first.layout(axes), "second": {**self.second.layout(axes), "cases": list(self.reads)}}


def best_pair(
    ordered: Sequence[Predicted], reads: Sequence[Read], most_bytes: float, floor_s: float,
    least: float = PAYS,
) -> tuple[TwoCopies, Predicted] | None:  # fmt: skip
    """Return the two copies that are predicted to be best within `most_bytes`, with their times and bytes.

    `ordered` are all candidates, best first. None where no two pay: by the geometric mean over the reads,
    weighted by how often each happens, they are not `least` times as good as the best single layout.
    """
    weights = shares(reads)
    asked = [read.name for read in reads if weights[read.name] > 0]
    known = [one for one in ordered if one.candidate.format == HDF5 and not one.candidate.order]
    if len(asked) < 2 or not known:
        return None
    kept = {one.candidate: one for one in known[:OF_ALL]}
    for name in asked:
        for one in sorted(known, key=lambda entry: entry.times[name])[:OF_A_READ]:  # noqa: B023
            kept[one.candidate] = one
    fitting = [one for one in ordered if one.file_bytes <= most_bytes] or ordered
    single = min(fitting, key=lambda one: geometric_mean(one.times, weights, floor_s))
    best: tuple[tuple[float, float], Predicted, Predicted] | None = None
    for pair in itertools.combinations(kept.values(), 2):
        served = sum(pair[1].times[name] < pair[0].times[name] for name in asked)
        # Each has to be for some of the reads.
        if not 0 < served < len(asked) or sum(one.file_bytes for one in pair) > most_bytes:
            continue
        times = {name: min(one.times[name] for one in pair) for name in asked}
        # Where all is below what anybody notices, the times themselves decide.
        better = (gain(single.times, times, weights, floor_s), gain(single.times, times, weights, 0.0))
        if best is None or better > best[0]:
            best = (better, *pair)
    if best is None or best[0][0] < least:
        return None
    _, first, second = best
    own = tuple(name for name in weights if second.times[name] < first.times[name])
    times = {name: min(first.times[name], second.times[name]) for name in weights}
    # The names of a subclass are those of a study; in a copy it is a layout like any other.
    layouts = [Candidate(one.candidate.chunks, one.candidate.filters) for one in (first, second)]
    found = TwoCopies(layouts[0], layouts[1], own)
    return found, Predicted(layouts[0], times, first.file_bytes + second.file_bytes)
