"""What advice is asked for: an array in a file, or one that is not there yet, and its measured part."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab.advising.candidates import Candidate, Filter
from hyperslab.advising.found import Found, arrays, look, meant, shortened
from hyperslab.advising.reads import Read, line, usual
from hyperslab.data.donor_paths import SEPARATOR, located
from hyperslab.formats.donor_files import Used, used
from hyperslab.formats.donor_opening import DonorError
from hyperslab.layouts.chunks import chunk_count, chunks_per_axis
from hyperslab.layouts.hdf5_filters import FILTERS
from hyperslab.layouts.parameters import spelt_out
from hyperslab.studies.advice_schema import Advise
from hyperslab.text import shape

TODAY, CONTIGUOUS = "as-it-is", "contiguous"
# Along an axis that no read takes all of, the part has room for so many of the longest read.
PLACES = 8
# Of a file of many arrays so many are shown.
MOST_LINES = 20


class Unclear(Exception):
    """It is not clear which array is meant; the text has a line to copy for each."""


@dataclass(frozen=True)
class Subject:
    """The array: what it is called, what a study says of it (`dataset`), what its file says, if any, and what
    of that file, or of a donor, its values are.
    """

    words: str
    spec: dict[str, Any]
    found: Found | None = None
    used: Used | None = None

    @property
    def axes(self) -> list[str]:
        """Names of the axes, slowest first."""
        return list(self.spec["axes"])

    @property
    def shape(self) -> list[int]:
        """Elements along each axis."""
        return list(self.spec["shape"])

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(np.dtype(self.spec["dtype"]).itemsize)

    @property
    def raw_bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.itemsize

    @property
    def grows(self) -> bool:
        """Whether the user's dataset may become longer along some axis."""
        return self.found is not None and self.found.grows

    def part(self, extents: Sequence[int]) -> dict[str, Any]:
        """Return what a study says of the first `extents` elements along each axis."""
        return {**self.spec, "shape": list(extents)}

    def has_longer_chunks(self, extents: Sequence[int]) -> bool:
        """Tell whether chunks of today's layout are longer than a part with these extents."""
        chunks = self.found.chunks if self.found else None
        return bool(chunks) and any(one > size for one, size in zip(chunks or (), extents, strict=True))

    def today(self, extents: Sequence[int]) -> tuple[str | None, Candidate | None]:
        """Return the name of today's layout in the study, and which candidate it is; None where unknown."""
        found = self.found
        if found is None or found.unknown:
            return None, None
        if found.chunks is None:
            return CONTIGUOUS, Candidate(None)
        filters = []
        for one in found.filters:
            chosen = spelt_out(one, FILTERS)
            filters.append(Filter(chosen.pop("name"), tuple(chosen.items())))
        chunks = tuple(min(part, size) for part, size in zip(found.chunks, extents, strict=True))
        return TODAY, Named(chunks, tuple(filters))


class Named(Candidate):
    """Today's layout, under the name that it has in the study."""

    @property
    def name(self) -> str:
        return TODAY


def subject_of(asked: Advise) -> Subject:
    """Return the array that is meant; raises DonorError, NotThere (data.donor_paths) and Unclear."""
    if asked.dataset is not None:
        spec: dict[str, Any] = asked.dataset.model_dump(mode="json", exclude_none=True)
        words = f"an array of {shape(asked.dataset.shape)} {asked.dataset.dtype}"
        return Subject(words, spec, used=used(spec) if asked.dataset.donor else None)
    file, dataset = located({"path": asked.file})
    if not dataset and file.is_file() and h5py.is_hdf5(file) and len(wide := meant(arrays(file))) != 1:
        raise Unclear("\n".join(_lines_to_copy(file, wide)))
    found = look(file, dataset)
    donor = {"path": str(found.file), **({"dataset": found.dataset} if found.dataset else {})}
    spec = {"axes": found.axes, "shape": found.shape, "dtype": found.dtype, "donor": donor}
    name = f"{found.file.name}{SEPARATOR}{found.dataset}" if found.dataset else found.file.name
    own = Used(found.file, found.dataset, found.shape, found.pieces or [])
    return Subject(name, spec, found, own)


def check_named(asked: Advise) -> None:
    """Raise Unclear, with lines to copy, where a file of HDF5 is named alone: neither an array nor a read.

    Raises DonorError where it holds no array.
    """
    file, dataset = located({"path": asked.file})
    if not dataset and asked.reads is None and file.is_file() and h5py.is_hdf5(file):
        raise Unclear("\n".join(_lines_to_copy(file, meant(arrays(file)))))


def _lines_to_copy(file: Path, names: Sequence[str]) -> list[str]:
    """Return a line of a command for each array, with the usual reads of its shape; raises DonorError where
    there is none.
    """
    if not names:
        raise DonorError(f"{file}: holds no array of integers or floats")
    lines = [f"{file}: copy a line, and say in READS how you read it; these are the usual ways:"]
    for name in names[:MOST_LINES]:
        try:
            found = look(file, name)
        except DonorError as error:
            lines.append(f"    # {error}")
            continue
        said = line(usual(found.axes, found.shape), found.shape)
        place = shlex.quote(f"{file}{SEPARATOR}{name}")
        # Not behind it: some shells hand a comment on as words.
        lines.append(f"    # {name}: {shape(found.shape)} {found.dtype}")
        lines.append(f'    make advise FILE={place} READS="{said}"')
    if len(names) > MOST_LINES:
        lines.append(f"    # and {len(names) - MOST_LINES} more")
    return lines


def part_of(
    shape: Sequence[int], itemsize: int, reads: Sequence[Read], largest: float, chunks: Sequence[int] = (),
    most_chunks: float = math.inf,
) -> list[int]:  # fmt: skip
    """Return the extents of the part of an array that is measured: at most `largest` bytes.

    Axes that no read takes all of are cut first, which changes no read; then the longest ones. Where they
    have room for the `chunks` of today's layout, they are cut to whole ones. If it touched more than
    `most_chunks`, the axes with most of them are cut before all others.
    """
    kept = _cut(shape, itemsize, reads, largest)
    if chunks and chunk_count(kept, chunks) > most_chunks:
        few = shortened(chunks_per_axis(shape, chunks), 1, int(most_chunks))
        short = [min(size, one * chunk) for size, one, chunk in zip(shape, few, chunks, strict=True)]
        kept = _cut(short, itemsize, reads, largest)
    # HDF5 stores all of a chunk of which a part is needed: of a short axis that is a large share of the file.
    return [
        size - size % chunk if chunk <= size < whole else size
        for size, whole, chunk in zip(kept, shape, chunks or shape, strict=True)
    ]


def _cut(shape: Sequence[int], itemsize: int, reads: Sequence[Read], largest: float) -> list[int]:
    """Return the extents to which `part_of` cuts an array for its bytes alone."""
    kept = list(shape)
    longest = [max(read.extent[axis] for read in reads) for axis in range(len(kept))]
    free = [axis for axis, size in enumerate(shape) if longest[axis] < size]
    for axis in sorted(free, key=lambda at: -kept[at]):
        room = int(largest // (math.prod(kept) // kept[axis] * itemsize))
        kept[axis] = min(kept[axis], max(room, PLACES * longest[axis]))
    return shortened(kept, itemsize, int(largest))
