"""What Linux reads from a device for a sequence of requests of one file: its readahead, page by page.

After mm/readahead.c and mm/filemap.c of Linux 6.17 and 6.18 (page_cache_sync_ra, page_cache_async_ra,
page_cache_ra_order). A miss at the beginning of a file or right behind the read before it opens a window of
two or four times what is still asked for; behind cached pages, one as long as these are. The folio at which a
window is half or wholly used is marked, and whoever reaches it has the next window read, two or four times as
long, up to the limit of the device. Where the file system keeps large folios (ext4, XFS), these are four
times as large in each further window, which ends at a multiple of them. Without large folios it is also how
kernels from 6.11 on read ahead.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from dataclasses import dataclass

PAGE = 4096
# A folio has at most 2^this pages (what a huge page has), and of each further window 2^that times as many.
MOST_ORDER, STEP = 9, 2
# From so many pages on it takes less to have them of the kernel than to fill them with zeros.
MANY_PAGES = 2**20
# It refuses more than it has memory for, unless none is set aside, which Python has a name for from 3.13 on.
NOT_ASIDE = mmap.MAP_SHARED | getattr(mmap, "MAP_NORESERVE", 0x4000)


@dataclass
class Traffic:
    """What was read: misses that somebody waited for, their bytes, and the bytes read ahead of requests."""

    misses: int = 0
    waited_bytes: int = 0
    ahead_bytes: int = 0


def _pages(count: int) -> mmap.mmap | bytearray:
    """Return a zero for each page of a file; of a large one none takes memory before it is touched."""
    return mmap.mmap(-1, count, NOT_ASIDE) if count > MANY_PAGES else bytearray(count)


class _File:
    """An open file of which nothing is cached at first."""

    def __init__(self, size: int, limit_bytes: int, large: bool) -> None:
        self.pages = -(-size // PAGE)
        self.limit = limit_bytes // PAGE
        self.large = large
        self.cached = _pages(self.pages)
        self.marked = _pages(self.pages)
        # First page of each marked folio -> its pages.
        self.marks: dict[int, int] = {}
        # The window: where it begins, its pages, how many of them are ahead of the mark, the order of folios.
        self.start = self.size = self.ahead = self.order = 0
        # The page after the last byte that was read.
        self.previous: int | None = None
        # What is still wanted of the request that waits.
        self.wanted = (0, 0)
        self.traffic = Traffic()

    def read(self, offset: int, length: int) -> None:
        """Read `length` bytes at `offset`."""
        at, end = offset // PAGE, min((offset + length - 1) // PAGE + 1, self.pages)
        while at < end:
            hit = self.marked.find(b"\1", at, end)
            missing = self.cached.find(b"\0", at, end)
            if missing < 0 and hit < 0:
                break
            if missing >= 0 and (hit < 0 or missing < hit):
                self._miss(missing, end - missing)
                at = missing if self.marked[missing] else missing + 1
            else:
                first, count = self._unmark(hit)
                self._reached(first, count, end - first)
                at = hit + 1
        self.previous = (offset + length) // PAGE

    def _unmark(self, page: int) -> tuple[int, int]:
        """Take the mark off the folio of a page; return its first page and its pages."""
        for order in range(MOST_ORDER + 1):
            first = page >> order << order
            if self.marks.get(first, 0) > page - first:
                break
        count = self.marks.pop(first)
        self.marked[first : first + count] = bytes(count)
        return first, count

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
        self.wanted = (index, index + request)
        follows = self.previous is not None and 0 <= index - self.previous <= 1
        if self.limit == 0:
            self._pages(index, request, 0)
            return
        if index == 0 or request > self.limit or follows:
            self.start = index
            # A request may be longer than the window; then all of it is read.
            self.size = max(self._initial(request), request)
            self.ahead = self.size - request if self.size > request else self.size >> 1
        else:
            low = max(0, index - self.limit)
            gap = self.cached.rfind(b"\0", low, index)
            before = index - (gap + 1 if gap >= 0 else low)
            if before <= request:
                # Alone, and small: the window stays as it is.
                self._pages(index, request, 0)
                return
            if gap < 0 and low == 0:
                before *= 2
            self.start, self.size, self.ahead = index, min(before + request, self.limit), 1
        self.order = 0
        self._window()

    def _reached(self, index: int, count: int, request: int) -> None:
        """Read on ahead, for which nobody waits: the marked folio of `count` pages at `index` was reached."""
        self.wanted = (0, 0)
        expected = self.start + self.size - self.ahead
        if index == expected - expected % count:
            self.start += self.size
            self.size = max(self.size, self._next())
        else:
            end = index + 1 + self.limit
            start = self.cached.find(b"\0", index + 1, min(end, self.pages))
            if start < 0:
                # Behind its last page nothing of a file is cached.
                start = self.pages
            if start - index > self.limit:
                return
            self.start, self.size = start, start - index + request
            self.size = self._next()
        self.order += STEP
        if self.large:
            beyond = (self.start + self.size) % (1 << self.order)
            if beyond < self.size:
                self.size -= beyond
        self.ahead = self.size
        self._window()

    def _window(self) -> None:
        """Bring in the window, in folios of its order as far as nothing of it is cached, then by pages."""
        index, limit = self.start, min(self.pages, self.start + self.size)
        self.order = min(self.order, MOST_ORDER, self.size.bit_length() - 1) if self.large else 0
        if self.order and index < limit:
            cached = self.cached.find(b"\1", index, limit)
            stop = limit if cached < 0 else self._folio(cached, index, limit)[0]
            mark = self.start + self.size - self.ahead
            self._bring(index, stop)
            if index <= mark < stop:
                self._mark(*self._folio(mark, index, limit))
            if cached < 0:
                return
            index = stop
        self._pages(index, self.size - (index - self.start), self.ahead)

    def _folio(self, page: int, index: int, limit: int) -> tuple[int, int]:
        """Return first page and pages of the folio of a page in a window from `index` up to `limit`."""
        while True:
            order = self.order
            if index & ((1 << order) - 1):
                order = (index & -index).bit_length() - 1
            while index + (1 << order) > limit:
                order -= 1
            count = 1 << order
            # As many as there are of the largest size at once.
            alike = (limit - index) // count if order == self.order else 1
            if page < index + alike * count:
                return index + (page - index) // count * count, count
            index += alike * count

    def _pages(self, index: int, count: int, ahead: int) -> None:
        """Bring in pages one by one; that which begins the last `ahead` is marked, if it comes in now."""
        end = min(index + count, self.pages)
        mark = index + max(0, end - index) - ahead
        fresh = index <= mark < end and not self.cached[mark]
        self._bring(index, end)
        if fresh:
            self._mark(mark, 1)

    def _bring(self, start: int, end: int) -> None:
        """Have pages that are not cached read; those that are wanted are waited for."""
        if end <= start or not (fresh := self.cached[start:end].count(b"\0")):
            return
        low, high = max(start, self.wanted[0]), min(end, self.wanted[1])
        waited = self.cached[low:high].count(b"\0") if high > low else 0
        self.cached[start:end] = b"\1" * (end - start)
        self.traffic.misses += bool(waited)
        self.traffic.waited_bytes += waited * PAGE
        self.traffic.ahead_bytes += (fresh - waited) * PAGE

    def _mark(self, first: int, count: int) -> None:
        count = min(count, self.pages - first)
        self.marks[first] = count
        self.marked[first : first + count] = b"\1" * count


def traffic(
    requests: Iterable[tuple[int, int]], size: int, limit_bytes: int,
    opened: Iterable[tuple[int, int]] = (), large: bool = True,
) -> Traffic:  # fmt: skip
    """Return what a device reads for `requests` (offset and length in bytes) of a file of `size` bytes.

    Nothing of the file is cached but for what was asked for before (`opened`), which is not counted;
    `limit_bytes` is how far the kernel reads ahead there, `large` whether the file system keeps large folios.
    """
    file = _File(size, limit_bytes, large)
    for offset, length in opened:
        file.read(offset, length)
    file.traffic = Traffic()
    for offset, length in requests:
        if length:
            file.read(offset, length)
    return file.traffic
