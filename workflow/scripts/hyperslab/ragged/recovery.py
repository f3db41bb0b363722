"""A file whose writer was killed: clear the mark that HDF5 left in it, so that it opens as before.

HDF5 marks a file as open for writing in its superblock (versions 3 and on, which libver v110 and later
write), and whoever finds the mark refuses the file. `h5clear -s --increment` of HDF5's tools does the same.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import IO

import h5py

from . import appenders
from .checksum import CHECKSUM, lookup3
from .chunk_index import mended
from .convention import RaggedError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Signature, version, sizes of offsets and lengths, flags, base address, extension, end of file, root group;
# then the checksum (HDF5 File Format Specification, "Version 2 and 3 Superblock").
SUPERBLOCK = struct.Struct("<8s4B4Q")
# Beyond what was allocated when the writer was killed, as h5clear does.
ROOM = 2**20


def recover(path: str | Path) -> bool:
    """Make a file whose writer was killed one that opens; returns whether anything had to be done.

    Nothing else may have it open; who appends, or has it locked, is refused where found (`appenders`). Blocks
    of chunk indexes that the kill tore are made whole again. Raises RaggedError for a file whose superblock
    cannot carry the mark or does not add up, and for one that HDF5 cannot read all the same; that is left as
    it was.
    """
    with Path(path).open("r+b") as file:
        if not appenders.free(file.fileno()):
            raise RaggedError(
                f"{path}: a process that lives appends to this file; nothing has to be recovered"
            )
        found = file.read(SUPERBLOCK.size + CHECKSUM.size)
        if found[: len(SIGNATURE)] != SIGNATURE:
            raise RaggedError(f"{path} is no HDF5 file, or has something before its first byte")
        if len(found) < SUPERBLOCK.size + CHECKSUM.size:
            raise RaggedError(
                f"{path} was cut short within its first {SUPERBLOCK.size + CHECKSUM.size} bytes"
            )
        fields = SUPERBLOCK.unpack_from(found)
        version, offsets, lengths, flags = fields[1:5]
        if version < 3:
            raise RaggedError(f"{path} was not written with libver v110 or later, and cannot be recovered")
        (checksum,) = CHECKSUM.unpack_from(found, SUPERBLOCK.size)
        if (offsets, lengths) != (8, 8) or checksum != lookup3(found[: SUPERBLOCK.size]):
            raise RaggedError(f"{path} has a superblock that does not add up; it is damaged")
        # A mark without a lock is that of a writer that was killed, or of one with readers beside it.
        if flags and appenders.open_elsewhere(file.fileno()):
            raise RaggedError(f"{path}: a process that lives has this file open; it has to close it first")
        size = os.fstat(file.fileno()).st_size
        changed: list[tuple[int, bytes]] = []
        try:
            if flags:
                changed.append((0, found))
                *before, _, root = fields[5:]
                # Space that the writer took after it last wrote the superblock is not given away once more.
                end = max(fields[7], size) + ROOM
                block = SUPERBLOCK.pack(*fields[:4], 0, *before, end, root)
                file.truncate(end)
                _put(file, [(0, block + CHECKSUM.pack(lookup3(block)))])
            # Without a mark, too: what cleared it may have been killed before it came to this.
            if torn := _torn(path, every_chunk=False):
                changed.extend(mended(path))
                torn = _torn(path, every_chunk=True)
            if torn:
                raise RaggedError(
                    f"{path}: the kill tore {torn}, which cannot be made whole; copy the file and run "
                    "h5clear -s on the copy to read what comes before that place"
                )
        except BaseException:
            _put(file, changed)
            file.truncate(size)
            raise
        os.fsync(file.fileno())
    return bool(changed)


def _put(file: IO[bytes], blocks: list[tuple[int, bytes]]) -> None:
    """Write bytes at their places."""
    for place, content in blocks:
        file.seek(place)
        file.write(content)
    file.flush()


def _decodable(creation: h5py.h5p.PropDCID) -> bool:
    """Return whether a dataset has filters, and all of them are here: without, its chunks tell nothing."""
    codes = [creation.get_filter(number)[0] for number in range(creation.get_nfilters())]
    return bool(codes) and all(map(h5py.h5z.filter_avail, codes))


def _opened(path: str | Path) -> h5py.File:
    """Open a file for reading, without a lock of HDF5's where that is refused.

    Over NFS such a lock is one of all bytes, and `recover` has locked one of them.
    """
    try:
        return h5py.File(path, "r")
    except OSError:
        return h5py.File(path, "r", locking=False)


def _torn(path: str | Path, *, every_chunk: bool) -> str:
    """Return what HDF5 cannot read of a file, such as the index of a dataset; an empty text for nothing.

    The last filtered chunk is read, too, which its writer writes over and over. With `every_chunk` all are,
    since an element of their index that was half written may lead to a chunk of another length.
    """
    torn: list[str] = []

    def look(name: str, found: object) -> None:
        if isinstance(found, h5py.Dataset) and found.chunks:
            try:
                found.id.get_num_chunks()
            except (OSError, RuntimeError):
                torn.append(f"the index of {name}")
                return
            try:
                if found.size and _decodable(found.id.get_create_plist()):
                    last = [
                        slice((n - 1) // c * c, n) for n, c in zip(found.shape, found.chunks, strict=True)
                    ]
                    for chunk in found.iter_chunks() if every_chunk else (tuple(last),):
                        found[chunk]
            except (OSError, RuntimeError):
                torn.append(f"a chunk of {name}")

    try:
        with _opened(path) as file:
            file.visititems(look)
    # A torn header of an object is a KeyError of h5py's.
    except (OSError, RuntimeError, KeyError):
        torn.append("what describes its datasets")
    return torn[0] if torn else ""
