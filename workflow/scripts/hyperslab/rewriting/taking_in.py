"""Datasets whose values lie in other files, made so that the new file holds them itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from h5py import h5d, h5f, h5g, h5o, h5p

from hyperslab.formats.hdf5.other_files import whereabouts
from hyperslab.measuring import limits
from hyperslab.rewriting import RewriteError, target
from hyperslab.rewriting.elements import is_plain
from hyperslab.rewriting.opening import access_for_reading
from hyperslab.rewriting.other_names import copy_all_but_files
from hyperslab.rewriting.storage import elsewhere
from hyperslab.rewriting.survey import shown, survey

MOST_NAMED = 3


def paths(file: Path) -> list[str]:
    """Return the paths of all datasets of a file whose values lie in other files, as far as it says.

    Raises RewriteError where one would have fill values: some of the files are not there, or they are more
    than may be open.
    """
    opened = h5f.open(os.fsencode(file), h5f.ACC_RDONLY, fapl=access_for_reading())
    try:
        datasets = [node.path for node in survey(opened).values() if node.kind == h5o.TYPE_DATASET]
        found = [path for path in datasets if any(elsewhere(h5d.open(opened, path), file).values())]
        for path in found:
            check_there(h5d.open(opened, path), path, file)
        return [os.fsdecode(path) for path in found]
    finally:
        opened.close()


def check_there(dataset: h5d.DatasetID, path: bytes, file: Path) -> None:
    """Raise RewriteError where not all files can be read that hold values of a dataset of `file`."""
    where = whereabouts(dataset, file)
    if absent := where.missing:
        more = f" and {len(absent) - MOST_NAMED} more" if len(absent) > MOST_NAMED else ""
        names = ", ".join(absent[:MOST_NAMED])
        raise RewriteError(f"{shown(path)}: has values in files that are not there from here: {names}{more}")
    try:
        # HDF5 closes no source of a virtual dataset before that is closed.
        limits.allow_files(len(where.holders), "reading")
    except OSError as error:
        raise RewriteError(f"{shown(path)}: {error.strerror}") from None


def create(source: h5d.DatasetID, datatype: Any, place: tuple[h5g.GroupID, bytes, h5p.PropLCID]) -> None:
    """Make a dataset like `source`, in chunks where it can grow, else contiguous.

    Raises RewriteError, without its name, where its elements are of variable length or references, which name
    their own file.
    """
    if not is_plain(source.get_type()):
        raise RewriteError("has elements of variable length or references in other files, which stay there")
    creation = h5p.create(h5p.DATASET_CREATE)
    copy_all_but_files(source, source.get_create_plist(), creation)
    shape, most = target.extents(source)
    creation.set_alloc_time(h5d.ALLOC_TIME_LATE)
    if shape != most:
        chunk = target.resolved_chunks("auto", shape, most, source.get_type().get_size())
        creation.set_chunk(chunk)
        creation.set_alloc_time(h5d.ALLOC_TIME_INCR)
    group, name, linking = place
    h5d.create(group, name, datatype, source.get_space(), creation, linking).close()
