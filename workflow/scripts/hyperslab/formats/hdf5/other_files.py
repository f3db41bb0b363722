"""Other files that an HDF5 file names: by external links, sources of virtual datasets, and external storage.

A relative name leads from the folder of the file that has it, or from where the program runs, and so not
from a copy that lies elsewhere.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
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


def missing(dataset: h5d.DatasetID, file: Path, deep: int = 0) -> Iterator[str]:
    """Yield each file, or dataset in a file, that holds values of a dataset of `file` and is not there."""
    creation = dataset.get_create_plist()
    for external in external_files(creation):
        if not os.path.exists(external.name):
            yield os.fsdecode(external.name)
    sources = virtual_sources(creation)
    for name, inner in dict.fromkeys((source.file, source.dataset) for source in sources):
        place = file if name == b"." else found(name, file, virtual=True)
        if place is None:
            yield os.fsdecode(name)
        elif deep < DEEPEST:
            # A file that is open already is opened in the same way.
            access = h5i.get_file_id(dataset).get_access_plist()
            written = _written(inner)
            try:
                yield from _inside(missing, place, written, access, deep + 1)
            except KeyError:
                yield f"{place}::{os.fsdecode(written)}"


def _inside(
    look: Callable[[h5d.DatasetID, Path, int], Iterator[Any]], file: Path, dataset: bytes, access: Any,
    deep: int,
) -> Iterator[Any]:  # fmt: skip
    """Yield what `look` finds of a dataset that is opened for it; raises KeyError where it is not there."""
    opened = h5f.open(os.fsencode(file), h5f.ACC_RDONLY, fapl=access)
    try:
        source: Any = h5o.open(opened, dataset)
        yield from look(source, file, deep)
    finally:
        opened.close()


def holders(dataset: h5d.DatasetID, file: Path) -> list[Path]:
    """Return the files that hold the values of a dataset of `file`, which mostly is the only one.

    Where sources of a virtual dataset are virtual themselves, both they and theirs are open while it is read.
    """
    return list(dict.fromkeys(_opened_for(dataset, file))) or [file]


def _opened_for(dataset: h5d.DatasetID, file: Path, deep: int = 0) -> Iterator[Path]:
    """Yield each file that is opened for values of a dataset of `file`, as often as it is named."""
    creation = dataset.get_create_plist()
    yield from filter(None, (storage_found(external.name, file) for external in external_files(creation)))
    # A dataset has thousands of sources in as many files, or in one.
    for name, inner in dict.fromkeys((source.file, source.dataset) for source in virtual_sources(creation)):
        for place, written in _series(name, inner, file):
            yield place
            # Whether it can be opened is for `missing` to say.
            with suppress(KeyError, OSError):
                if deep < DEEPEST:
                    access = h5i.get_file_id(dataset).get_access_plist()
                    yield from _inside(_opened_for, place, written, access, deep + 1)


def _series(name: bytes, inner: bytes, file: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield file and dataset of a virtual source of `file`: of numbered files all up to the first gap."""
    numbered = _written(name, 0) != _written(name, 1)
    for number in itertools.count():
        place = file if name == b"." else found(_written(name, number), file)
        if place is None:
            return
        yield place, _written(inner, number)
        if not numbered:
            return


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
    opened = h5f.open(os.fsencode(place), h5f.ACC_RDONLY, fapl=h5i.get_file_id(dataset).get_access_plist())
    try:
        chunks = chunks_of(h5d.open(opened, inner), place, deep + 1)
    finally:
        opened.close()
    count = len(dataset.shape)
    return (*[1] * (count - len(chunks)), *chunks[-count:]) if chunks else None
