"""Ragged rows under any order of deeds: after each, they are what a plain list of arrays is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hyperslab import ragged
from hyperslab.ragged import held

TYPES = [np.dtype(name) for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8",
                                     "c16", ">i2", ">f8", "?")]  # fmt: skip
RECORDS = [
    np.dtype([("time", "<f8"), ("charge", "<i2")]),
    np.dtype([("a", "u1"), ("b", ">u4", (3,)), ("c", [("x", "<f2"), ("y", "S3")])]),
]
FILTERS: list[dict[str, Any]] = [{}, {"compression": "gzip"}, {"compression": "lzf", "fletcher32": True}]
LENGTHS = st.integers(0, 40)


class Rows(RuleBasedStateMachine):
    """A file of ragged rows, and the same rows in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._patch = pytest.MonkeyPatch()
        # As if rows were far larger than a chunk, and chunks far larger than rows.
        self._patch.setattr(held, "LEAST_BYTES", 256)
        self._patch.setattr(held, "MOST_BYTES", 700)
        self._patch.setattr(held, "MOST_ROWS", 50)
        self._path = Path(self._folder.name) / "a.h5"
        self._seed = 0

    @initialize(
        dtype=st.sampled_from(TYPES + RECORDS), chunk_bytes=st.integers(1, 900), row_chunk=st.integers(1, 20),
        filters=st.sampled_from(FILTERS), cache=st.sampled_from([None, 0, 4096]), reuse=st.booleans(),
        libver=st.sampled_from(["earliest", "latest"]),
    )  # fmt: skip
    def begin(self, dtype: np.dtype[Any], libver: str, cache: int | None, **options: Any) -> None:
        """Make the file."""
        self._dtype, self._libver, self._cache = dtype, libver, cache
        self._file = h5py.File(self._path, "w", libver=libver)
        self._rows = ragged.create(self._file, "rows", dtype, chunk_cache=cache, **options)
        self._model: list[npt.NDArray[Any]] = []

    def _made(self, lengths: list[int]) -> list[npt.NDArray[Any]]:
        """Rows of any bytes; booleans are none but 0 and 1."""
        self._seed += 1
        rng, size = np.random.default_rng(self._seed), self._dtype.itemsize
        if self._dtype.kind == "b":
            return [rng.random(length) < 0.5 for length in lengths]
        return [np.frombuffer(rng.bytes(length * size), self._dtype) for length in lengths]

    @rule(lengths=st.lists(LENGTHS, max_size=12))
    def append(self, lengths: list[int]) -> None:
        """Add rows in one call."""
        more = self._made(lengths)
        self._rows.append(more)
        self._model += more

    @rule(lengths=st.lists(LENGTHS, max_size=60))
    def append_block(self, lengths: list[int]) -> None:
        """Add a block."""
        more = self._made(lengths)
        self._rows.append_block(lengths, np.concatenate([np.empty(0, self._dtype), *more], dtype=self._dtype))
        self._model += more

    @precondition(lambda self: self._model)
    @rule(number=st.integers(0, 10**6), length=LENGTHS)
    def replace(self, number: int, length: int) -> None:
        """Replace a row, counted from one end or the other."""
        count = len(self._model)
        place = number % (2 * count) - count
        (self._model[place],) = self._made([length])
        self._rows[place] = self._model[place]

    @rule(share=st.floats(0, 1.2))
    def resize(self, share: float) -> None:
        """Cut off rows, or add empty ones."""
        count = int(len(self._model) * share)
        self._rows.resize(count)
        self._model = self._model[:count]
        self._model += [np.empty(0, self._dtype)] * (count - len(self._model))

    @rule()
    def refuse(self) -> None:
        """Try what cannot be; nothing of it stays."""
        with pytest.raises(ragged.RaggedError):
            self._rows.append([*self._made([3, 0]), np.array(["text"])])
        with pytest.raises(ragged.RaggedError):
            self._rows.append_block([1, 2], self._made([4])[0])

    @rule()
    def flush(self) -> None:
        """Hand everything to the kernel."""
        self._rows.flush()

    @rule(close=st.booleans())
    def reopen(self, close: bool) -> None:
        """Close rows, or them and the file, and go on."""
        self._rows.close()
        if close:
            self._file.close()
            self._file = h5py.File(self._path, "r+", libver=self._libver)
        self._rows = ragged.open(self._file["rows"], chunk_cache=self._cache)

    @rule(numbers=st.lists(st.integers(0, 10**6), max_size=10), stop=st.integers(0, 10**6))
    def read(self, numbers: list[int], stop: int) -> None:
        """Read some rows by number, and a run of them."""
        count = len(self._model)
        chosen = [number % count for number in numbers] if count else []
        assert same(self._rows[chosen], [self._model[number] for number in chosen])
        assert same(self._rows[count // 3 : stop % (count + 1)], self._model[count // 3 : stop % (count + 1)])

    @invariant()
    def count(self) -> None:
        """The number of rows is known without writing what is held."""
        if hasattr(self, "_rows"):
            assert len(self._rows) == len(self._model)

    def teardown(self) -> None:
        """Compare everything at the end, in the file and as another one opens it."""
        try:
            if hasattr(self, "_rows"):
                assert same(self._rows[:], self._model)
                assert self._rows.lost_bytes >= 0
                self._rows.close()
                self._file.close()
                with h5py.File(self._path) as file:
                    found = ragged.open(file["rows"])
                    assert same(list(found), self._model) and found.dtype == self._dtype
                    assert found.lengths.tolist() == [len(row) for row in self._model]
        finally:
            self._patch.undo()
            self._folder.cleanup()


def same(found: list[Any], wanted: list[Any]) -> bool:
    return [(row.dtype, row.tobytes()) for row in found] == [(row.dtype, row.tobytes()) for row in wanted]


TestRows = Rows.TestCase
TestRows.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
