"""Packs: the records of one study, and the study, in one small file that gives them back byte for byte.

Of a study whose layouts advice has found also what was predicted, which a recommendation makes use of. Here
they are read, and all that they hold is checked; `packing.py` makes them and unpacks them.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from hyperslab import layouts
from hyperslab.records import MALFORMED, Record, cell_of, is_record
from hyperslab.results.archive import ArchiveError, members
from hyperslab.results.recommendation import read_foretold
from hyperslab.results.tables import context_entry, is_sure, record_rows, tidy
from hyperslab.studies import advised
from hyperslab.studies.case_kinds import KINDS
from hyperslab.validation.errors import NAME_PATTERN, ConfigurationError
from hyperslab.validation.yaml_files import read_yaml

SUFFIX = ".tar.xz"
# File systems end names at 255 bytes; what is written beside a record is named after it.
_NAME = f"({NAME_PATTERN.strip('^$').removesuffix('*')}{{0,199}})"
STUDY_PATH = re.compile(rf"config/studies/{_NAME}\.yaml")
RECORD_PATH = re.compile(rf"results/{_NAME}/cells/{_NAME}/{_NAME}/{_NAME}\.([rc][0-9]{{1,6}})\.json")
PREDICTION_PATH = re.compile(rf"results/{_NAME}/{re.escape(advised.PREDICTION)}")
MOST_STUDY_BYTES = 2**18
# Studies that extend each other, and bytes of a record or prediction; real ones have some ten thousand.
MOST_STUDIES, MOST_RECORD_BYTES = 16, 2**22
# Repeats that are made a table at once, to see that they can be; one record has no more.
ROWS_AT_ONCE = 20_000


class PackError(Exception):
    """A pack that cannot be made or read; the text is one line."""


def contents(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) of a pack, each checked: records, what was predicted, the study and its bases.

    Only when it has come to its end is the pack known to be whole. Raises PackError, with the pack's name.
    """
    for member in _tabled(file):
        yield member.path, member.content


@dataclass(frozen=True)
class _Member:
    """What a pack holds at a path; of a record also what it says, and its rows."""

    path: str
    content: bytes
    record: Record | None = None
    rows: Sequence[dict[str, Any]] = ()


def _tabled(file: Path) -> Iterator[_Member]:
    """Yield `_checked` members, of whose rows it is seen that they can be made a table."""
    rows: dict[str, Sequence[dict[str, Any]]] = {}
    count = 0
    for member in _checked(file):
        own = member.record["repeats"] if member.record else []
        # The first row also has what all rows of a record share. Making tables takes longer than all else.
        if not all(map(is_sure, [*member.rows[:1], *own])):
            rows[member.path] = member.rows
            count += len(member.rows)
        if count > ROWS_AT_ONCE:
            _table(file, rows)
            rows, count = {}, 0
        yield member
    if rows:
        _table(file, rows)


def _checked(file: Path) -> Iterator[_Member]:
    """Yield the members of a pack, each checked by itself, and its study last; raises PackError."""
    if not file.is_file():
        there = [str(path) for path in file.parent.glob(f"*{SUFFIX}")]
        near = difflib.get_close_matches(str(file), there, n=1)
        raise PackError(f"{file}: there is no such file" + (f"; do you mean {near[0]}?" if near else ""))
    described: dict[str, bytes] = {}
    seen: set[str] = set()
    measured = False
    try:
        for path, content in members(file):
            if path in seen:
                raise PackError(f"{file}: holds {path} twice")
            seen.add(path)
            if len(described) == len(seen) - 1 and (found := STUDY_PATH.fullmatch(path)):
                if len(content) > MOST_STUDY_BYTES:
                    raise PackError(f"{file}: study {found[1]} has more than {MOST_STUDY_BYTES // 1024} KiB")
                if len(described) == MOST_STUDIES:
                    raise PackError(f"{file}: holds more than {MOST_STUDIES} studies")
                described[found[1]] = content
                continue
            if len(described) == len(seen) - 1:
                _check_chain(file, described)
            member = _member(file, path, content, next(iter(described)))
            measured = measured or member.record is not None
            yield member
    except ArchiveError as error:
        raise PackError(f"{file}: {error}") from None
    if not measured:
        raise PackError(f"{file}: holds no records")
    yield from (_Member(f"config/studies/{name}.yaml", text) for name, text in described.items())


def measurements(file: Path, cells: Collection[tuple[str, str]] | None = None) -> pd.DataFrame:
    """Return the repeats of a pack's records as a table with the columns of MEASUREMENTS; nothing is stale.

    They are of all layouts and cases, or of these alone: to make a table takes longer than to read a pack.
    Raises PackError for a pack that is damaged.
    """
    rows = {
        member.path: member.rows
        for member in _checked(file)
        if cells is None or cell_of(Path(member.path))[:2] in cells
    }
    return _table(file, rows).assign(stale=False)


def records(file: Path) -> Iterator[tuple[str, Record]]:
    """Yield (layout, record) of a pack, as they were written: with the place of each selection, say.

    Raises PackError for a pack that is damaged.
    """
    for member in _tabled(file):
        if member.record is not None:
            yield member.path.split("/")[4], member.record


def _member(file: Path, path: str, content: bytes, study: str) -> _Member:
    """Return the record or the prediction at `path`; raises PackError for what is neither of `study`."""
    found = PREDICTION_PATH.fullmatch(path) or RECORD_PATH.fullmatch(path)
    if found is None or found[1] != study:
        raise PackError(f"{file}: {path!r} is not a record of study {study}")
    if len(content) > MOST_RECORD_BYTES:
        raise PackError(f"{file}: {path} has more than {MOST_RECORD_BYTES // 2**20} MiB")
    with _undamaged(file, path):
        if found.re is PREDICTION_PATH:
            read_foretold(content)
            return _Member(path, content)
        record = json.loads(content.decode())
        if not is_record(record):
            raise ValueError("not a record of Hyperslab")
        spec = record["specification"]
        if (record["site"], spec["case"]["name"], spec["round"]) != (found[2], found[4], found[5]):
            raise ValueError("it is the record of another cell")
        for what, name, known in (
            ("format", spec["layout"]["format"], layouts.FORMATS),
            ("kind", spec["case"]["kind"], KINDS),
        ):
            if name not in known:
                newer = f"is of a newer version of Hyperslab: this one knows no {what} {name!r}"
                raise PackError(f"{file}: {path} {newer}")
        context_entry(record)
        if len(record["repeats"]) > ROWS_AT_ONCE:
            raise ValueError(f"it has more than {ROWS_AT_ONCE:,} repeats")
        return _Member(path, content, record, record_rows(record, found[3], study, None, {}))


@contextmanager
def _undamaged(file: Path, path: str) -> Iterator[None]:
    """Raise PackError, with the name of the record, for whatever the block does not find as it should be."""
    try:
        yield
    except (*MALFORMED, RecursionError) as error:
        raise PackError(f"{file}: {path} is damaged ({_said(error)})") from None


def _table(file: Path, rows: Mapping[str, Sequence[dict[str, Any]]]) -> pd.DataFrame:
    """Return the table of rows by record; raises PackError, with the record's name, where there is none."""
    try:
        return tidy([row for part in rows.values() for row in part])
    except MALFORMED:
        for path, part in rows.items():
            with _undamaged(file, path):
                tidy(list(part))
        raise


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"no {text}" if isinstance(error, KeyError) else text or type(error).__name__


# Studies


def with_bases(study: str, studies: Path) -> dict[str, bytes]:
    """Return name -> content of a study's file and those that it extends;
    raises PackError where one is missing.
    """
    found: dict[str, bytes] = {}
    name: Any = study
    while isinstance(name, str) and name not in found:
        try:
            content = read_yaml(studies / f"{name}.yaml")
        except ConfigurationError as error:
            raise PackError(str(error)) from None
        found[name] = (studies / f"{name}.yaml").read_bytes()
        name = content.get("extends") if isinstance(content, dict) else None
    return found


def _check_chain(file: Path, described: Mapping[str, bytes]) -> None:
    """Raise PackError unless these are a study and those that it extends."""
    if not described:
        raise PackError(f"{file}: does not begin with its study")
    own = next(iter(described))
    with folder_of(file, described) as folder:
        needed = with_bases(own, folder)
    if more := described.keys() - needed.keys():
        raise PackError(f"{file}: holds a study that {own} does not extend, {', '.join(sorted(more))}")


@contextmanager
def folder_of(file: Path, described: Mapping[str, bytes]) -> Iterator[Path]:
    """Yield a folder with these studies for a while; a PackError that names it then names the pack."""
    with TemporaryDirectory() as folder:
        for name, text in described.items():
            (Path(folder) / f"{name}.yaml").write_bytes(text)
        try:
            yield Path(folder)
        except PackError as error:
            raise PackError(str(error).replace(f"{folder}/", f"{file}: config/studies/")) from None
