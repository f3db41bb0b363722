"""How much of a test file the page cache of this node holds, and how it is emptied or filled for a state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hyperslab.measuring import other_file_systems, pagecache
from hyperslab.measuring.artifact import FEW_FILES, Artifact
from hyperslab.measuring.pagecache import NotInState
from hyperslab.sites.mounts import cached_image, mount_of
from hyperslab.states import COLD_AT_MOST, WARM_AT_LEAST

# Opening reads the superblock, headers and what the kernel reads ahead of them: in a small file over 1 %.
OPENING_BYTES = 2**18


class NodeCache:
    """The page cache of this node, for an artifact's data and what belongs to them; shares from 0 to 1."""

    def __init__(self, artifact: Artifact, memory_resident: bool) -> None:
        self._artifact, self._memory_resident = artifact, memory_resident
        self._files = [file for file in artifact.files() if file.is_relative_to(artifact.directory)]
        # Few files are kept open; of many each is opened for a moment.
        kept = self._files if len(self._files) <= FEW_FILES else []
        self._descriptors = [os.open(file, os.O_RDONLY) for file in kept]
        self._artifact.fsync()
        own = mount_of(artifact.directory)
        self._client = own.type if own.network else ""
        places = [artifact.directory] if self._files else []
        places += [file.parent for file in other_file_systems.files_of(artifact.data)]
        mounts = [mount_of(place) for place in places]
        self._own_caches = [mount.type for mount in mounts if mount.own_cache]
        self._stacked = [mount.type for mount in mounts if mount.stacked]
        self._images = [image for image in map(cached_image, places) if image is not None]

    def resident(self) -> float:
        """Return the share of the data that is resident."""
        return pagecache.resident_share(self._opened())

    def evict(self, serving: bool = True) -> float:
        """Empty it, unless the data lie in memory; returns the share that stayed.

        What serves the data starts anew before, if `serving`. Raises NotInState where what belongs to the
        data elsewhere stays, where the image or the files in which they lie are cached themselves, and where
        the page cache does not tell.
        """
        # Also where the state cannot be had: who reports of the data asks what serves them.
        if serving:
            self._artifact.restart()
        self._check()
        if self._images:
            raise NotInState(f"{self._images[0]}, in which it lies, is cached itself: losetup --direct-io=on")
        if self._stacked:
            raise NotInState(f"files below {self._stacked[0]}, in which it lies, are cached themselves")
        # Dirty pages could not be dropped.
        self._artifact.write_back()
        for other in other_file_systems.files_of(self._artifact.data):
            if not mount_of(other.parent).in_memory:
                _evict(other)
        return self.resident() if self._memory_resident else pagecache.evict(self._opened, COLD_AT_MOST)

    def fill(self) -> float:
        """Bring all data in, and what belongs to them elsewhere; returns the share of the data there then.

        Raises NotInState where the page cache does not tell, or the client of a file system leaves it empty.
        """
        self._check()
        for other in other_file_systems.files_of(self._artifact.data):
            with other.open("rb") as file:
                pagecache.read_whole(file.fileno())
        share = self.resident()
        if share < WARM_AT_LEAST and not self._memory_resident:
            for descriptor in self._opened():
                pagecache.read_whole(descriptor)
            share = self.resident()
            if self._client and share <= COLD_AT_MOST:
                # More memory would not help.
                raise NotInState(f"{self._client} keeps what it reads outside the page cache, if at all")
        return share

    def _check(self) -> None:
        """Raise NotInState where a file system keeps what it reads in a cache of its own."""
        if self._own_caches:
            raise NotInState(f"{self._own_caches[0]} keeps what it reads outside the page cache")

    def _opened(self) -> Iterator[int]:
        """Yield a descriptor of each file of the data."""
        if self._descriptors:
            yield from self._descriptors
            return
        for file in self._files:
            descriptor = os.open(file, os.O_RDONLY)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    def evicted(self) -> float:
        """Empty it; returns the share that stayed. Raises NotInState where that is too much."""
        return cold(self.evict(), self._memory_resident)

    def filled(self) -> float:
        """Fill it; returns the share that is resident. Raises NotInState where that is too little."""
        return warm(self.fill(), self._memory_resident)

    def close(self) -> None:
        """Let the files go."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def _evict(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if (share := pagecache.evict_file(descriptor, COLD_AT_MOST)) > COLD_AT_MOST:
            raise NotInState(f"{share:.1%} of {path} stayed in the page cache")
    finally:
        os.close(descriptor)


def cold(share: float, memory_resident: bool) -> float:
    """Return the share that stayed after evicting; raises NotInState where it is too much,
    except for memory.
    """
    if share > COLD_AT_MOST and not memory_resident:
        raise NotInState(f"{share:.1%} of the file stayed in the page cache")
    return share


def warm(share: float, memory_resident: bool) -> float:
    """Return the share that is resident after filling; raises NotInState where that is too little.

    A file in memory is all there but its holes, which never are.
    """
    if share < WARM_AT_LEAST and not memory_resident:
        raise NotInState(f"only {share:.1%} of the file fits in the page cache")
    return share


def still_cold(share: float, file_bytes: int, memory_resident: bool, openers: str) -> float:
    """Return the share that is resident once `openers` opened the file;
    raises NotInState where data came in.
    """
    if share > max(COLD_AT_MOST, OPENING_BYTES / max(1, file_bytes)) and not memory_resident:
        raise NotInState(f"{share:.1%} of the file was in the page cache once the {openers} had opened it")
    return share
