"""Two-phase writing: samples go to the rank that writes their file, which writes each file once, in order.

Everybody knows all sub-volumes beforehand, and with them, by arithmetic alone, who sends what to whom. While
one piece of a file is written and on its way to the device, the samples of the next are put in order and
exchanged; in a round in which nobody has anything to send, no rank waits for another.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np

from hyperslab.data.selections import Box
from hyperslab.formats.idx.ordering import Covered
from hyperslab.formats.idx.parallel.division import (
    Piece,
    Round,
    aggregators_of,
    exchanged_in,
    held_of,
    rounds_of,
)
from hyperslab.formats.idx.parallel.ways import Block, Job, Way
from hyperslab.measuring.pagecache import begin_writeback

# An aggregator has at most so many pieces waiting to be written while the next ones are put together.
WAITING_PIECES = 1


class Aggregated(Way):
    """One rank's side: it sends, and if it is an aggregator, it receives, puts in order and writes."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        chosen = aggregators_of(job.files, self.comm.Get_size(), job.aggregators, job.files_each)
        rounds = rounds_of(job.files, job.boxes, chosen)
        self._rounds = list(zip(rounds, exchanged_in(job.files, job.boxes, rounds), strict=True))
        self._writing: tuple[int, int] | None = None

    def write(self) -> None:
        waiting: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1) as pool:
            for targets, exchanged in self._rounds:
                for field, values in enumerate(self.job.values):
                    whole = (
                        self._round(targets, values)
                        if exchanged
                        else self._of_this_rank(targets.get(self.rank), values)
                    )
                    if whole is not None:
                        waiting.append(pool.submit(self._store, targets[self.rank], field, whole))
                    while len(waiting) > WAITING_PIECES:
                        waiting.popleft().result()
            while waiting:
                waiting.popleft().result()

    def close_files(self) -> None:
        """Close the last file."""
        if self._writing:
            os.close(self._writing[1])
            self._writing = None

    def _pieces(self, piece: Piece, box: Box) -> list[Covered]:
        """Return which blocks of a piece a box touches, level by level."""
        files, found = self.job.files, []
        held = piece.blocks(files)
        levels = np.asarray([files.blocks.level_of(block) for block in held.tolist()])
        for level in np.unique(levels).tolist():
            touched = files.blocks.of_level(level, box.origin, box.extent)
            numbers = np.intersect1d(held[levels == level], touched, assume_unique=True)
            if len(numbers):
                found.append(self.order.described(level, numbers, box.origin, box.extent))
        return found

    def _sizes(self, found: list[Covered], box: Box) -> int:
        """Return how many samples of a piece a box has, as they are sent."""
        blocks = self.job.files.blocks
        return int(sum(held_of(blocks, one.level, one.numbers, box).sum() for one in found))

    def _packed(self, found: list[Covered], values: Block) -> Block:
        """Return what is sent of a piece: whole blocks in order, of others what there is, row-major."""
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
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, values.dtype)

    def _of_this_rank(self, piece: Piece | None, values: Block) -> Block | None:
        """Return the blocks, in order, of a piece of which this rank has all samples."""
        if piece is None:
            return None
        found = self._pieces(piece, self.box)
        whole: Block = self.timed(
            "order",
            lambda: self._assembled(piece, {self.rank: found}, {self.rank: self._packed(found, values)}),
        )
        return whole

    def _round(self, targets: Round, values: Block) -> Block | None:
        """Return the blocks of this rank's own piece, in order, after samples of one piece an aggregator have
        been exchanged.
        """
        size = self.comm.Get_size()
        found = {rank: self._pieces(piece, self.box) for rank, piece in targets.items()}
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
        packed.clear()
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
        self, piece: Piece, senders: dict[int, list[Covered]], pieces: dict[int, Block | None]
    ) -> Block:
        """Return the blocks of a piece, in order, from what all ranks have of them."""
        files = self.job.files
        held = piece.blocks(files)
        if len(pieces) == 1 and all(covered.whole.all() for found in senders.values() for covered in found):
            # One rank had all of it.
            (only,) = pieces.values()
            assert only is not None
            return only.reshape(-1, files.blocks.samples)
        found = np.empty((len(held), files.blocks.samples), self.job.dtype)
        grids: dict[int, Block] = {}
        for rank, samples in pieces.items():
            assert samples is not None
            box, at = self.job.boxes[rank], 0
            for covered in senders[rank]:
                numbers = covered.numbers[covered.whole]
                count = len(numbers) * files.blocks.samples
                found[np.searchsorted(held, numbers)] = samples[at : at + count].reshape(
                    -1, files.blocks.samples
                )
                at += count
                for number in covered.numbers[~covered.whole].tolist():
                    lattice = files.blocks.lattice(number)
                    inside = lattice.within(box.origin, box.extent)
                    assert inside is not None
                    grid = grids.setdefault(number, np.zeros(lattice.counts, self.job.dtype))
                    size = grid[inside].size
                    grid[inside] = samples[at : at + size].reshape(grid[inside].shape)
                    at += size
        for number, grid in grids.items():
            place = int(np.searchsorted(held, number))
            found[place] = self.order.stored(files.blocks.level_of(number), grid)
        return found

    def _store(self, piece: Piece, field: int, whole: Block) -> None:
        """Write the blocks of a field of a piece at once; a file is open from its first piece to its last."""
        files = self.job.files
        if self._writing is None or self._writing[0] != piece.first:
            self.close_files()
            self._writing = piece.first, os.open(self.path_of(piece.first), os.O_WRONLY)
            self.opened[piece.first] += 1
        offset = int(files.offsets(piece.first, field)[piece.start])
        view = whole.reshape(-1).data.cast("B")
        self.timed("file_writes", partial(_written, self._writing[1], view, offset))


def _written(descriptor: int, view: memoryview, begin: int) -> None:
    """Write bytes at their place, and have them begin their way to the device, which would else have nothing
    to do until everything is written.
    """
    offset = begin
    while view:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count
    begin_writeback(descriptor, begin, offset - begin)
