"""Timed parallel writes and reads. Stopwatch: `timed` in mpi/steps.py, the slowest rank from a barrier."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.cases.context import Context, VerificationError
from hyperslab.cases.durable import PLAIN, in_turn
from hyperslab.cases.mpi.communicator import Caches, Ranks, report
from hyperslab.cases.mpi.steps import equal, plain_write, settled, timed
from hyperslab.cases.parallel.interfaces import APIS, Api, Buffers
from hyperslab.cases.parallel.pattern import Pattern, cut
from hyperslab.cases.states import each_state
from hyperslab.measuring.counters import Counters, between
from hyperslab.measuring.pagecache import NotInState
from hyperslab.measuring.residency import cold, still_cold, warm
from hyperslab.measuring.syncing import fsync
from hyperslab.records import Row

PHASES = ("create", "write", "flush", "close", "fsync")
WRITTEN = ("written_bytes", "written_device_bytes", "requested_writes")
READ = ("requested_bytes", "requested_reads", "device_bytes")
# So much of a dataset is made or read back at once, beside what a rank holds of all.
PIECE_BYTES = 32 * 2**20


class Cell:
    """One rank's part of a cell; every method is collective."""

    def __init__(self, ranks: Ranks, context: Context) -> None:
        spec = context.specification
        self._ranks, self._context = ranks, context
        self._pattern = Pattern.of(spec["case"], ranks.rank)
        self._api: Api = APIS[spec["case"]["parallel"]["api"]](ranks.comm, self._pattern, spec, context.path)
        self._plain = str(context.artifact.part(PLAIN))
        self._counters = Counters()
        self._buffers: Buffers = [self._mine(number) for number in range(self._pattern.datasets)]

    def _truth(self, number: int, first: int, size: int) -> Any:
        """Return what a dataset has to hold in `size` bytes from byte `first` on."""
        itemsize = self._context.values.dtype.itemsize
        return self._context.values.block((number, first // itemsize), (1, size // itemsize)).reshape(-1)

    def _mine(self, number: int) -> Any:
        """Return this rank's share of a dataset, whose other bytes are never all in its memory."""
        dtype, pattern = self._context.values.dtype, self._pattern
        found, filled = np.empty(pattern.bytes // dtype.itemsize, dtype), 0
        for first, size in pattern.pieces(PIECE_BYTES):
            piece = self._truth(number, first, size)
            own = piece if size <= pattern.block else pattern.mine(piece)
            found[filled : filled + len(own)] = own
            filled += len(own)
        return found

    def _fsync(self) -> None:
        if self._syncer:
            fsync(Path(self._api.path))

    @property
    def _keeper(self) -> bool:
        """Whether this rank removes the file."""
        return self._api.own_file or self._ranks.rank == 0

    @property
    def _syncer(self) -> bool:
        """Whether this rank writes its node's dirty pages of the file."""
        return self._api.own_file or self._ranks.first

    # Writing

    def _written(self) -> Row:
        """Return one timed write of a new file, which is then read back in full; each phase is a column."""
        self.remove()
        before = self._counters.read()
        steps: dict[str, Callable[[], None]] = {
            "create": self._api.create,
            "write": lambda: self._api.write(self._buffers),
            "flush": self._api.flush,
            "close": self._api.close,
            "fsync": self._fsync,
        }
        columns = {f"{name}_s": timed(self._ranks, steps[name]) for name in PHASES}
        counted = between(before, self._counters.read())
        totals = {name: int(self._ranks.total(counted[name])) for name in WRITTEN}
        self._verify_file()
        return {**columns, "time_s": sum(columns.values()), **totals}

    def writes(self, repeats: int) -> list[Row]:
        """Return timed writes, each beside a plain one; the first of two equal-size writes is discarded."""
        reference = partial(plain_write, self._ranks, self._plain, self._buffers)
        reference()
        common: Row = {"state": "write", **self._common()}
        return [
            {**common, "repeat": repeat, **in_turn(repeat, repeats, reference, self._written)}
            for repeat in range(repeats)
        ]

    def _common(self) -> Row:
        return {"asked_bytes": self._pattern.total_bytes, "processes": self._ranks.size}

    def _verify_file(self) -> None:
        """Read back what was written: the datasets shared out among the ranks, or each rank its own file."""
        own, itemsize = self._api.own_file, self._context.values.dtype.itemsize
        rank, step = (0, 1) if own else (self._ranks.rank, self._ranks.size)
        size = self._pattern.bytes if own else self._pattern.dataset_bytes
        for number in range(rank, self._pattern.datasets, step):
            for first, length in cut(0, size, PIECE_BYTES):
                place = slice(first // itemsize, (first + length) // itemsize)
                truth = self._buffers[number][place] if own else self._truth(number, first, length)
                if not equal(self._api.stored(number, place), truth):
                    raise VerificationError(
                        f"{self._api.path}: dataset {number} differs from what was written"
                    )
        self._ranks.comm.Barrier()

    # Reading

    def reads(self, state: str, repeats: int) -> list[Row]:
        """Return timed reads of the file that was written last; raises NotInState."""
        resident = self._context.memory_resident
        caches = Caches(self._ranks, self._api.path, resident, self._syncer)
        # Filled, so that their pages are in memory before the first read.
        found: Buffers = [np.full_like(buffer, 0) for buffer in self._buffers]
        rows = []
        try:
            # Shares are those of all ranks, which therefore raise alike.
            if state == "warm":
                warm(caches.fill(), resident)
            for repeat in range(repeats):
                rows.append(self._read(caches, state, repeat, found))
        finally:
            caches.close()
        return rows

    def _read(self, caches: Caches, state: str, repeat: int, found: Buffers) -> Row:
        memory, file_bytes = self._context.memory_resident, self.file_bytes()
        if state == "cold":
            cold(caches.evict(), memory)
        open_s = timed(self._ranks, self._api.open)
        try:
            if state == "cold":
                share = still_cold(caches.resident(), file_bytes, memory, "ranks")
            else:
                # Many FUSE file systems drop the cached pages whenever a file is opened.
                share = warm(caches.fill(), memory)
        except NotInState:
            self._api.close()
            raise
        before = self._counters.read()
        time_s = timed(self._ranks, lambda: self._api.read(found))
        counted = between(before, self._counters.read())
        row = {
            "state": self._context.called(state),
            "repeat": repeat,
            "time_s": time_s,
            "open_s": open_s,
            "close_s": timed(self._ranks, self._api.close),
            "resident_before": share,
            "resident_after": caches.resident(),
            **self._common(),
            **{name: int(self._ranks.total(counted[name])) for name in READ},
        }
        for number, (one, truth) in enumerate(zip(found, self._buffers, strict=True)):
            if not equal(one, truth):
                raise VerificationError(
                    f"{self._api.path}: read {repeat} of state {state} differs from what was written in "
                    f"dataset {number}"
                )
            # What is left of this read must not pass for the next.
            one.fill(0)
        return row

    # What is there

    def file_bytes(self) -> int:
        """Return the bytes of the file, or of all files."""
        size = os.stat(self._api.path).st_size if self._keeper else 0
        return int(self._ranks.total(size))

    def described(self) -> dict[str, Any]:
        """Return the report of the file: sizes in bytes, and settings as they are in force."""
        size, total = self.file_bytes(), self._pattern.total_bytes
        chunks = self._context.specification["layout"]["chunks"]
        in_force = self._api.in_force()
        return {
            "file_bytes": size,
            "data_bytes": total,
            "remainder_bytes": size - total if not chunks else None,
            "settings": {**in_force, "dtype": str(self._context.values.dtype)},
        }

    def remove(self) -> None:
        """Remove what was written, and let its file system finish with it."""
        if self._keeper:
            with suppress(FileNotFoundError):
                os.unlink(self._api.path)
        settled(self._ranks, os.path.dirname(self._api.path))


def run(ranks: Ranks, context: Context) -> dict[str, Any]:
    """Return what was measured; the same on all ranks."""
    spec = context.specification
    cell = Cell(ranks, context)
    rows = cell.writes(spec["repeats"]["write"])
    skipped = each_state(
        spec["case"]["states"],
        ("warm", "cold"),
        lambda state: rows.extend(cell.reads(state, spec["repeats"][state])),
        rows,
    )
    described = cell.described()
    cell.remove()
    return report(ranks, context.format, {"rows": rows, "skipped": skipped, "file": described})
