"""Packs as advice would have foreseen them: each layout's times beside what is predicted for the same boxes.

Speeds are round numbers that no pack had part in; stored sizes are those of the files.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.advising.candidates import Candidate, Filter
from hyperslab.advising.coding import coded, samples
from hyperslab.advising.model import Array, of_box, predict
from hyperslab.advising.prices import Coded, Storage, seconds
from hyperslab.advising.prospect import InPlace
from hyperslab.advising.reads import Read
from hyperslab.data.donor_paths import SEPARATOR
from hyperslab.data.selections import Box, asked_boxes, generator
from hyperslab.data.values import Values
from hyperslab.formats.donor_opening import DonorError, open_donor
from hyperslab.layouts.chunks import chunks_touched
from hyperslab.records import Record
from hyperslab.results.packs import SUFFIX, records
from hyperslab.results.steadied import deviation
from hyperslab.studies.case_kinds import kind_of

Floats = npt.NDArray[np.float64]

# Round numbers for a disk, and for gzip the seconds to decode a byte and a chunk.
PRIOR = Storage(
    latency_s=100e-6, waited_s=1e-9, ahead_s=0.5e-9, cached_s=0.1e-9, lookup_s=5e-6, open_s=1e-3,
    read_ahead_bytes=8 * 2**20,
)  # fmt: skip
DECODE_S, DECODE_CHUNK_S = 2e-9, 5e-6
# Filters that the decoding speed stands for, and those beside them that take next to no time.
KNOWN = {"gzip", "shuffle"}
# Settings of the library that the prediction knows.
FORESEEN = {"chunk_cache_bytes", "chunk_cache_slots", "chunk_cache_w0", "sieve_bytes", "libver"}
# Advice compares layouts by three rounds of seven reads. A pack of few rounds keeps most of them for judging:
# then fewer rounds have as many reads.
COMPARED_BY, READS = 3, 21
FEWEST = 6


@dataclass(frozen=True)
class Layout:
    """A layout of a pack as advice would name it, of one that advice may name."""

    name: str
    candidate: Candidate
    code: Coded


@dataclass(frozen=True)
class Measured:
    """What a pack says at one site: layouts, cases with their extents, and logs of seconds.

    `measured`, `brief` and `predicted` are cases x layouts x rounds: what a round's requests took, what as
    many of them took as advice makes, and what was predicted for the boxes of these; `usual` is cases x
    layouts, predicted for boxes in general.
    """

    name: str
    layouts: Sequence[Layout]
    left_out: int
    cases: Sequence[str]
    measured: Floats
    brief: Floats
    predicted: Floats
    usual: Floats

    @property
    def wrong(self) -> float:
        """By how much predictions are wrong here, as deviation of logs."""
        return deviation(self.brief, self.predicted)


def slower(storage: Storage, factor: float) -> Storage:
    """Return a storage of which everything takes `factor` times as long."""
    times = {key: value * factor for key, value in asdict(storage).items() if key.endswith("_s") and value}
    return replace(storage, **{key: value for key, value in times.items() if key != "bytes_per_s"})


def candidate_of(layout: Mapping[str, Any], axes: Sequence[str]) -> Candidate | None:
    """Return the layout of a record as a candidate; None for one that advice would never name."""
    if layout["format"] != "hdf5" or set(layout) - {
        "format",
        "order",
        "chunks",
        "filters",
        "settings",
        "label",
    }:
        return None
    filters = tuple(
        Filter(one["name"], tuple((k, v) for k, v in one.items() if k != "name")) for one in layout["filters"]
    )
    if any(one.name not in KNOWN for one in filters) or set(layout["settings"]) - FORESEEN:
        return None
    order = tuple(axes.index(axis) for axis in layout["order"])
    chunks = tuple(layout["chunks"]) if layout["chunks"] else None
    return Candidate(chunks, filters, () if order == tuple(range(len(order))) else order)


def boxes_of(record: Record, state: str = "cold") -> list[Box]:
    """Return the boxes of a read cell's repeats in a state, as far as it had them.

    Newer records name them; of older ones they are known by the protocol, of which the third drew them all
    over the array without a Latin hypercube, at the same places in all studies.
    """
    spec = record["specification"]
    rows = [row for row in record["repeats"] if row["state"] == state]
    extent, shape = tuple(spec["case"]["extent"]), spec["dataset"]["shape"]
    if all("origin" in row for row in rows):
        return [Box(tuple(row["origin"]), extent) for row in rows]
    if spec["protocol"] > 3:
        return list(itertools.islice(asked_boxes(spec, state), len(rows)))
    rng = generator(spec["seed"], spec["case"]["name"], spec["round"], state)
    highest = np.asarray(shape) - np.asarray(extent)
    origins = rng.integers(0, highest, size=(spec["repeats"][state], len(shape)), endpoint=True)
    return [Box(tuple(map(int, origin)), extent) for origin in origins][: len(rows)]


def known_boxes(record: Record, candidate: Candidate) -> list[tuple[Box, Mapping[str, Any]]]:
    """Return the cold repeats of a cell with their boxes, where the counted chunks say so."""
    rows = [row for row in record["repeats"] if row["state"] == "cold"]
    pairs = zip(boxes_of(record), rows, strict=False)
    if candidate.chunks is None:
        return list(pairs)
    return [
        (box, row)
        for box, row in pairs
        if chunks_touched(box.origin, box.extent, candidate.chunks) == row["chunks_touched"]
    ]


def asked_cold(record: Record) -> bool:
    """Tell whether a record is of selections that were read cold in a main round, as advice asks for them."""
    spec = record["specification"]
    case = spec["case"]
    plain = not case.get("pattern") and not case.get("level") and not case.get("memory_dtype")
    main = spec["round"].startswith("r") and any(row["state"] == "cold" for row in record["repeats"])
    return bool(kind_of(case).reads_selections and plain and main and "rows" not in spec["dataset"])


def storage_of(record: Record, storage: Storage) -> Storage:
    """Return a storage with the chunk cache that was in force."""
    cache = record["file"]["settings"].get("chunk_cache_bytes", storage.chunk_cache_bytes)
    return replace(storage, chunk_cache_bytes=cache)


class Replay:
    """The records of one site of a pack, taken in one by one."""

    def __init__(self, name: str, storage: Storage, values: Values | None, most_rounds: int | None) -> None:
        self._name, self._storage, self._values, self._most = name, storage, values, most_rounds
        self._layouts: dict[str, Layout] = {}
        self._seen: dict[tuple[Any, ...], str] = {}
        self._other: set[str] = set()
        self._arrays: dict[str, tuple[Array, tuple[int, ...]]] = {}
        # (case, layout, round) -> seconds measured of all reads, and measured and predicted of a few
        self._cells: dict[tuple[str, str, int], tuple[list[float], list[float], list[float]]] = {}

    def take(self, name: str, record: Record) -> None:
        """Take in the record of a cell of the layout `name`."""
        spec = record["specification"]
        number = int(spec["round"][1:])
        if self._most is not None and number >= self._most:
            return
        axes = spec["dataset"]["axes"]
        candidate = candidate_of(spec["layout"], axes)
        # Layouts that differ by their settings or labels alone are one to advice.
        if candidate is None or self._seen.setdefault(_key(candidate), name) != name:
            self._other.add(name)
            return
        array = Array(tuple(spec["dataset"]["shape"]), np.dtype(spec["dataset"]["dtype"]).itemsize)
        if name not in self._layouts:
            self._layouts[name] = Layout(name, candidate, self._code(record, candidate, array))
        layout, case = self._layouts[name], spec["case"]["name"]
        self._arrays[case] = array, tuple(spec["case"]["extent"])
        rows = [row for row in record["repeats"] if row["state"] == "cold"]
        waited = [_waited(row) for row in rows]
        storage = storage_of(record, self._storage)
        few = known_boxes(record, candidate)[:READS]
        foretold = [
            float(seconds(of_box(candidate, array, box, storage, layout.code), storage, layout.code))
            for box, _ in few
        ]
        if foretold:
            self._cells[case, name, number] = waited, [_waited(row) for _, row in few], foretold

    def _code(self, record: Record, candidate: Candidate, array: Array) -> Coded:
        """Return what the filters of a layout make of the data, by its file and by samples, if any."""
        if not any(one.name == "gzip" for one in candidate.filters) or candidate.chunks is None:
            return Coded(1.0, 0.0)
        raw = math.prod(candidate.chunks) * array.itemsize
        ratio = record["file"]["stored_bytes"] / record["file"]["chunks"] / raw
        if self._values is None:
            return Coded(ratio, DECODE_S, chunk_s=DECODE_CHUNK_S)
        tried = coded(samples(self._values, candidate.chunks), candidate.filters)
        return Coded(ratio, tried.decode_s)

    def measured(self) -> Measured | None:
        """Return what the records say; None where too few layouts have all cases in two rounds."""
        cases = sorted(self._arrays)
        numbers = sorted({number for _, _, number in self._cells})

        # Rounds that were added for some layouts alone say nothing of the others.
        def has(name: str, number: int) -> bool:
            return all((case, name, number) in self._cells for case in cases)

        kept = [name for name in self._layouts if sum(has(name, number) for number in numbers[:2]) == 2]
        rounds = [number for number in numbers if all(has(name, number) for name in kept)]
        if len(kept) < FEWEST or len(rounds) < 2:
            return None
        each = math.ceil(READS / compared_by(len(rounds)))
        table = np.log(
            [[[_told(*self._cells[case, name, r], each) for r in rounds] for name in kept] for case in cases]
        )
        layouts = [self._layouts[name] for name in kept]
        usual = np.log(
            [
                [predict(one.candidate, array, [Read("r", extent)], self._storage, one.code).times["r"]
                 for one in layouts]
                for array, extent in (self._arrays[case] for case in cases)
            ]
        )  # fmt: skip
        left_out = len(self._other) + len(self._layouts) - len(kept)
        return Measured(
            self._name, layouts, left_out, cases, table[..., 0], table[..., 1], table[..., 2], usual
        )


def compared_by(rounds: int) -> int:
    """Return how many of a pack's rounds compare layouts; the others judge."""
    return min(COMPARED_BY, rounds // 2)


def _told(waited: list[float], brief: list[float], foretold: list[float], each: int) -> list[float]:
    """Return the median of all reads, that of the first `each`, and the mean predicted for these."""
    return [float(np.median(waited)), float(np.median(brief[:each])), float(np.mean(foretold[:each]))]


def _waited(row: Mapping[str, Any]) -> float:
    return float(row["open_s"] + row["time_s"])


def _key(candidate: Candidate) -> tuple[Any, ...]:
    return candidate.chunks, candidate.filters, candidate.order


@contextmanager
def data_of(shape: Sequence[int], dtype: str, donor: str) -> Iterator[Values]:
    """Open the data that filled the files of a pack, for samples of it; raises DonorError."""
    file, _, dataset = donor.partition(SEPARATOR)
    with open_donor(Path(file), dataset or None) as array:
        if len(array.shape) != len(shape):
            axes = f"{len(array.shape)} axes, and the array of the pack {len(shape)}"
            raise DonorError(f"{donor}: has {axes}; it did not fill these files")
        held = [min(a, b) for a, b in zip(array.shape, shape, strict=True)]
        yield InPlace(array, held, dtype, Path(file))


def replayed(
    pack: Path, donor: str | None = None, storage: Storage = PRIOR, most_rounds: int | None = None
) -> list[Measured]:
    """Return what a pack says at each of its sites, where that is enough; raises PackError, and DonorError
    for data that cannot have filled it.
    """
    name = pack.name.removesuffix(SUFFIX)
    sites: dict[str, Replay] = {}
    with ExitStack() as stack:
        for layout, record in records(pack):
            if not asked_cold(record):
                continue
            site, dataset = record["site"], record["specification"]["dataset"]
            if site not in sites:
                values = None
                if donor:
                    values = stack.enter_context(data_of(dataset["shape"], dataset["dtype"], donor))
                sites[site] = Replay(name, storage, values, most_rounds)
            sites[site].take(layout, record)
        found = {site: one.measured() for site, one in sites.items()}
    several = len(found) > 1
    return [replace(one, name=f"{name} {site}" if several else name) for site, one in found.items() if one]
