"""The seam of storage formats for ragged rows: what their module offers beside what every format does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol

from hyperslab.data.rows import Lengths, RowBlock, Rows
from hyperslab.formats import Store

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperslab.data.values import Values
    from hyperslab.specifications import Specification

# Rows of one dataset: a run, or some of them in ascending order.
Numbers = Sequence[int]


class OpenRows(ABC):
    """One or several datasets of ragged rows in one open file, known by their numbers from 0."""

    @abstractmethod
    def writer(self, part: int, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of rows `first` and following of dataset `part` that lacks nothing but the write.

        A dataset that grows is made longer by it.
        """

    @abstractmethod
    def reader(self, part: int, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows of dataset `part` that lacks nothing but the read."""

    def replacer(self, part: int, number: int, row: npt.NDArray[Any]) -> Callable[[], None]:
        """Return a replacement of one row of dataset `part`, of any length, that lacks nothing but the call.

        Asked for only of layouts that have no `rewrite_refusal`, on a file that `modify` opened.
        """
        raise NotImplementedError

    @abstractmethod
    def block(self, found: Any) -> RowBlock:
        """Return what a read gave as a block of rows, its pieces joined; no stopwatch measures that."""

    def columns(self) -> dict[str, Any]:
        """Return what the library says of itself meanwhile, as columns of the table; many keep no counts."""
        return {}

    @abstractmethod
    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""

    @abstractmethod
    def close(self) -> None:
        """Close datasets and file."""


class RowsAppender(Protocol):
    """One dataset of ragged rows to which rows are added while others read it."""

    def appender(self, first: int, block: RowBlock) -> Callable[[], None]:
        """Return an append of rows `first` and following that lacks nothing but the call.

        When the call returns, those who look at the file find the rows.
        """

    def columns(self) -> dict[str, Any]:
        """Return what the library says of itself meanwhile, as columns of the table."""

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""

    def close(self) -> None:
        """Close dataset and file."""


class RowsFollower(Protocol):
    """The same dataset, as another process reads it meanwhile."""

    def look(self) -> range:
        """Look at the file anew; return the numbers of the rows that came since the last look, all whole."""

    def read(self, numbers: range) -> RowBlock:
        """Return the rows that the last look found."""

    def close(self) -> None:
        """Close dataset and file."""


class Following(Protocol):
    """What a format offers whose files can be read while rows are added."""

    def create(self, path: str, spec: Specification, lengths: Lengths) -> RowsAppender:
        """Create a file with an empty dataset that is to have rows of these lengths, and let others read."""

    def open(self, path: str, spec: Specification) -> RowsFollower:
        """Open that file beside its writer."""


class RowsFormat(Store):
    """What a format of ragged rows must offer beside."""

    # How files are read while rows are added; None where they cannot be.
    following: Following | None = None

    @abstractmethod
    def create(self, path: str, spec: Specification, parts: Sequence[Lengths], growing: bool) -> OpenRows:
        """Create a file with a dataset for each of `parts`, the lengths of its rows; empty where it grows."""

    @abstractmethod
    def open(self, path: str, spec: Specification) -> OpenRows:
        """Open for reading with the library settings of `spec`."""

    def modify(self, path: str, spec: Specification) -> OpenRows:
        """Open a file for reading and for replacing rows.

        Asked for only of layouts that have no `rewrite_refusal`.
        """
        raise NotImplementedError

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new file with one dataset, block by block in the order of rows; returns "plain"."""
        assert isinstance(values, Rows)
        with closing(self.create(path, spec, [values.lengths], False)) as opened:
            for first, stop in values.filled_up(spec["layout"].get("width", 0)).blocks():
                opened.writer(0, first, values.run(first, stop))()
        return "plain"
