"""What a table was made of: its records as they were then, so that a later run can tell what changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from hyperslab.records import read_json

# size in bytes, time of the last change in ns, SHA-256 of the content
Print = tuple[int, int, str]


def _print(record: Path) -> Print:
    content = record.read_bytes()
    found = record.stat()
    return found.st_size, found.st_mtime_ns, hashlib.sha256(content).hexdigest()


def write(file: Path, records: Iterable[Path]) -> None:
    """Write what tells later whether `records` are still those of a table."""
    file.write_text(json.dumps({str(record): _print(record) for record in records}), encoding="utf-8")


def unchanged(file: Path, records: Iterable[str]) -> bool:
    """Tell whether a table whose sources are in `file` was made of just these records as they are now.

    A record that was copied or touched is the same; one that cannot be read is another.
    """
    try:
        known = read_json(file)
    except (OSError, ValueError):
        return False
    wanted = set(records)
    if not isinstance(known, dict):
        return False
    return wanted == known.keys() and all(_same(Path(record), tuple(known[record])) for record in wanted)


def _same(record: Path, before: Print) -> bool:
    try:
        found = record.stat()
        if (found.st_size, found.st_mtime_ns) == before[:2]:
            return True
        return found.st_size == before[0] and _print(record)[2] == before[2]
    except OSError:
        return False
