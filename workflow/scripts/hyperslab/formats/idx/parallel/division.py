"""Which rank writes which file of a dataset, in which pieces, and what ranks open; arithmetic without MPI.

Boxes are sub-volumes in disk order, without time steps and fields, one a rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hyperslab.data.selections import Box
from hyperslab.layouts.idx_files import IdxFiles
from hyperslab.layouts.idx_order import Blocks, Integers

# Blocks of so many bytes are exchanged and written at once, which bounds what a rank holds beside its values.
PIECE_BYTES = 8 * 2**20


class Piece(NamedTuple):
    """Blocks that lie behind each other in a file: its first block, and which of those it holds."""

    first: int
    start: int
    stop: int

    def blocks(self, files: IdxFiles) -> Integers:
        """Return the numbers of the blocks."""
        return files.in_file(self.first)[self.start : self.stop]


# What each aggregator writes in one round: rank -> piece.
Round = dict[int, Piece]


def pieces_of(files: IdxFiles, first: int) -> Iterator[Piece]:
    """Yield the pieces of a file, in order."""
    held, most = len(files.in_file(first)), max(1, PIECE_BYTES // files.block_bytes)
    for start in range(0, held, most):
        yield Piece(first, start, min(held, start + most))


def aggregators_of(files: IdxFiles, ranks: int, asked: int | None, files_each: int | None) -> list[int]:
    """Return the ranks that put blocks together: so many, or one for so many files each; else all."""
    wanted = asked or ranks
    if files_each:
        wanted = -(-len(files.files) // files_each)
    wanted = min(wanted, ranks)
    return [number * ranks // wanted for number in range(wanted)]


def writers_of_files(
    files: IdxFiles, boxes: Sequence[Box], aggregators: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (first block, rank that writes it) of every binary file of a time step.

    A file of which one aggregator holds everything is that one's, so that nothing has to be sent; the others
    go to whoever has least to write.
    """
    touching = [
        np.unique(files.blocks.touched(box.origin, box.extent) // files.blocks_per_file) for box in boxes
    ]
    holders: dict[int, list[int]] = {}
    for rank, held in enumerate(touching):
        for number in held.tolist():
            holders.setdefault(number, []).append(rank)
    load = dict.fromkeys(aggregators, 0)
    found: dict[int, int] = {}
    shared = []
    for first in files.files.tolist():
        (holder, *others) = holders[first // files.blocks_per_file]
        if not others and holder in load:
            found[first] = holder
            load[holder] += len(files.in_file(first))
        else:
            shared.append(first)
    for first in shared:
        found[first] = min(load, key=lambda rank: (load[rank], rank))
        load[found[first]] += len(files.in_file(first))
    return sorted(found.items())


def rounds_of(files: IdxFiles, boxes: Sequence[Box], aggregators: Sequence[int]) -> list[Round]:
    """Return what is written in each round: of every aggregator one piece, as long as it has any."""
    per_rank: dict[int, list[Piece]] = {rank: [] for rank in aggregators}
    for first, owner in writers_of_files(files, boxes, aggregators):
        per_rank[owner] += pieces_of(files, first)
    return [
        {rank: pieces[number] for rank, pieces in per_rank.items() if number < len(pieces)}
        for number in range(max(map(len, per_rank.values())))
    ]


def exchanged_in(files: IdxFiles, boxes: Sequence[Box], rounds: Sequence[Round]) -> list[bool]:
    """Return of each round whether any rank has samples of a piece that another one writes."""
    held = [
        np.isin(files.present, files.blocks.touched(box.origin, box.extent), assume_unique=True)
        for box in boxes
    ]
    holders = np.sum(held, axis=0)

    def by_others(rank: int, piece: Piece) -> bool:
        places = np.searchsorted(files.present, piece.blocks(files))
        return bool((holders[places] > held[rank][places]).any())

    return [any(by_others(rank, piece) for rank, piece in pieces.items()) for pieces in rounds]


def held_of(blocks: Blocks, level: int, numbers: Integers, box: Box) -> Integers:
    """Return how many samples of each of these blocks of a level lie in a box."""
    return _held(blocks, level, starts_of(blocks, level, numbers), box)


def starts_of(blocks: Blocks, level: int, numbers: Integers) -> Integers:
    """Return the first sample of each of these blocks of a level, along each axis: blocks x axes."""
    first = 1 << level - 1 - blocks.bits if level > blocks.bits else 0
    places = blocks.bitmask.split_into(0, max(0, level - 1 - blocks.bits), numbers - first)
    found: Integers = np.stack(places, axis=1) * np.asarray(blocks.counts(level))
    return found


def _held(blocks: Blocks, level: int, starts: Integers, box: Box) -> Integers:
    """Return `held_of` for the blocks that start there."""
    lattice, counts = blocks.whole_level(level), np.asarray(blocks.counts(level))
    inside = lattice.within(box.origin, box.extent)
    if inside is None:
        return np.zeros(len(starts), np.int64)
    low, high = (np.asarray([getattr(part, end) for part in inside]) for end in ("start", "stop"))
    there = np.minimum(starts + counts, high) - np.maximum(starts, low)
    found: Integers = np.prod(np.clip(there, 0, None), axis=1, dtype=np.int64)
    return found


class Sent(NamedTuple):
    """Messages and bytes between different ranks, by rank."""

    messages_sent: Integers
    messages_received: Integers
    bytes_sent: Integers
    bytes_received: Integers


def sent_of(files: IdxFiles, boxes: Sequence[Box], rounds: Sequence[Round]) -> Sent:
    """Return what ranks exchange in all rounds: of each field one message a round from every rank that has
    something of a piece to the one that writes it.
    """
    owner, number = (np.zeros(len(files.present), np.int64) for _ in range(2))
    for count, pieces in enumerate(rounds):
        for rank, piece in pieces.items():
            places = np.searchsorted(files.present, piece.blocks(files))
            owner[places], number[places] = rank, count
    # Where blocks start is the same for all ranks; `present` has them level by level, too.
    whole = (0,) * len(files.shape), files.shape
    starts = np.concatenate(
        [starts_of(files.blocks, level, files.blocks.of_level(level, *whole)) for level in files.levels()]
    )
    found = np.zeros((len(Sent._fields), len(boxes)), np.int64)
    for rank, box in enumerate(boxes):
        # Of each message, which has a rank that gets it and a round, the samples.
        samples = np.zeros((len(boxes), len(rounds)), np.int64)
        for level in files.levels():
            touched = files.blocks.of_level(level, box.origin, box.extent)
            places = np.searchsorted(files.present, touched)
            held = _held(files.blocks, level, starts[places], box)
            np.add.at(samples, (owner[places], number[places]), held)
        samples[rank] = 0
        messages, sizes = np.count_nonzero(samples, axis=1), samples.sum(axis=1) * files.itemsize
        found[0, rank], found[2, rank] = messages.sum(), sizes.sum()
        found[1] += messages
        found[3] += sizes
    return Sent(*(files.fields * found))


def files_by_level(files: IdxFiles, box: Box) -> list[Integers]:
    """Return of each level the numbers of the files in which samples of a box lie, ascending."""
    found = []
    for level in range(files.bitmask.bits + 1):
        # The first block holds several levels.
        if level > files.blocks.bits:
            numbers = files.blocks.of_level(level, box.origin, box.extent)
        else:
            some = files.bitmask.level(level).within(box.origin, box.extent) is not None
            numbers = np.zeros(int(some), np.int64)
        found.append(np.unique(numbers // files.blocks_per_file))
    return found


def opens_of(files: IdxFiles, box: Box, kept: bool) -> int:
    """Return how often a rank that writes level by level opens a file: once where files are kept open, else
    once for each level of each field that has samples of its box.
    """
    return opens_among(files, files_by_level(files, box), kept)


def opens_among(files: IdxFiles, found: Sequence[Integers], kept: bool) -> int:
    """Return `opens_of` a box whose files have been `found` level by level."""
    return len(np.unique(np.concatenate(found))) if kept else files.fields * sum(map(len, found))


def created_by(files: IdxFiles, rank: int, ranks: int) -> list[int]:
    """Return the first blocks of the files that a rank makes: they are shared out among all."""
    found: list[int] = files.files[rank::ranks].tolist()
    return found
