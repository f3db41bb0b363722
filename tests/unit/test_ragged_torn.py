"""Rows whose writer is killed within one of HDF5's own writes: every page after which that can happen.

The kernel copies what is written page by page, and may stop between two of them for a process that is killed.
So all writes to a file are recorded, and the file is made as a kill would leave it, for many of them.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import killed_writers
import pytest
from killed_writers import DEEDS
from test_ragged_crashes import ENVIRONMENT, check_after_kill

from hyperslab import ragged

SIZE = 400
PAGE = 4096
HEAD = struct.Struct("<qq")
# Of each deed at most so many torn files are made.
TORN = 8
FILTERS: dict[str, Any] = {"plain": {}, "gzip": {"compression": "gzip"}}
# Instead of a place: what was flushed.
SAID = -1
WRITER = """
import json, os, struct, sys
from pathlib import Path
import h5py
from hyperslab import ragged
from killed_writers import write

deed, path, size, filters, chunk_bytes, flushes, skipped, record = json.loads(sys.argv[1])
record = os.open(record, os.O_WRONLY | os.O_APPEND)
left = iter(range(flushes))

def say(said):
    line = json.dumps(said).encode()
    os.write(record, struct.pack("<qq", -1, len(line)) + line)
    if next(left, None) is None:
        os._exit(0)

if skipped:
    with h5py.File(path, "w", **ragged.SAFE) as file:
        rows = ragged.create(file, "rows", "int64", chunk_bytes=chunk_bytes, row_chunk=64, filters=filters)
        rows.vector.resize((skipped * chunk_bytes,))
write(deed, Path(path), size, filters, say, chunk_bytes=chunk_bytes)
"""


class Write(NamedTuple):
    """What was written where, and the last flush before."""

    place: int
    content: bytes
    said: list[int] | None

    @property
    def ends(self) -> range:
        """Ends of pages within what was written."""
        return range((self.place // PAGE + 1) * PAGE, self.place + len(self.content), PAGE)


@pytest.fixture
def place(memory: Path) -> Iterator[Path]:
    """A directory in memory: nobody waits for a disk with files of which each is read once."""
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str | None], None]) -> Path:
    """A library that records writes."""
    compiler = shutil.which("cc")
    require(None if compiler else "no C compiler is here")
    library = tmp_path_factory.mktemp("recorder") / "recorder.so"
    source = Path(killed_writers.__file__).with_name("recorded_writes.c")
    subprocess.run([str(compiler), "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def recorded(library: Path, path: Path, *asked: Any, skipped: int = 0) -> list[Write]:
    """All writes of a writer of rows, whose vector begins with so many chunks that are never written."""
    record = path.with_suffix(".record")
    record.touch()
    deed, filters, chunk_bytes, flushes = asked
    words = json.dumps([deed, str(path), SIZE, filters, chunk_bytes, flushes, skipped, str(record)])
    variables = {"LD_PRELOAD": str(library), "RECORDED": str(path), "RECORD": str(record)}
    subprocess.run([sys.executable, "-c", WRITER, words], env={**ENVIRONMENT, **variables}, check=True)
    return list(writes(record.read_bytes()))


def writes(record: bytes) -> Iterator[Write]:
    """Take a record to pieces."""
    at, said = 0, None
    while at < len(record):
        place, length = HEAD.unpack_from(record, at)
        content = record[at + HEAD.size : at + HEAD.size + length]
        at += HEAD.size + length
        if place == SAID:
            said = json.loads(content)
        else:
            yield Write(place, content, said)


# Without filters what is replaced tears nothing: its chunks stay where they are, and their index is short.
TEARING = [(deed, kind) for deed in DEEDS for kind in FILTERS if kind != "plain" or "replace" not in deed]


@pytest.mark.parametrize(("deed", "kind"), TEARING)
def test_no_write_that_is_torn_loses_what_was_flushed(
    place: Path, recorder: Path, deed: str, kind: str
) -> None:
    # A block has as many rows, in the middle, as six appends.
    flushes = 50 if deed == "append_block" else 150
    found = recorded(recorder, place / "a.h5", deed, FILTERS[kind], 1024, flushes)
    index = [write for write in found if write.content.startswith(b"EADB")]
    done = check_torn(place, found, deed, index)
    done += check_torn(
        place, found, deed, [write for write in found if not write.content.startswith(b"EADB")], most=3
    )
    assert done


def test_nor_one_of_an_index_that_has_pages_of_its_own(place: Path, recorder: Path) -> None:
    # Data blocks of more than 1,024 chunks have pages with a checksum each; they begin at 131,060 chunks,
    # of which only those behind need be there. Their number counts: small ones take the fewest rows.
    found = recorded(recorder, place / "a.h5", "append", {}, 16, 40, skipped=2**17)
    pages = [write for write in found if len(write.content) == 1024 * 8 + 4]
    # Written before, so that what was flushed lies in it, and behind others.
    again = [write for at, write in enumerate(pages) if write.place in {one.place for one in pages[:at]}]
    assert check_torn(place, found, "append", again[len(again) // 2 :], most=1)


def check_torn(
    directory: Path, found: list[Write], deed: str, chosen: list[Write], *, most: int = TORN
) -> int:
    """Tear some of the chosen writes, spread over all of them, and recover each file; returns how many."""
    image, torn = directory / "image.h5", directory / "torn.h5"
    image.write_bytes(b"")
    numbers = {id(write): number for number, write in enumerate(found)}
    places = [(numbers[id(write)], end) for write in chosen if write.said for end in write.ends]
    places = places[:: max(1, -(-len(places) // most))]
    with image.open("r+b", buffering=0) as whole:
        done = 0
        for number, end in places:
            for before in found[done:number]:
                os.pwrite(whole.fileno(), before.content, before.place)
            done, write = number, found[number]
            shutil.copyfile(image, torn)
            with torn.open("r+b") as file:
                file.seek(write.place)
                file.write(write.content[: end - write.place])
            assert ragged.recover(torn)
            assert not ragged.recover(torn)
            check_after_kill(torn, deed, SIZE, [write.said])
    return len(places)
