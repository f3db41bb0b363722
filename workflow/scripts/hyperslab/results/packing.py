"""Packing: a study with its records is made a pack, and what a pack holds is put where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from hyperslab.records import write_whole
from hyperslab.results.archive import ArchiveError, members, write
from hyperslab.results.packs import (
    PREDICTION_PATH,
    RECORD_PATH,
    STUDY_PATH,
    PackError,
    contents,
    folder_of,
    with_bases,
)
from hyperslab.studies import advised
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError


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
            if found := STUDY_PATH.fullmatch(path):
                described[found[1]] = content
            elif PREDICTION_PATH.fullmatch(path):
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
            if RECORD_PATH.fullmatch(path) and not (target := _below(results, path)).exists():
                forget(target)
                write_whole(target, content)
    except ArchiveError as error:
        raise PackError(f"{file}: {error}") from None
    except OSError as error:
        raise PackError(f"{error.filename or results}: {error.strerror}") from None
    return Unpacked(study, count, notes)


def _below(results: Path, path: str) -> Path:
    return results / path.removeprefix("results/")


def _check_place(target: Path, content: bytes) -> None:
    """Raise PackError where something else is than what is to be written there."""
    if target.exists() and (not target.is_file() or target.read_bytes() != content):
        raise PackError(f"{target}: holds another result; move it away, or unpack into another directory")


# Studies


def _check(file: Path) -> None:
    """Raise PackError for a mistake in a study."""
    try:
        LoadedStudy(file)
    except ConfigurationError as error:
        raise PackError(str(error)) from None


def _measured(study: str, studies: Path, results: Path) -> dict[str, bytes]:
    """Return `with_bases`; of a study that asks for advice the one that was made of it, under its name.

    What it asks is answered by probing sites, which are others elsewhere. Raises PackError for a mistake.
    """
    file = studies / f"{study}.yaml"
    try:
        made = advised.made_of(file, results) if advised.asks(file) else None
    except ConfigurationError as error:
        raise PackError(str(error)) from None
    _check(made or file)
    return {study: made.read_bytes()} if made else with_bases(study, studies)


def _answers(text: bytes, here: Path) -> bool:
    """Return whether a pack's study is what advice has made of what the study `here` asks."""
    try:
        return advised.asks(here) and text.startswith(f"{advised.head(advised.question(here))}\n".encode())
    except ConfigurationError:
        return False


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
    with folder_of(file, described) as folder:
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
    with folder_of(file, described) as folder:
        try:
            return LoadedStudy(here).study == LoadedStudy(folder / here.name).study
        except ConfigurationError:
            return False
