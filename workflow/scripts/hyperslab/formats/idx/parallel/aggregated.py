"""Two-phase writing: samples go to the rank that writes their file, which writes each file once, whole.

Everybody knows all sub-volumes beforehand, and with them, by arithmetic alone, who sends what to whom.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np

from hyperslab.data.selections import Box
from hyperslab.formats.idx.ordering import Covered
from hyperslab.formats.idx.parallel.division import writers_of_files
from hyperslab.formats.idx.parallel.ways import Block, Job, Way
from hyperslab.formats.idx.writing import file_of

# An aggregator holds at most so many bytes that are written while the next ones are put together.
WAITING_FILES = 1


class Aggregated(Way):
    """One rank's side: it sends, and if it is an aggregator, it receives, puts in order and writes."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        size: int = self.comm.Get_size()
        wanted = min(job.aggregators or size, size)
        chosen = [number * size // wanted for number in range(wanted)]
        owned = writers_of_files(job.files, job.boxes, chosen)
        # In each round every aggregator writes one file.
        per_rank = {rank: [first for first, owner in owned if owner == rank] for rank in chosen}
        most = max(map(len, per_rank.values()))
        self._rounds = [
            {rank: firsts[number] for rank, firsts in per_rank.items() if number < len(firsts)}
            for number in range(most)
        ]

    def write(self) -> None:
        waiting: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1) as pool:
            for field, values in enumerate(self.job.values):
                for targets in self._rounds:
                    whole = self._round(targets, field, values)
                    if whole is not None:
                        waiting.append(pool.submit(self._store, targets[self.rank], field, whole))
                    while len(waiting) > WAITING_FILES:
                        waiting.popleft().result()
            while waiting:
                waiting.popleft().result()

    def _pieces(self, first: int, box: Box) -> list[Covered]:
        """Return which blocks of a file a box touches, level by level."""
        files, found = self.job.files, []
        held = files.in_file(first)
        levels = np.asarray([files.blocks.level_of(block) for block in held.tolist()])
        for level in np.unique(levels).tolist():
            touched = files.blocks.of_level(level, box.origin, box.extent)
            numbers = np.intersect1d(held[levels == level], touched, assume_unique=True)
            if len(numbers):
                found.append(self.order.described(level, numbers, box.origin, box.extent))
        return found

    def _sizes(self, found: list[Covered], box: Box) -> int:
        """Return how many samples of a file a box has, as they are sent."""
        total = 0
        for covered in found:
            total += int(covered.whole.sum()) * self.job.files.blocks.samples
            for number in covered.numbers[~covered.whole].tolist():
                inside = self.job.files.blocks.lattice(number).within(box.origin, box.extent)
                assert inside is not None
                total += int(np.prod([part.stop - part.start for part in inside]))
        return total

    def _packed(self, found: list[Covered], values: Block) -> Block:
        """Return what is sent of a file: whole blocks in order, of others what there is, row-major."""
        parts: list[Block] = []
        for covered in found:
            whole = np.flatnonzero(covered.whole).tolist()
            rows = np.empty((len(whole), self.job.files.blocks.samples), values.dtype)
            self.order.cut(covered, whole, self.box.origin, values, rows)
            parts.append(rows.reshape(-1))
            for number in covered.numbers[~covered.whole].tolist():
                lattice = self.job.files.blocks.lattice(number)
                inside = lattice.within(self.box.origin, self.box.extent)
                assert inside is not None
                here = lattice.indices(inside, self.box.origin, (1,) * values.ndim)
                parts.append(values[here].reshape(-1))
        return np.concatenate(parts) if parts else np.empty(0, values.dtype)

    def _round(self, targets: dict[int, int], field: int, values: Block) -> Block | None:
        """Return the blocks of this rank's own file, in order, after samples of one file an aggregator have
        been exchanged.
        """
        size = self.comm.Get_size()
        found = {rank: self._pieces(first, self.box) for rank, first in targets.items()}
        packed = self.timed(
            "order",
            lambda: {rank: self._packed(pieces, values) for rank, pieces in found.items()},
        )
        mine = targets.get(self.rank)
        senders = {} if mine is None else {r: self._pieces(mine, box) for r, box in enumerate(self.job.boxes)}
        counts = [self._sizes(senders.get(r, []), box) for r, box in enumerate(self.job.boxes)]
        kept = packed.pop(self.rank, None)
        own_count, counts[self.rank] = counts[self.rank], 0
        sent = [len(packed[rank]) if rank in packed else 0 for rank in range(size)]
        got = np.empty(sum(counts), values.dtype)
        out = np.concatenate([packed[rank] for rank in range(size) if rank in packed] or [got[:0]])
        self.timed("exchange", partial(self._exchange, out, sent, got, counts))
        if mine is None:
            return None
        starts = np.concatenate([[0], np.cumsum(counts)]).tolist()
        pieces = {
            rank: got[starts[rank] : starts[rank + 1]] if rank != self.rank else kept
            for rank in range(size)
            if counts[rank] or (rank == self.rank and own_count)
        }
        whole: Block = self.timed("order", lambda: self._assembled(mine, senders, pieces))
        return whole

    def _exchange(self, out: Block, sent: list[int], got: Block, counts: list[int]) -> None:
        """Send samples to those who write them; the collective call takes lengths in bytes."""
        item = out.itemsize
        self.comm.Alltoallv(
            [out.view(np.uint8), [n * item for n in sent], None, self.mpi.BYTE],
            [got.view(np.uint8), [n * item for n in counts], None, self.mpi.BYTE],
        )

    def _assembled(
        self, first: int, senders: dict[int, list[Covered]], pieces: dict[int, Block | None]
    ) -> Block:
        """Return the blocks of a file, in order, from what all ranks have of them."""
        files = self.job.files
        held = files.in_file(first)
        if len(pieces) == 1 and all(covered.whole.all() for found in senders.values() for covered in found):
            # One rank had all of it.
            (only,) = pieces.values()
            assert only is not None
            return only.reshape(-1, files.blocks.samples)
        found = np.empty((len(held), files.blocks.samples), self.job.dtype)
        grids: dict[int, Block] = {}
        for rank, piece in pieces.items():
            assert piece is not None
            box, at = self.job.boxes[rank], 0
            for covered in senders[rank]:
                numbers = covered.numbers[covered.whole]
                count = len(numbers) * files.blocks.samples
                found[np.searchsorted(held, numbers)] = piece[at : at + count].reshape(
                    -1, files.blocks.samples
                )
                at += count
                for number in covered.numbers[~covered.whole].tolist():
                    lattice = files.blocks.lattice(number)
                    inside = lattice.within(box.origin, box.extent)
                    assert inside is not None
                    grid = grids.setdefault(number, np.zeros(lattice.counts, self.job.dtype))
                    size = grid[inside].size
                    grid[inside] = piece[at : at + size].reshape(grid[inside].shape)
                    at += size
        for number, grid in grids.items():
            place = int(np.searchsorted(held, number))
            found[place] = self.order.stored(files.blocks.level_of(number), grid)
        return found

    def _store(self, first: int, field: int, whole: Block) -> None:
        """Write all blocks of a field of a file in one piece."""
        files = self.job.files
        offset = int(files.offsets(first, field)[0])
        descriptor = os.open(file_of(self.job.path, files, 0, first), os.O_WRONLY)
        self.opens += 1
        try:
            view = whole.reshape(-1).data.cast("B")
            while view:
                count = os.pwrite(descriptor, view, offset)
                view, offset = view[count:], offset + count
        finally:
            os.close(descriptor)
