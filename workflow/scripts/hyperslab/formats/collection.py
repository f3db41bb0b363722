"""Collections: one array in several files of any format that keeps one, cut along one axis."""

from __future__ import annotations

import math
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.data.selections import Box
from hyperslab.formats.collection_files import Files, ValuesOfFiles, written
from hyperslab.formats.seam import Format, OpenArray
from hyperslab.layouts import layout_of
from hyperslab.measuring import limits
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.processors import processors
from hyperslab.specifications import Specification

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperslab.data.values import Values

# So many files are open at once while they are read.
MOST_OPEN = 128
# Files of filtered chunks are written by several processes where there are many, too small for several each.
MANY, SMALL_BYTES = 8, 32 * 2**20
# Of what a file says of itself, the numbers that are those of all files together.
SUMMED = (
    "file_bytes", "files", "stored_bytes", "data_bytes", "padding_bytes", "padding_predicted_bytes",
    "index_bytes", "index_predicted_bytes", "remainder_bytes", "chunks", "chunks_predicted",
    "chunks_left_alone", "folders", "metadata_bytes",
)  # fmt: skip


class OpenCollection(OpenArray):
    """A collection that is open: each file is opened when it is first needed, and stays open for a while."""

    def __init__(
        self,
        files: Files,
        open_file: Callable[[int], OpenArray],
        most: int = MOST_OPEN,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        self._files, self._open_file, self._most, self._let_go = files, open_file, most, let_go
        self._opened: OrderedDict[int, OpenArray] = OrderedDict()

    def _file(self, number: int) -> OpenArray:
        if number in self._opened:
            self._opened.move_to_end(number)
            return self._opened[number]
        if len(self._opened) >= self._most:
            self._opened.popitem(last=False)[1].close()
        found = self._opened[number] = self._open_file(number)
        return found

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the elements of `box`, put together from all files that hold some."""
        touched = list(self._files.touched(box))
        if len(touched) == 1:
            number, inside, _ = touched[0]
            return self._file(number).read(inside)
        result: npt.NDArray[Any] | None = None
        for number, inside, where in touched:
            block = self._file(number).read(inside)
            if result is None:
                result = np.empty(box.extent, block.dtype)
            result[where] = block
        assert result is not None
        return result

    def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
        """Return `read` of `box`; opening the files that hold it is a part of that."""
        return lambda: self.read(box)

    def ahead(self, box: Box) -> None:
        """Open the files that hold a box, and have the kernel begin to read it, where they know how."""
        for number, inside, _ in self._files.touched(box):
            if told := getattr(self._file(number), "ahead", None):
                told(inside)

    def write(self, box: Box, block: npt.NDArray[Any]) -> None:
        """Store `block` at `box`."""
        for number, inside, where in self._files.touched(box):
            self._file(number).write(inside, block[where])

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""
        for opened in self._opened.values():
            opened.flush()

    def close(self) -> None:
        """Close all files, and let their client go."""
        while self._opened:
            self._opened.popitem()[1].close()
        self._let_go()


class Collections(Format):
    """The collections of one format: `one` is that of a single file."""

    def __init__(self, one: Format) -> None:
        self._one = one
        # All files lie where one by itself would.
        self.artifact: type[Artifact] = one.artifact
        self._workers_memory_bytes = 0

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries that write and read one file."""
        return self._one.versions()

    def prepare(self, spec: Specification) -> None:
        """Load what the layout needs."""
        self._one.prepare(Files("", spec).specification(0))

    def create(self, path: str, spec: Specification) -> OpenCollection:
        """Create the folder; its files are made as they are written, and stay open until they are closed.

        Raises OSError where a process may not have so many.
        """
        files = Files(path, spec)
        if self._one.stays_open:
            limits.allow_files(len(files.parts), "writing")
        Path(path).mkdir()
        make = self._one.create
        return OpenCollection(files, lambda n: make(files.path(n), files.specification(n)), len(files.parts))

    def open(self, path: str, spec: Specification) -> OpenCollection:
        """Open for reading; raises FileNotFoundError where one of the files is not there.

        Of files in an object store the first that is read finds out: to list them all is a question of its
        own (`open_all`). One client opens all of them.
        """
        files = Files(path, spec)
        if layout_of(spec["layout"]).abilities.pages:
            there = {entry.name for entry in os.scandir(path)}
            if missing := [
                part.name
                for number, part in enumerate(files.parts)
                if os.path.basename(files.path(number)) not in there
            ]:
                raise FileNotFoundError(
                    f"{path}: {len(missing)} of {len(files.parts)} files are not there: {missing[0]}"
                )
        one, let_go = self.of_one_client(path, spec)
        return OpenCollection(files, lambda n: one.open(files.path(n), files.specification(n)), let_go=let_go)

    def of_one_client(self, path: str, spec: Specification) -> tuple[Format, Callable[[], None]]:
        """Return the format of one file, whose files are all opened by one client, and what lets that go.

        A format whose clients are worth it offers the same.
        """
        if offered := getattr(self._one, "of_one_client", None):
            found: tuple[Format, Callable[[], None]] = offered(path, spec)
            return found
        return self._one, lambda: None

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new collection, file by file, each as one by itself is filled; says which way that was.

        Small files whose chunks have filters are written by several processes, a file each.
        """
        Path(path).mkdir()
        files = Files(path, spec)
        count = len(files.parts)
        writers = processors()
        filtered = bool(layout_of(spec["layout"]).filters_text())
        one = math.prod(values.shape) * values.dtype.itemsize / count
        if filtered and one < SMALL_BYTES and count >= MANY and writers > 1:
            ways, self._workers_memory_bytes = written(files, self._one, values, writers)
        else:
            ways = Counter(
                self._one.generate(files.path(n), files.specification(n), files.values(n, values))
                for n in range(count)
            )
            self._workers_memory_bytes = self._one.workers_memory_bytes()
        return ", ".join(sorted(ways))

    def kept_values(self, values: Values, spec: Specification) -> Values | None:
        """Return what lossy filters leave of values in files that are made whole, None where nobody knows."""
        files = Files("", spec)
        kept = []
        for number in range(len(files.parts)):
            one = self._one.kept_values(files.values(number, values), files.specification(number))
            if one is None:
                return None
            kept.append(one)
        return ValuesOfFiles(files, kept)

    def workers_memory_bytes(self) -> int:
        """Return the largest memory of the processes that `generate` started, summed, in bytes."""
        return self._workers_memory_bytes

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what the files say of themselves: sizes and counts of all, the settings of the longest."""
        files = Files(path, spec)
        found = [self._one.report(files.path(n), files.specification(n)) for n in range(len(files.parts))]
        longest = max(range(len(found)), key=lambda number: files.parts[number].count)
        sums = {name: _sum(report.get(name) for report in found) for name in SUMMED if name in found[0]}
        shares = [report.get("adjacent_share") for report in found]
        known = [share for share in shares if share is not None]
        apart = (
            {"adjacent_share": sum(known) / len(known) if known else None}
            if "adjacent_share" in found[0]
            else {}
        )
        return {**found[longest], **sums, **apart}

    def stored_sizes(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what `predict` needs from the files, by number."""
        files = Files(path, spec)
        return {
            str(n): self._one.stored_sizes(files.path(n), files.specification(n))
            for n in range(len(files.parts))
        }

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the chunks touched and their bytes in all files.

        What is requested is not known: opening a file, which is a part of a selection here, asks for more.
        """
        files, chunks, size = Files("", spec), 0.0, 0.0
        for number, inside, _ in files.touched(box):
            found = self._one.predict(inside, files.specification(number), stored[str(number)])
            chunks += found["chunks_touched"]
            size += found["chunk_bytes"]
        return {
            "chunks_touched": chunks,
            "chunk_bytes": size,
            "requested": math.nan,
            "files_touched": files.touched_by(box),
        }


def _sum(values: Iterator[float | None]) -> float | None:
    """Return the sum; None where a file does not know its own."""
    total: float = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
