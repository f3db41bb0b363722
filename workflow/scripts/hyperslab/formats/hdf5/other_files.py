"""Other files that an HDF5 file names: by external links, sources of virtual datasets, and external storage.

A relative name leads from the folder of the file that has it, or from where the program runs, and so not
from a copy that lies elsewhere.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from h5py import h5d, h5f, h5i, h5o, h5p, h5s

# What stands for a number in the name of a virtual dataset's source, or for a percent sign.
ESCAPED = re.compile(rb"%(\d*b|%)")
# A virtual dataset may be made of virtual ones; so many times at most.
DEEPEST = 16


@dataclass(frozen=True)
class External:
    """A file that holds raw values of a dataset: its name, the offset in it and the number of bytes."""

    name: bytes
    offset: int
    size: int


@dataclass(frozen=True)
class Source:
    """Where a virtual dataset has some of its elements: a dataset of a file ("." is the file itself)."""

    file: bytes
    dataset: bytes
    there: h5s.SpaceID
    here: h5s.SpaceID


def external_files(creation: h5p.PropDCID) -> list[External]:
    """Return the files of external storage that a dataset's creation properties name."""
    return [External(*creation.get_external(n)) for n in range(creation.get_external_count())]


def virtual_sources(creation: h5p.PropDCID) -> list[Source]:
    """Return the sources of a virtual dataset from its creation properties; none of another dataset."""
    if creation.get_layout() != h5d.VIRTUAL:
        return []
    return [
        Source(
            os.fsencode(creation.get_virtual_filename(n)),
            os.fsencode(creation.get_virtual_dsetname(n)),
            creation.get_virtual_srcspace(n),
            creation.get_virtual_vspace(n),
        )
        for n in range(creation.get_virtual_count())
    ]


def _written(name: bytes, number: int = 0) -> bytes:
    """Return the name of a virtual source as its file of that number has it."""
    return ESCAPED.sub(lambda one: b"%" if one[0] == b"%%" else b"%d" % number, name)


def _beside(file: Path) -> list[Path]:
    """Return the folder of a file, and that of the file to which a symbolic link leads."""
    return [file.parent, Path(os.path.realpath(file)).parent]


def _first(places: list[Path], sought: bytes) -> Path | None:
    """Return the first of the places from which a name leads to a file."""
    return next((place for place in places if (place / os.fsdecode(sought)).exists()), None)


def _sought(name: bytes) -> bytes:
    """Return what HDF5 looks for in its places: of an absolute name that leads nowhere the last part."""
    gone = os.path.isabs(name) and not os.path.exists(name)
    return os.path.basename(name) if gone and os.path.basename(name) else name


def found(name: bytes, file: Path, virtual: bool = False) -> Path | None:
    """Return the file to which a name in the HDF5 file `file` leads, None where there is none.

    HDF5 looks beside the file that has the name, where the program runs, and beside the file to which a
    symbolic link leads. `virtual` names are those of virtual sources, in which a number may be left open.
    """
    sought = _sought(_written(name) if virtual else name)
    near, far = _beside(file)
    place = _first([near, Path(), far], sought)
    return None if place is None else place / os.fsdecode(sought)


def moved(name: bytes, file: Path, folder: Path, virtual: bool = False) -> bytes:
    """Return what leads from `folder` to the file to which `name` leads from the HDF5 file `file`.

    Absolute names of files that are there, names that lead nowhere, and what lies beside a file of the same
    folder stay as they are.
    """
    written = _written(name) if virtual else name
    sought = _sought(written)
    near, far = _beside(file)
    place = _first([near, Path(), far], sought)
    as_it_is = name == b"." or (os.path.isabs(name) and sought == written)
    if as_it_is or place is None or _stays(place, file, folder):
        return name
    way = os.fsencode(os.path.relpath(os.path.realpath(place), os.path.realpath(folder)))
    last = os.path.basename(name) if os.path.isabs(name) else name
    return os.path.join(way.replace(b"%", b"%%") if virtual else way, last)


def storage_found(name: bytes, file: Path) -> Path | None:
    """Return the file of external storage to which a name in `file` leads, None where there is none.

    HDF5 looks where the program runs, which mostly is where the file lies.
    """
    place = _first([Path(), *_beside(file)], name)
    return None if place is None else place / os.fsdecode(name)


def moved_storage(name: bytes, file: Path, folder: Path) -> bytes:
    """Return the name of external storage for a file in another folder: an absolute one."""
    place = _first([Path(), *_beside(file)], name)
    if os.path.isabs(name) or place is None or _stays(place, file, folder):
        return name
    return os.fsencode(os.path.abspath(place / os.fsdecode(name)))


def _stays(place: Path, file: Path, folder: Path) -> bool:
    """Return whether a name that leads from `place` does so from a file in `folder`, too: beside `file`, but
    for what lies beside the file to which that is a symbolic link alone.
    """
    near, far = _beside(file)
    return _same_folder(near, folder) and (not _same_folder(place, far) or _same_folder(near, far))


def _same_folder(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _numbered(name: bytes) -> bool:
    """Return whether a name in a virtual source has a number left open."""
    return _written(name, 0) != _written(name, 1)


def _unending(name: bytes, inner: bytes, file: Path) -> bool:
    """Return whether HDF5 would find a file for every number of a virtual source of `file`, and never end.

    Where no file of an absolute name is there any more, it looks for the last part, which may have no number.
    """
    last = os.path.basename(name)
    alike = bool(last) and not _numbered(last) and not _numbered(inner)
    return alike and _numbered(name) and os.path.isabs(name) and found(_written(last), file) is not None


def _said(name: bytes) -> str:
    """Return the name of a virtual source without an end, and why it is none."""
    last = os.fsdecode(_written(os.path.basename(name)))
    return f"{os.fsdecode(name)} (in whose place HDF5 finds {last} for every number, without end)"


def unending(dataset: h5d.DatasetID, file: Path) -> list[str]:
    """Return the sources of a dataset of `file` of which HDF5 would find no end, asked for its shape."""
    sources = virtual_sources(dataset.get_create_plist())
    found = (source.file for source in sources if _unending(source.file, source.dataset, file))
    return [_said(name) for name in dict.fromkeys(found)]


@dataclass(frozen=True)
class Whereabouts:
    """Where the values of a dataset lie: the files that are opened for them, and the names of files, and of
    datasets in a file, that are not there.
    """

    holders: list[Path]
    missing: list[str]


def whereabouts(dataset: h5d.DatasetID, file: Path) -> Whereabouts:
    """Return where the values of a dataset of `file` lie, which mostly is there; a source is opened once.

    Where sources of a virtual dataset are virtual themselves, both they and theirs are open while it is read.
    Raises OSError for a source that cannot be opened.
    """
    places = list(dict.fromkeys(_places(dataset, file)))
    holders = [place for place in places if isinstance(place, Path)]
    return Whereabouts(holders or [file], [place for place in places if isinstance(place, str)])


def _places(dataset: h5d.DatasetID, file: Path, deep: int = 0) -> Iterator[Path | str]:
    """Yield each file that is opened for values of a dataset of `file`, and the name of what is not there."""
    creation = dataset.get_create_plist()
    for external in external_files(creation):
        name = os.fsdecode(external.name)
        yield Path(name) if os.path.exists(name) else name
    # A file that is open already is opened in the same way.
    access = h5i.get_file_id(dataset).get_access_plist()
    # A dataset has thousands of sources in as many files, or in one.
    for source in dict.fromkeys((source.file, source.dataset) for source in virtual_sources(creation)):
        yield from _places_of(*source, file, access, deep)


def _places_of(name: bytes, inner: bytes, file: Path, access: Any, deep: int) -> Iterator[Path | str]:
    """Yield what `_places` does for a virtual source of `file`: of numbered files all up to the first gap."""
    if _unending(name, inner, file):
        yield _said(name)
        return
    numbers: Iterable[int] = itertools.count() if _numbered(name) else [0]
    for number in numbers:
        place = file if name == b"." else found(_written(name, number), file)
        if place is None:
            if number == 0:
                yield os.fsdecode(name)
            return
        written = _written(inner, number)
        with ExitStack() as stack:
            try:
                source = stack.enter_context(_opened(place, written, access))
            except (KeyError, OSError) as error:
                # Numbered files end for HDF5 where it can open none.
                if number > 0:
                    return
                if isinstance(error, OSError):
                    raise
                yield f"{place}::{os.fsdecode(written)}"
                return
            yield place
            if deep < DEEPEST:
                yield from _places(source, place, deep + 1)


@contextmanager
def _opened(file: Path, dataset: bytes, access: Any) -> Iterator[Any]:
    """Open a dataset of a file; raises KeyError where it is not there."""
    opened = h5f.open(os.fsencode(file), h5f.ACC_RDONLY, fapl=access)
    try:
        yield h5o.open(opened, dataset)
    finally:
        opened.close()


def chunks_of(dataset: h5d.DatasetID, file: Path, deep: int = 0) -> tuple[int, ...] | None:
    """Return the chunks in which the values of a dataset of `file` lie; None where these lie in none.

    Of a virtual dataset those of the first source stand for all, along the last axes of both.
    """
    creation = dataset.get_create_plist()
    if creation.get_layout() == h5d.CHUNKED:
        return tuple(creation.get_chunk())
    sources = virtual_sources(creation)
    if not sources or deep == DEEPEST:
        return None
    name, inner = sources[0].file, _written(sources[0].dataset)
    place = file if name == b"." else found(name, file, virtual=True)
    if place is None:
        return None
    with _opened(place, inner, h5i.get_file_id(dataset).get_access_plist()) as source:
        chunks = chunks_of(source, place, deep + 1)
    count = len(dataset.shape)
    return (*[1] * (count - len(chunks)), *chunks[-count:]) if chunks else None
