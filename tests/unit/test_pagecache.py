"""The page cache and the kernel's counters: what they say of files of known history."""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperslab.measuring import pagecache
from hyperslab.measuring.counters import Counters, between, offered


def file_on(directory: Path, name: str, size: int) -> Path:
    path = directory / name
    path.write_bytes(os.urandom(size))
    return path


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()


@pytest.mark.parametrize("size", [1, pagecache.PAGE, 10 * pagecache.PAGE + 1])
def test_a_file_on_a_disk_is_evicted_and_filled(disk: Path, size: int) -> None:
    with opened(file_on(disk, "cache", size)) as descriptor:
        assert pagecache.evict_file(descriptor, 0.0) == 0
        assert pagecache.resident_share([descriptor]) == 0
        pagecache.read_whole(descriptor, step=5000)
        assert pagecache.resident_share([descriptor]) == 1


def test_a_file_in_memory_stays_there(memory: Path) -> None:
    with opened(file_on(memory, "cache", 100_000)) as descriptor:
        assert pagecache.evict_file(descriptor, 0.0, attempts=1) == 1
        assert pagecache.resident_share([descriptor]) == 1


def test_writeback_begins_without_fsync_and_of_what_it_is_asked_for(disk: Path) -> None:
    def dirty() -> int:
        found = pagecache._cachestat(descriptor)
        assert found is not None
        return int(found.dirty)

    half = 64 * pagecache.PAGE
    with opened(file_on(disk, "cache", 2 * half)) as descriptor:
        if pagecache.method(descriptor) != "cachestat":
            pytest.skip("before Linux 6.5 nobody tells how many pages of a file are dirty")
        if dirty() < 128:
            pytest.skip("the kernel was faster")
        pagecache.begin_writeback(descriptor, 0, half)
        assert dirty() <= 64
        pagecache.begin_writeback(descriptor, half, half)
        assert dirty() == 0


def test_where_writeback_cannot_begin_nothing_happens(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(file_on(disk, "cache", pagecache.PAGE)) as descriptor:
        # Not of a descriptor that is none, nor where the C library lacks the call.
        pagecache.begin_writeback(-1, 0, 1)
        monkeypatch.setattr(pagecache, "_libc", object())
        pagecache.begin_writeback(descriptor, 0, pagecache.PAGE)


def test_a_file_system_that_cannot_write_what_it_holds_is_no_success(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pagecache.sync_file_system(disk)
    synced = []
    monkeypatch.setattr(os, "sync", lambda: synced.append(True))

    def failing(number: int) -> Callable[[int], int]:
        return lambda descriptor: ctypes.set_errno(number) or -1

    monkeypatch.setattr(pagecache, "_libc", SimpleNamespace(syncfs=failing(errno.EIO)))
    with pytest.raises(OSError, match="Input/output error") as error:
        pagecache.sync_file_system(disk)
    assert error.value.errno == errno.EIO and not synced
    # A kernel without the call syncs everything.
    monkeypatch.setattr(pagecache, "_libc", SimpleNamespace(syncfs=failing(errno.ENOSYS)))
    pagecache.sync_file_system(disk)
    assert synced


def test_eviction_is_repeated_until_enough_is_gone(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the one file, and then of all of them.
    shares = iter([0.5, 0.2, 0.01, 0.01, 0.3])
    monkeypatch.setattr(pagecache, "resident_share", lambda _: next(shares))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with opened(file_on(disk, "cache", 1)) as descriptor:
        assert pagecache.evict_file(descriptor, 0.01) == 0.01
        assert next(shares) == 0.3
        shares = iter([0.5, 0.2, 0.1])
        assert pagecache.evict_file(descriptor, 0.01, attempts=3) == 0.1


def test_a_small_file_that_stays_is_not_hidden_by_a_large_one(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the description of an array beside its chunks: a thousandth of all, which every selection reads."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with (
        opened(file_on(disk, "large", 1000 * pagecache.PAGE)) as large,
        opened(file_on(disk, "small", 1)) as small,
    ):
        stays = {large: 0, small: 1}

        def share(files: Iterable[int]) -> float:
            found = [*files]
            return sum(stays[file] for file in found) / (1 if found == [small] else 1001)

        monkeypatch.setattr(pagecache, "resident_share", share)
        assert pagecache.evict(lambda: [large, small], 0.01, attempts=3) == 1.0
        stays[small], stays[large] = 0, 1
        assert pagecache.evict(lambda: [large, small], 0.01, attempts=3) == 1 / 1001


def test_half_a_file_is_half_resident_by_either_system_call(disk: Path) -> None:
    pages = 64
    with opened(file_on(disk, "cache", pages * pagecache.PAGE - 7)) as descriptor:
        pagecache.evict_file(descriptor, 0.0)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        for page in range(0, pages, 2):
            os.pread(descriptor, 10, page * pagecache.PAGE)
        assert pagecache.resident_share([descriptor]) == 0.5
        size = os.fstat(descriptor).st_size
        assert pagecache._mincore(descriptor, size) == pages // 2


@contextmanager
def overlaid(directory: Path) -> Iterator[Path]:
    """An overlayfs over directories of this one, as the file system of a container is."""
    below, above, work, seen = (directory / name for name in ("below", "above", "work", "seen"))
    for place in (below, above, work, seen):
        place.mkdir(parents=True)
    options = f"lowerdir={below},upperdir={above},workdir={work}"
    mount = ["mount", "-t", "overlay", "-o", options, "overlay", str(seen)]
    done = subprocess.run(mount, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        pytest.skip(f"no overlayfs can be mounted here: {done.stderr.strip()}")
    try:
        yield seen
    finally:
        subprocess.run(["umount", seen], check=True, timeout=30)
        shutil.rmtree(directory)


def test_pages_of_an_overlayfs_are_found_in_the_file_system_below(disk: Path) -> None:
    """By its own inode, which cachestat asks, it has none, so that nothing would ever be warm."""
    with overlaid(disk / "overlaid") as seen, opened(file_on(seen, "cache", 10 * pagecache.PAGE)) as file:
        assert pagecache.resident_share([file]) == 1
        assert pagecache.evict_file(file, 0.0) == 0
        pagecache.read_whole(file)
        assert pagecache.resident_share([file]) == 1


def test_of_an_overlayfs_cachestat_is_not_asked(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(file_on(disk, "cache", 1)) as descriptor:
        kind = (ctypes.c_long * pagecache.WORDS)()
        assert pagecache._libc.fstatfs(descriptor, kind) == 0
        monkeypatch.setattr(pagecache, "OVERLAY", kind[0])
        assert pagecache.method(descriptor) == "mincore"
        assert pagecache.resident_share([descriptor]) == 1


def test_an_empty_file_is_not_resident(tmp_path: Path) -> None:
    with opened(file_on(tmp_path, "empty", 0)) as descriptor:
        assert pagecache.resident_share([descriptor]) == 0


# ---- counters


def test_counters_tell_what_was_asked_for_and_not_their_own_reading(tmp_path: Path) -> None:
    # A process of its own: in this one a thread listens to who runs the tests, and its reads count.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        counts = pool.apply(_counted, (tmp_path,))
    for sizes, counted in zip(TRANSFERS, counts, strict=True):
        assert (counted["requested_bytes"], counted["requested_reads"]) == (sum(sizes), len(sizes))
        assert (counted["written_bytes"], counted["requested_writes"]) == (sum(sizes), len(sizes))


TRANSFERS: list[list[int]] = [[], [10], [5000, 5000, 7]]
MIB = 2**20


def _counted(directory: Path) -> list[dict[str, int]]:
    """What the counters say of each list of transfers, read and written by this process."""
    counters, counts = Counters(), []
    path = file_on(directory, "a", 10_000)
    with opened(path) as descriptor, (directory / "b").open("wb", buffering=0) as written:
        for sizes in TRANSFERS:
            before = counters.read()
            for size in sizes:
                os.pread(descriptor, size, 0)
                written.write(bytes(size))
            counts.append(between(before, counters.read()))
    return counts


def test_what_is_written_again_in_memory_reaches_the_device_once(disk: Path) -> None:
    # A process of its own, as above.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        counted = pool.apply(_rewritten, (disk,))
    assert counted["written_bytes"] == 10 * MIB
    assert 0 < counted["written_device_bytes"] <= 2 * MIB


def _rewritten(directory: Path) -> dict[str, int]:
    """What the counters say of the same MiB written ten times, and then handed to the device."""
    counters = Counters()
    with (directory / "again").open("wb", buffering=0) as file:
        before = counters.read()
        for _ in range(10):
            os.pwrite(file.fileno(), bytes(MIB), 0)
        os.fsync(file.fileno())
        counted = between(before, counters.read())
    (directory / "again").unlink()
    return counted


def test_counters_are_zero_where_the_kernel_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)
    counters = Counters()
    assert set(between(counters.read(), counters.read()).values()) == {0}
    assert not offered()
