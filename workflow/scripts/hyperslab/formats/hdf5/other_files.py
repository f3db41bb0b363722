"""Other files that an HDF5 file names: by external links, sources of virtual datasets, and external storage.

A relative name leads from the folder of the file that has it, or from where the program runs, and so not
from a copy that lies elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from h5py import h5d, h5f, h5i, h5o, h5p, h5s

# What stands for a number in the name of a virtual dataset's source; %% is a percent sign.
NUMBER = re.compile(rb"%\d*b")
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


def _written(name: bytes) -> bytes:
    """Return the name of a virtual source as its first file has it."""
    return NUMBER.sub(b"0", name).replace(b"%%", b"%")


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
            yield from _missing_in(place, _written(inner), access, deep + 1)


def _missing_in(file: Path, dataset: bytes, access: Any, deep: int) -> Iterator[str]:
    """Yield `missing` of a dataset that is opened for it; the dataset itself where it is not there."""
    opened = h5f.open(os.fsencode(file), h5f.ACC_RDONLY, fapl=access)
    try:
        source: Any = h5o.open(opened, dataset)
        yield from missing(source, file, deep)
    except KeyError:
        yield f"{file}::{os.fsdecode(dataset)}"
    finally:
        opened.close()


def holders(dataset: h5d.DatasetID, file: Path) -> list[Path]:
    """Return the files that hold the values of a dataset of `file`, which mostly is the only one."""
    creation = dataset.get_create_plist()
    places = [storage_found(external.name, file) for external in external_files(creation)]
    # A dataset has thousands of sources in as many files, or in one.
    for name in dict.fromkeys(source.file for source in virtual_sources(creation)):
        places.append(file if name == b"." else found(name, file, virtual=True))
    return [place for place in places if place is not None] or [file]


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
