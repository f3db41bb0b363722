"""What Linux reads from a device for a sequence of requests of one file: its readahead, page by page.

After mm/readahead.c of Linux 5.18 to 6.12 (page_cache_sync_ra, page_cache_async_ra): an initial window of two
or four times the request, doubled or quadrupled while reads go on, up to the limit of the device; a page
before the end of each window asks for the next one when it is reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PAGE = 4096


@dataclass
class Traffic:
    """What was read: misses that somebody waited for, their bytes, and the bytes read ahead of requests."""

    misses: int = 0
    waited_bytes: int = 0
    ahead_bytes: int = 0


class _File:
    """An open file of which nothing is cached at first."""

    def __init__(self, size: int, limit_bytes: int) -> None:
        self.pages = -(-size // PAGE)
        self.limit = limit_bytes // PAGE
        self.cached = bytearray(self.pages)
        self.marked = bytearray(self.pages)
        self.start = self.size = self.ahead = 0
        self.previous = -1
        self.traffic = Traffic()

    def read(self, offset: int, length: int) -> None:
        """Read `length` bytes at `offset`."""
        first, last = offset // PAGE, min((offset + length - 1) // PAGE, self.pages - 1)
        at = first
        while at <= last:
            hit = self.marked.find(1, at, last + 1)
            missing = self.cached.find(0, at, last + 1)
            if missing < 0 and hit < 0:
                break
            if missing >= 0 and (hit < 0 or missing < hit):
                self._miss(missing, last + 1 - missing)
                at = missing + 1
            else:
                self.marked[hit] = 0
                self._marker(hit, last + 1 - hit)
                at = hit + 1
        self.previous = last

    def _initial(self, request: int) -> int:
        size = 1 << (request - 1).bit_length()
        if size <= self.limit // 32:
            return size * 4
        return size * 2 if size <= self.limit // 4 else self.limit

    def _next(self) -> int:
        if self.size < self.limit // 16:
            return 4 * self.size
        return 2 * self.size if self.size <= self.limit // 2 else self.limit

    def _miss(self, index: int, request: int) -> None:
        """Read what nobody has read ahead: somebody waits."""
        alone = False
        if self.limit == 0:
            alone = True
        elif index and self.size and index in (self.start + self.size - self.ahead, self.start + self.size):
            self.start += self.size
            self.size = self.ahead = self._next()
        elif index == 0 or request > self.limit or 0 <= index - self.previous <= 1:
            self._begin(index, request)
        else:
            history = self._history(index)
            if history <= request:
                alone = True
            else:
                self.start, self.size = index, min(history + request, self.limit)
                self.ahead = 1
        if alone:
            self._load(index, request, index, request)
            return
        if index == self.start and self.size == self.ahead:
            more = self._next()
            if self.size + more <= self.limit:
                self.ahead, self.size = more, self.size + more
            else:
                self.size, self.ahead = self.limit, self.limit >> 1
        self._load(self.start, self.size, index, request)
        self._mark()

    def _begin(self, index: int, request: int) -> None:
        self.start = index
        self.size = max(self._initial(request), min(request, self.limit))
        self.ahead = self.size - request if self.size > request else self.size

    def _history(self, index: int) -> int:
        """Return how many pages just before `index` are cached, up to the limit."""
        low = max(0, index - self.limit)
        gap = self.cached.rfind(0, low, index)
        count = index - (gap + 1 if gap >= 0 else low)
        return 2 * count if count >= index else count

    def _marker(self, index: int, request: int) -> None:
        """Read on ahead, for which nobody waits."""
        if index == self.start + self.size - self.ahead:
            self.start += self.size
            self.size = self._next()
        else:
            start = self.cached.find(0, index + 1, min(index + self.limit, self.pages))
            if start < 0:
                return
            self.start = start
            self.size = start - index + request
            self.size = self._next()
        self.ahead = self.size
        self._load(self.start, self.size, self.start, 0)
        self._mark()

    def _mark(self) -> None:
        marker = self.start + self.size - self.ahead
        if self.ahead and marker < self.pages:
            self.marked[marker] = 1

    def _load(self, start: int, size: int, wanted: int, request: int) -> None:
        """Bring pages in; those from `wanted` on, `request` of them, are waited for."""
        end = min(start + size, self.pages)
        part = self.cached[start:end]
        fresh = part.count(0)
        if not fresh:
            return
        low, high = max(wanted, start), min(wanted + request, end)
        waited = self.cached[low:high].count(0) if high > low else 0
        self.cached[start:end] = b"\1" * (end - start)
        self.traffic.misses += bool(waited)
        self.traffic.waited_bytes += waited * PAGE
        self.traffic.ahead_bytes += (fresh - waited) * PAGE


def traffic(requests: Iterable[tuple[int, int]], size: int, limit_bytes: int) -> Traffic:
    """Return what a device reads for `requests` (offset and length in bytes) of a file of `size` bytes.

    Nothing of the file is cached at first; `limit_bytes` is how far the kernel reads ahead there.
    """
    file = _File(size, limit_bytes)
    for offset, length in requests:
        if length:
            file.read(offset, length)
    return file.traffic
