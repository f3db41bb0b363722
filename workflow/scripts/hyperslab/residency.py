"""How much of a test file the page cache of this node holds, and how it is emptied or filled for a state."""

from __future__ import annotations

import os

from hyperslab import pagecache
from hyperslab.companions import companions

# Above this share of resident pages a read is not cold, below that one it is not warm (measurement.md).
COLD_AT_MOST = 0.01
WARM_AT_LEAST = 0.99


class NodeCache:
    """The page cache of this node, for one file and what belongs to it elsewhere; shares from 0 to 1."""

    def __init__(self, path: str, memory_resident: bool) -> None:
        self._path, self._memory_resident = path, memory_resident
        self._descriptor = os.open(path, os.O_RDONLY)
        os.fsync(self._descriptor)

    @property
    def file_bytes(self) -> int:
        """Size of the file."""
        return os.fstat(self._descriptor).st_size

    def resident(self) -> float:
        """Share of the file that is resident."""
        return pagecache.resident_share(self._descriptor)

    def evict(self) -> float:
        """Empty it, unless the file lies in memory; returns the largest share that stayed."""
        if self._memory_resident:
            return self.resident()
        shares = [pagecache.evict(self._descriptor, COLD_AT_MOST)]
        for companion in companions(self._path):
            descriptor = os.open(companion, os.O_RDONLY)
            shares.append(pagecache.evict(descriptor, COLD_AT_MOST))
            os.close(descriptor)
        return max(shares)

    def fill(self) -> float:
        """Bring the whole file in; returns the share that is resident then."""
        share = self.resident()
        if share < WARM_AT_LEAST:
            pagecache.read_whole(self._descriptor)
            share = self.resident()
        return share

    def close(self) -> None:
        """Let the file go."""
        os.close(self._descriptor)
