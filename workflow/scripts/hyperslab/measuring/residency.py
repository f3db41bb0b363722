"""How much of a test file the page cache of this node holds, and how it is emptied or filled for a state."""

from __future__ import annotations

import os
from pathlib import Path

from hyperslab.formats.hdf5.split_metadata import companions
from hyperslab.measuring import pagecache
from hyperslab.measuring.pagecache import NotInState
from hyperslab.sites.mounts import mount_of

# Above this share of resident pages a read is not cold, below that one it is not warm (measurement.md).
COLD_AT_MOST = 0.01
WARM_AT_LEAST = 0.99
# Opening reads the superblock, headers and what the kernel reads ahead of them: in a small file over 1 %.
OPENING_BYTES = 2**18


class NodeCache:
    """The page cache of this node, for one file and what belongs to it elsewhere; shares from 0 to 1."""

    def __init__(self, path: str, memory_resident: bool) -> None:
        self._path, self._memory_resident = path, memory_resident
        self._descriptor = os.open(path, os.O_RDONLY)
        os.fsync(self._descriptor)

    def resident(self) -> float:
        """Share of the file that is resident."""
        return pagecache.resident_share(self._descriptor)

    def evict(self) -> float:
        """Empty it, unless the file lies in memory; returns the share that stayed.

        Raises NotInState where what belongs to the file elsewhere stays.
        """
        for companion in companions(self._path):
            if not mount_of(companion.parent).in_memory:
                _evict(companion)
        return self.resident() if self._memory_resident else pagecache.evict(self._descriptor, COLD_AT_MOST)

    def fill(self) -> float:
        """Bring the whole file in; returns the share that is resident then."""
        share = self.resident()
        if share < WARM_AT_LEAST and not self._memory_resident:
            pagecache.read_whole(self._descriptor)
            share = self.resident()
        return share

    def evicted(self) -> float:
        """Empty it; returns the share that stayed. Raises NotInState where that is too much."""
        return cold(self.evict(), self._memory_resident)

    def filled(self) -> float:
        """Fill it; returns the share that is resident. Raises NotInState where that is too little."""
        return warm(self.fill(), self._memory_resident)

    def close(self) -> None:
        """Let the file go."""
        os.close(self._descriptor)


def _evict(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if (share := pagecache.evict(descriptor, COLD_AT_MOST)) > COLD_AT_MOST:
            raise NotInState(f"{share:.1%} of {path} stayed in the page cache")
    finally:
        os.close(descriptor)


def cold(share: float, memory_resident: bool) -> float:
    """The share that stayed after evicting; raises NotInState where it is too much, except for memory."""
    if share > COLD_AT_MOST and not memory_resident:
        raise NotInState(f"{share:.1%} of the file stayed in the page cache")
    return share


def warm(share: float, memory_resident: bool) -> float:
    """The share that is resident after filling; raises NotInState where that is too little.

    A file in memory is all there but its holes, which never are.
    """
    if share < WARM_AT_LEAST and not memory_resident:
        raise NotInState(f"only {share:.1%} of the file fits in the page cache")
    return share


def still_cold(share: float, file_bytes: int, memory_resident: bool, openers: str) -> float:
    """The share that is resident once `openers` opened the file; raises NotInState where data came in."""
    if share > max(COLD_AT_MOST, OPENING_BYTES / max(1, file_bytes)) and not memory_resident:
        raise NotInState(f"{share:.1%} of the file was in the page cache once the {openers} had opened it")
    return share
