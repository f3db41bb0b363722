"""Packs: the records of one study, and the study, in one small file that gives them back byte for byte.

Of a study whose layouts advice has found also what was predicted, which a recommendation makes use of.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from hyperslab import layouts
from hyperslab.records import MALFORMED, Record, is_record, write_whole
from hyperslab.results.archive import ArchiveError, members, write
from hyperslab.results.recommendation import read_foretold
from hyperslab.results.tables import context_entry, is_sure, record_rows, tidy
from hyperslab.studies import advised
from hyperslab.studies.case_kinds import KINDS
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import NAME_PATTERN, ConfigurationError
from hyperslab.validation.yaml_files import read_yaml

SUFFIX = ".tar.xz"
# File systems end names at 255 bytes; what is written beside a record is named after it.
_NAME = f"({NAME_PATTERN.strip('^$').removesuffix('*')}{{0,199}})"
_STUDY = re.compile(rf"config/studies/{_NAME}\.yaml")
_RECORD = re.compile(rf"results/{_NAME}/cells/{_NAME}/{_NAME}/{_NAME}\.([rc][0-9]{{1,6}})\.json")
_PREDICTION = re.compile(rf"results/{_NAME}/{re.escape(advised.PREDICTION)}")
MOST_STUDY_BYTES = 2**18
# Studies that extend each other, and bytes of a record or prediction; real ones have some ten thousand.
MOST_STUDIES, MOST_RECORD_BYTES = 16, 2**22
# Repeats that are made a table at once, to see that they can be; one record has no more.
ROWS_AT_ONCE = 20_000


class PackError(Exception):
    """A pack that cannot be made or read; the text is one line."""


@dataclass(frozen=True)
class Unpacked:
    """What was unpacked: the study's name, the number of records, and what the user should know besides."""

    study: str
    records: int
    notes: list[str]


def pack(
    study: str, output: Path, results: Path = Path("results"), studies: Path = Path("config/studies")
) -> int:
    """Write a study, those that it extends and its records into `output`; return the number of records.

    Raises PackError where there are none, and for anything that could not be unpacked again.
    """
    cells = results / study / "cells"
    paths = sorted(cells.rglob("*.json"))
    if not paths:
        raise PackError(f"{cells}: holds no records; measure study {study!r} first")
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}.partial")
    try:
        described = [
            (f"config/studies/{name}.yaml", text) for name, text in _measured(study, studies, results).items()
        ]
        if (told := results / study / advised.PREDICTION).exists():
            described.append((f"results/{study}/{told.name}", told.read_bytes()))
        content = ((f"results/{path.relative_to(results).as_posix()}", path.read_bytes()) for path in paths)
        write(partial, chain(described, content))
        # What cannot be unpacked must not take another pack's place.
        for _ in contents(partial):
            pass
        partial.replace(output)
    except ArchiveError as error:
        raise PackError(str(error)) from None
    except OSError as error:
        raise PackError(f"{error.filename or output}: {error.strerror}") from None
    except PackError as error:
        raise PackError(str(error).replace(str(partial), str(output))) from None
    finally:
        partial.unlink(missing_ok=True)
    return len(paths)


def unpack(
    file: Path,
    results: Path = Path("results"),
    studies: Path = Path("config/studies"),
    forget: Callable[[Path], object] = lambda record: None,
) -> Unpacked:
    """Write a pack's records below `results` and its study into `studies`; return what was done.

    A record (or prediction) that is there with other content is not overwritten, and a study of that name is
    kept. `forget` is told each place where a record is about to be put. Raises PackError, before anything is
    written, for such a record and for a pack that is damaged.
    """
    described: dict[str, bytes] = {}
    told: bytes | None = None
    count = 0
    try:
        for path, content in contents(file):
            if found := _STUDY.fullmatch(path):
                described[found[1]] = content
            elif _PREDICTION.fullmatch(path):
                told = content
            else:
                count += 1
                _check_place(_below(results, path), content)
        study = next(iter(described))
        places, notes = _places(file, described, results / study, studies)
        if told is not None:
            # It is of the pack's study, and goes where that goes if another one is kept.
            kept = next((place.parent for place in places if place.parent != studies), results / study)
            _check_place(kept / advised.PREDICTION, told)
            places[kept / advised.PREDICTION] = told
        for target, text in places.items():
            write_whole(target, text)
        for path, content in members(file):
            if _RECORD.fullmatch(path) and not (target := _below(results, path)).exists():
                forget(target)
                write_whole(target, content)
    except ArchiveError as error:
        raise PackError(f"{file}: {error}") from None
    except OSError as error:
        raise PackError(f"{error.filename or results}: {error.strerror}") from None
    return Unpacked(study, count, notes)


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
            if len(described) == len(seen) - 1 and (found := _STUDY.fullmatch(path)):
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


def measurements(file: Path) -> pd.DataFrame:
    """Return the repeats of a pack's records as a table with the columns of MEASUREMENTS; nothing is stale.

    Raises PackError for a pack that is damaged.
    """
    return _table(file, {member.path: member.rows for member in _checked(file)}).assign(stale=False)


def records(file: Path) -> Iterator[tuple[str, Record]]:
    """Yield (layout, record) of a pack, as they were written: with the place of each selection, say.

    Raises PackError for a pack that is damaged.
    """
    for member in _tabled(file):
        if member.record is not None:
            yield member.path.split("/")[4], member.record


def _below(results: Path, path: str) -> Path:
    return results / path.removeprefix("results/")


def _check_place(target: Path, content: bytes) -> None:
    """Raise PackError where something else is than what is to be written there."""
    if target.exists() and (not target.is_file() or target.read_bytes() != content):
        raise PackError(f"{target}: holds another result; move it away, or unpack into another directory")


def _member(file: Path, path: str, content: bytes, study: str) -> _Member:
    """Return the record or the prediction at `path`; raises PackError for what is neither of `study`."""
    found = _PREDICTION.fullmatch(path) or _RECORD.fullmatch(path)
    if found is None or found[1] != study:
        raise PackError(f"{file}: {path!r} is not a record of study {study}")
    if len(content) > MOST_RECORD_BYTES:
        raise PackError(f"{file}: {path} has more than {MOST_RECORD_BYTES // 2**20} MiB")
    with _undamaged(file, path):
        if found.re is _PREDICTION:
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


def _check(file: Path) -> None:
    """Raise PackError for a mistake in a study."""
    try:
        LoadedStudy(file)
    except ConfigurationError as error:
        raise PackError(str(error)) from None


def _chain(study: str, studies: Path) -> dict[str, bytes]:
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


def _measured(study: str, studies: Path, results: Path) -> dict[str, bytes]:
    """Return `_chain`; of a study that asks for advice the one that was made of it, under its name.

    What it asks is answered by probing sites, which are others elsewhere. Raises PackError for a mistake.
    """
    file = studies / f"{study}.yaml"
    try:
        made = advised.made_of(file, results) if advised.asks(file) else None
    except ConfigurationError as error:
        raise PackError(str(error)) from None
    _check(made or file)
    return {study: made.read_bytes()} if made else _chain(study, studies)


def _answers(text: bytes, here: Path) -> bool:
    """Return whether a pack's study is what advice has made of what the study `here` asks."""
    try:
        return advised.asks(here) and text.startswith(f"{advised.head(advised.question(here))}\n".encode())
    except ConfigurationError:
        return False


def _check_chain(file: Path, described: Mapping[str, bytes]) -> None:
    """Raise PackError unless these are a study and those that it extends."""
    if not described:
        raise PackError(f"{file}: does not begin with its study")
    own = next(iter(described))
    with _folder_of(file, described) as folder:
        needed = _chain(own, folder)
    if more := described.keys() - needed.keys():
        raise PackError(f"{file}: holds a study that {own} does not extend, {', '.join(sorted(more))}")


@contextmanager
def _folder_of(file: Path, described: Mapping[str, bytes]) -> Iterator[Path]:
    """Yield a folder with these studies for a while; a PackError that names it then names the pack."""
    with TemporaryDirectory() as folder:
        for name, text in described.items():
            (Path(folder) / f"{name}.yaml").write_bytes(text)
        try:
            yield Path(folder)
        except PackError as error:
            raise PackError(str(error).replace(f"{folder}/", f"{file}: config/studies/")) from None


def _places(
    file: Path, described: Mapping[str, bytes], beside: Path, studies: Path
) -> tuple[dict[Path, bytes], list[str]]:
    """Return where the pack's studies are to be written, and what to say of it; never over another study."""
    own = next(iter(described))
    here = studies / f"{own}.yaml"
    if here.exists():
        text, made = described[own], beside / advised.STUDY
        # What was made of a study that asks for advice lies with its results, and the question stays.
        if _answers(text, here) and (not made.exists() or made.read_bytes() == text):
            return {made: text}, []
        if _same(file, here, described):
            return {}, []
        kept = beside / "study"
        note = f"{here} is another study than the pack's and is kept; the pack's is in {kept}"
        return {kept / f"{name}.yaml": text for name, text in described.items()}, [note]
    with _folder_of(file, described) as folder:
        _check(folder / f"{own}.yaml")
    places = {studies / f"{name}.yaml": text for name, text in described.items()}
    for place, text in places.items():
        if place.exists() and place.read_bytes() != text:
            raise PackError(
                f"{place}: is another study than the one that {own} extends in {file}; rename one of them"
            )
    return places, [f"{here} is new"]


def _same(file: Path, here: Path, described: Mapping[str, bytes]) -> bool:
    """Return whether the study `here` says what the pack's says, comments and order of keys aside."""
    with _folder_of(file, described) as folder:
        try:
            return LoadedStudy(here).study == LoadedStudy(folder / here.name).study
        except ConfigurationError:
            return False
