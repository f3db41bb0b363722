"""Names of other files: what a new file has to say so that they lead where those of the original lead."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from h5py import h5d, h5f, h5o, h5p, h5s

from hyperslab.formats.hdf5.other_files import (
    Source,
    external_files,
    found,
    moved,
    moved_storage,
    storage_found,
    unending,
    virtual_sources,
)
from hyperslab.rewriting import RewriteError, calls
from hyperslab.rewriting.survey import Node, shown

MOST_NAMED = 5


def check_ends(file: h5f.FileID, nodes: Iterable[Node]) -> None:
    """Raise RewriteError for a dataset of whose sources HDF5 would find no end, asked for its shape."""
    path = Path(os.fsdecode(h5f.get_name(file)))
    for node in nodes:
        if node.kind == h5o.TYPE_DATASET and (names := unending(h5d.open(file, node.path), path)):
            where = f"has values in files that are not there: {', '.join(names)}"
            raise RewriteError(f"{shown(node.path)}: {where}")


class OtherNames:
    """The names of other files in `original`, for a file that is to lie in `folder`."""

    def __init__(self, original: Path, folder: Path) -> None:
        self._original, self._folder = original, folder
        self._changed: dict[str, None] = {}
        self._nowhere: dict[str, None] = {}

    def link(self, file: bytes, path: bytes) -> tuple[bytes, bytes]:
        """Return what an external link to `path` in `file` has to say."""
        self._note(file, found(file, self._original))
        return self._new(file, moved(file, self._original, self._folder)), path

    def creation(self, dataset: h5d.DatasetID) -> h5p.PropDCID | None:
        """Return a dataset's creation properties with the names that they have to have; None if no other."""
        old = dataset.get_create_plist()
        external, sources = external_files(old), virtual_sources(old)
        if not external and not sources:
            return None
        names_changed = False
        new: h5p.PropDCID = h5p.create(h5p.DATASET_CREATE) if external else old.copy()
        if external:
            # HDF5 adds to the list of files and never takes from it.
            copy_all_but_files(dataset, old, new)
            for file in external:
                self._note(file.name, storage_found(file.name, self._original))
                name = moved_storage(file.name, self._original, self._folder)
                new.set_external(self._new(file.name, name), file.offset, file.size)
                names_changed |= name != file.name
        if sources:
            # The one way to forget what there is.
            new.set_layout(h5d.CONTIGUOUS)
            new.set_alloc_time(old.get_alloc_time())
        for source in sources:
            self._note(source.file, found(source.file, self._original, virtual=True))
            name = moved(source.file, self._original, self._folder, virtual=True)
            new.set_virtual(source.here, self._new(source.file, name), source.dataset, _all_of(source))
            names_changed |= name != source.file
        return new if names_changed else None

    def said(self) -> list[str]:
        """Return lines about the names that were changed and those that lead nowhere."""
        lines = []
        if self._changed:
            lines.append(f"names of other files lead there from {self._folder}, too: {_some(self._changed)}")
        if self._nowhere:
            lines.append(f"other files that are not there, their names kept: {_some(self._nowhere)}")
        return lines

    def _note(self, name: bytes, place: Path | None) -> None:
        if place is None and name != b".":
            self._nowhere[os.fsdecode(name)] = None

    def _new(self, before: bytes, after: bytes) -> bytes:
        if before != after:
            self._changed[f"{os.fsdecode(before)} is now {os.fsdecode(after)}"] = None
        return after


def _some(names: dict[str, None]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(list(names)[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _all_of(source: Source) -> h5s.SpaceID:
    """Return the elements of a source; where these are all, a file does not say how many,
    but HDF5 wants it said.
    """
    if source.there.get_select_type() != h5s.SEL_ALL:
        return source.there
    if source.here.get_select_type() != h5s.SEL_HYPERSLABS or not source.here.is_regular_hyperslab():
        return h5s.create_simple((source.here.get_select_npoints(),))
    _, _, count, block = source.here.get_regular_hyperslab()
    return h5s.create_simple((math.prod(n for n in (*count, *block) if n != h5s.UNLIMITED),))


def copy_all_but_files(dataset: h5d.DatasetID, old: Any, new: Any) -> None:
    """Give `new` the creation properties of a dataset, but for those that say where its values lie."""
    new.set_fill_time(old.get_fill_time())
    new.set_alloc_time(old.get_alloc_time())
    new.set_obj_track_times(old.get_obj_track_times())
    new.set_attr_creation_order(old.get_attr_creation_order())
    new.set_attr_phase_change(*old.get_attr_phase_change())
    if old.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
        memory = dataset.get_type().copy()
        calls.set_fill_value(new, memory, calls.fill_value(old, memory))
