"""A test artifact: one directory a cell and round with everything that belongs to it.

In it lie the data (a file, or a directory of files), the note that the writer leaves the reader, and parts
such as the files of single ranks. What a layout puts on other file systems belongs to it, too. An artifact of
a server also starts and stops that.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from hyperslab.measuring import other_file_systems, pagecache
from hyperslab.measuring.syncing import fsync
from hyperslab.records import read_json
from hyperslab.sites import roots

# What the writer tells the reader.
NOTE = "note.json"
# Between the name of the data and that of a part of them.
PART = ".part"
# The part that is a copy of the data.
FETCHED = "-fetched"
# Between the names of cases that share an artifact; no name has one.
SHARED = ","
# More files than these are handed to the device by their file system at once, not one by one.
FEW_FILES = 16
# To make a directory, while other processes tidy up around it.
ATTEMPTS = 100
# What ends the servers of this process at once; called where a signal ends it.
end_servers: list[Callable[[], None]] = []
# What waits a while for those that have work of their own to do before; called at the last.
await_servers: list[Callable[[], None]] = []


class Artifact:
    """What a cell's layout is stored in; `data` is the path that the format is given."""

    # What serves the data keeps what it was asked for: a warm selection is one that it has had before.
    remembers: ClassVar[bool] = False

    def __init__(self, data: str | Path) -> None:
        self.data = Path(data)

    @classmethod
    def in_directory(cls, directory: Path, suffix: str) -> Artifact:
        """Return the artifact that lies in a directory; its data end in the format's `suffix`."""
        return cls(directory / f"data{suffix}")

    @property
    def directory(self) -> Path:
        """Where everything lies but what is on other file systems."""
        return self.data.parent

    @property
    def note(self) -> Path:
        """What the writer tells the reader, as JSON."""
        return self.directory / NOTE

    def part(self, name: str | int) -> Path:
        """Return the path of a part that is no part of the data: a rank's own file, a plain reference."""
        return self.data.with_name(f"{self.data.name}{PART}{name}")

    def files(self) -> list[Path]:
        """Return the files of the data, those on other file systems last."""
        return list(self._files())

    def _files(self) -> Iterator[Path]:
        yield from _files_below(self.data)
        yield from other_file_systems.files_of(self.data)

    def bytes(self) -> int:
        """Return the bytes of all files of the data."""
        return sum(file.stat().st_size for file in self.files())

    def fsync(self) -> None:
        """Hand the data to the device: each file by itself where they are few, else their file system."""
        # Part of a stopwatch: no more are looked for than tell which way it is.
        some = list(islice(self._files(), FEW_FILES + 1))
        if len(some) <= FEW_FILES:
            for file in some:
                fsync(file)
        else:
            pagecache.sync_file_system(self.directory)

    def write_back(self) -> None:
        """Have no page of the data dirty, so that all can be dropped; no part of any write."""
        self.fsync()

    def fetched(self, by: int | None = None) -> Artifact:
        """Return the artifact of the copy that `fetch` makes: the one for all, or that of a worker's own."""
        return Artifact(self.part(FETCHED if by is None else f"{FETCHED}-{by}"))

    def fetch(self, by: int | None = None, names: Sequence[str] | None = None) -> None:
        """Copy all files of the data to where whoever computes reads them by itself.

        `by` is the worker whose own copy it is. Of a directory only what is there of `names`, where these are
        given.
        """
        target = self.fetched(by).data
        if names is not None:
            for name in filter(lambda name: (self.data / name).is_file(), names):
                make_directory((target / name).parent)
                shutil.copyfile(self.data / name, target / name)
        elif self.data.is_dir():
            shutil.copytree(self.data, target, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(self.data, target)

    def drop_fetched(self) -> None:
        """Remove all such copies."""
        for place in self.directory.glob(f"{self.data.name}{PART}{FETCHED}*"):
            _remove(place)
        # Before the next stopwatch, and not within it.
        pagecache.sync_file_system(self.directory)

    def clear(self) -> None:
        """Remove the data and their parts, wherever they lie, and let the file systems finish with them."""
        for place in (self.data, *self.directory.glob(f"{self.data.name}{PART}*")):
            _remove(place)
        other_file_systems.remove(self.data)
        pagecache.sync_file_system(self.directory)

    def clear_unasked(self) -> None:
        """Do so where nobody asks what serves the data before they are cleared again."""
        self.clear()

    def remove(self) -> None:
        """Do so for the last time: what has served the data is not needed any more."""
        self.clear()

    def upload(self) -> dict[str, float]:
        """Put what was written where it is read; returns columns of that, none where it stays."""
        return {}

    def introduction(self) -> Callable[[], None]:
        """Return what another process of this node calls before it opens the data; it can be pickled."""
        return _nothing

    def wire(self) -> Mapping[str, int]:
        """Return what has passed on the wire between reader and data so far; nothing without one."""
        return {}

    def received(self) -> int | None:
        """Return the bytes that this process has had from what serves the data so far; None of files."""
        return None

    def listed(self) -> set[str]:
        """Return the names of what lies in the directory of the data, found as whoever reads finds them."""
        return {entry.name for entry in os.scandir(self.data)}

    def control(self) -> dict[str, float]:
        """Return columns of what counts on that wire costs by itself; none without one."""
        return {}

    def start(self, layout: Mapping[str, Any]) -> None:
        """Start what serves the data of a resolved layout; nothing for files."""

    def start_for_writing(self, layout: Mapping[str, Any]) -> None:
        """Start what takes the data that are to be written, which is mostly what serves them later."""
        self.start(layout)

    def start_for_case(self, layout: Mapping[str, Any], states: Sequence[str]) -> None:
        """Start what a case in these states needs, which is mostly what serves the data from then on."""
        self.start(layout)

    def stop(self) -> None:
        """Stop it, and whatever it started; nothing where it does not run."""

    def restart(self) -> None:
        """Start it anew, so that it holds nothing of the data; nothing for files."""

    def processes(self) -> Sequence[int]:
        """Return the processes whose counters count beside the measuring one's own."""
        return ()

    def memory_bytes(self) -> int:
        """Return the largest resident memory of each of these processes so far, summed."""
        return 0


def _nothing() -> None:
    """Do nothing."""


def make_directory(directory: Path) -> None:
    """Make an artifact's directory, if it is not there."""
    for _ in range(ATTEMPTS):
        # Another cell's process may in this moment remove what was empty above it.
        with suppress(FileNotFoundError, FileExistsError):
            directory.mkdir(parents=True, exist_ok=True)
            return
    directory.mkdir(parents=True, exist_ok=True)


def remove_directory(directory: Path, elsewhere: Mapping[str, str] | None = None) -> None:
    """Remove an artifact's directory, what belongs to it elsewhere, and what is empty then above it.

    The root stays, as all that lies above it. `elsewhere` are the roots of other file systems by name, where
    the environment does not say which there are.
    """
    if directory.is_dir():
        for data in directory.iterdir():
            other_file_systems.remove(data, elsewhere)
    _remove(directory)
    # Nothing is tidied where the file system has vanished, nor where another cell's artifact lies.
    with suppress(OSError):
        root = Path(roots.root_of(directory))
        for parent in directory.parents:
            if parent == root:
                return
            parent.rmdir()


def shared(cases: Sequence[str]) -> str:
    """Return what the artifact of several cases is called, before its round."""
    return SHARED.join(cases)


def sharing(directory: Path) -> list[str]:
    """Return the cases whose artifact lies in a directory."""
    return directory.name.rpartition(".")[0].split(SHARED)


def in_turn(directory: Path, record: Path) -> list[Path]:
    """Return the records of the other cells that share the artifact in a directory, of one of which `record`
    is; none where it is that cell's own.
    """
    cases, _, round_ = directory.name.rpartition(".")
    if SHARED not in cases:
        return []
    places = (record.with_name(f"{case}.{round_}{record.suffix}") for case in cases.split(SHARED))
    return [place for place in places if place != record]


def leave(directory: Path, record: Path) -> None:
    """Remove an artifact whose cell was measured, unless other cells that share it are still to be measured.

    These find no time in its note: it was written for another cell.
    """
    artifact = Artifact.in_directory(directory, "")
    if all(other.exists() for other in in_turn(directory, record)) or not artifact.note.exists():
        # NFS keeps what somebody has open, and the directory with it: no reason to lose the record.
        with suppress(OSError):
            remove_directory(directory)
        return
    note = read_json(artifact.note)
    kept = {key: value for key, value in note.items() if key not in ("generate_s", "began", "ended")}
    artifact.note.write_text(json.dumps(kept), encoding="utf-8")


def stop_cleanly(directory: Path | None, *others: Path) -> None:
    """Have SIGTERM (scancel, a time limit) and SIGINT remove the artifact and `others`, and end the process.

    The artifact is None for as long as what lies in its place may be another run's, which times it.

    Not by an exception: one raised in a destructor or a weak reference's callback, of which h5py has many,
    is ignored, and the signal with it.
    """

    def stop(number: int, _: object) -> None:
        try:
            # They might still write.
            for end in end_servers:
                end()
            # NFS keeps what this process has open, and its directory: that must not keep the process.
            with suppress(OSError):
                if directory is not None:
                    remove_directory(directory)
            for path in others:
                path.unlink(missing_ok=True)
            for wait in await_servers:
                wait()
        finally:
            os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _files_below(place: Path) -> Iterator[Path]:
    """Yield a file itself, or all files below a directory, in the order of their names."""
    if not place.is_dir():
        yield place
        return
    for directory, names, files in os.walk(place):
        names.sort()
        yield from (Path(directory, name) for name in sorted(files))


def _remove(place: Path) -> None:
    """Remove a file or a directory of files, if it is there."""
    with suppress(FileNotFoundError):
        if place.is_dir() and not place.is_symlink():
            # What another process removes meanwhile is as well gone.
            shutil.rmtree(place, ignore_errors=True)
            if place.exists():
                shutil.rmtree(place)
        else:
            place.unlink()
