"""Records: what one cell and round measured, as JSON that appears whole or not at all; how JSON is read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from hyperslab.specifications import Specification

# One repeat: its keys are columns of the tables (results/columns.py), those that a kind of case has.
Row = dict[str, Any]
# Layout, case and round: what one record is of.
Cell = tuple[str, str, str]
# Phase -> what stands before the number of a round in the name of its record.
LETTER = {"main": "r", "confirm": "c"}


class Moment(TypedDict):
    """A moment on every clock that comparisons need."""

    boot_id: str
    boottime_s: float
    wall_s: float


class Note(TypedDict):
    """What the writer of a test artifact tells the reader."""

    generate_s: float
    writer: str
    node: str
    began: Moment
    ended: Moment
    peak_memory_bytes: int
    # What the build of a library lacks, for which nothing was written.
    unavailable: NotRequired[str]
    # Of what was written, so that cells which share it know it.
    specification: NotRequired[str]


class Measured(TypedDict):
    """What measuring one cell in one round yields."""

    specification: Specification
    # The number of the timing protocol of the case's kind.
    protocol: int
    began: Moment
    ended: Moment
    # None where the case makes its own test file.
    writer: Note | None
    # Which locks were held while it was timed.
    locks: dict[str, bool]
    # Probes before and after it, and by how much they changed.
    probes: dict[str, dict[str, float | bool]]
    machine: dict[str, Any]
    root: dict[str, Any]
    throttle: dict[str, Any] | None
    file_system: dict[str, Any]
    versions: dict[str, str]
    # Variables of the environment that bear on a measurement.
    environment: dict[str, str]
    peak_memory_bytes: int
    # What the file says of itself: sizes, counts, and the settings in force.
    file: dict[str, Any]
    # State -> why it could not be had.
    skipped: dict[str, str]
    repeats: list[Row]


class Record(Measured):
    """The same with the name of its site, as it is stored."""

    site: str


def record_of(study: str, site: str, cell: Cell) -> str:
    """Return where the record of a cell lies."""
    layout, case, round_ = cell
    return f"results/{study}/cells/{site}/{layout}/{case}.{round_}.json"


def cell_of(record: Path) -> Cell:
    """Return the cell whose record lies there."""
    # The name of a case may hold dots, too.
    case, _, round_ = record.stem.rpartition(".")
    return record.parent.name, case, round_


def site_of(record: Path) -> str:
    """Return the name of the site whose record lies there."""
    return record.parts[-3]


def written_at(path: str | Path) -> int | None:
    """Return when a file was written, in ns since 1970; None where there is none."""
    try:
        return Path(path).stat().st_mtime_ns
    except FileNotFoundError:
        return None


def written_as(path: str | Path) -> list[int] | None:
    """Return when a file was written, in ns since 1970, and how many bytes it has; None where there is none.

    Some file systems know whole seconds alone (sshfs), in which one file may take another's place.
    """
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return None
    return [found.st_mtime_ns, found.st_size]


def first_moment(record: Record) -> Moment:
    """Return when a cell began, its writer included, by clocks that its end can be compared with.

    The boot-time clock of another node cannot be, so that it is the reader's beginning then, and by the wall
    clock the writer's. What was written before the node was booted anew does not count.
    """
    own, writer = record["began"], record["writer"]
    # One that wrote for another cell, too, has no time in it.
    first = writer.get("began", own) if writer else own
    if first["boot_id"] == own["boot_id"]:
        return first
    if writer and writer["node"] == record["machine"]["node"]:
        return own
    return {**own, "wall_s": min(first["wall_s"], own["wall_s"])}


def partial(path: str | Path) -> Path:
    """Return where this process writes what is to become the record `path`."""
    return Path(path).with_name(f".{Path(path).name}.{os.getpid()}")


def previous(path: str | Path) -> Path:
    """Return where a record that makes room for another is kept until that is there."""
    return Path(path).with_name(f".{Path(path).name}.previous")


def write_record(path: str | Path, record: Mapping[str, object]) -> None:
    """Write JSON to `path` in one step: a reader sees the old file or the new one, never half of it."""
    write_whole(path, json.dumps(record, separators=(",", ":"), allow_nan=True).encode())


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file in one step, in a folder that is made where it is missing."""
    target, written = Path(path), partial(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        written.write_bytes(content)
        written.replace(target)
        previous(target).unlink(missing_ok=True)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file; raises OSError without one, ValueError where it holds no JSON."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


class DamagedRecord(ValueError):
    """A file that is no record, or no longer one; the text is one line that names it and the way out."""

    def __init__(self, path: str | Path, why: object) -> None:
        said = " ".join(str(why).split())
        remedy = "delete it, and the next run measures its cell again"
        super().__init__(f"{path} is not a record of Hyperslab ({said}); {remedy}")


def read_record(path: str | Path) -> Record:
    """Return a record as it was written; raises DamagedRecord where the file is not one."""
    try:
        record: Record = read_json(path)
    except (ValueError, RecursionError) as error:
        raise DamagedRecord(path, error) from None
    if not is_record(record):
        raise DamagedRecord(path, "it has no repeats, or no specification")
    return record


class MisplacedRecord(DamagedRecord):
    """A record in the folder of another site than it was measured at; the text is one line."""

    def __init__(self, path: Path, site: str) -> None:
        keeps = f"a folder of records keeps the name of its site: {path.parents[2] / site}"
        ValueError.__init__(self, f"{path} was measured at site {site!r}, and {keeps}")


def is_record(content: Any) -> bool:
    """Return whether the content of a JSON file is that of a record."""
    return isinstance(content, dict) and content.keys() >= {"repeats", "specification"}


# What a record raises that lacks something or has another kind of thing in its place.
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)


@contextmanager
def parts_of(path: str | Path) -> Iterator[None]:
    """Raise DamagedRecord for whatever the block does not find where a record has it."""
    try:
        yield
    except DamagedRecord:
        raise
    except MALFORMED as error:
        raise DamagedRecord(path, f"{type(error).__name__}: {error}") from None
