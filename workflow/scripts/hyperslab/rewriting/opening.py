"""Opening a file that is to be rewritten, and the properties with which the new one is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from h5py import h5d, h5f, h5g, h5o, h5p

from hyperslab.formats.hdf5.settings import KNOBS, LIBVER, Lists
from hyperslab.rewriting import RewriteError, target
from hyperslab.rewriting.survey import Node, shown, survey

# Settings of a layout that shape the whole file.
FILE_SETTINGS = ("libver", "meta_block_bytes", "alignment", "paging")


def access_for_reading() -> h5p.PropFAID:
    """Return the file access properties that close everything with the file;
    filters of plug-ins are made known.
    """
    with suppress(ImportError):
        import hdf5plugin  # noqa: F401
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    return access


def property_lists(source: h5f.FileID, settings: Mapping[str, Any], nodes: Mapping[int, Node]) -> Lists:
    """Return the property lists of the new file: those of the old one, with what the layout says of files."""
    access = access_for_reading()
    # The caller holds a lock of its own on the file.
    access.set_file_locking(False, True)
    kinds = (h5p.DATASET_CREATE, h5p.DATASET_ACCESS, h5p.DATASET_XFER)
    lists = Lists(source.get_create_plist(), access, *(h5p.create(kind) for kind in kinds))
    keep_orders(h5g.open(source, b"/"), lists.file_creation)
    for name in FILE_SETTINGS:
        if settings.get(name, "default") != "default":
            KNOBS[name].put(lists, settings[name], "")
    # Old headers cannot hold what new ones may (attributes above 64 KiB, their order).
    lowest, highest = access.get_libver_bounds()
    if lowest < LIBVER["v108"] and any(node.header > 1 for node in nodes.values()):
        access.set_libver_bounds(LIBVER["v108"], highest)
    return lists


def keep_orders(group: h5g.GroupID, creation: Any) -> None:
    """Let a new group remember what `group` does.

    Its own creation properties would not do: HDF5 puts addresses into them, which hold in one file alone.
    """
    old = group.get_create_plist()
    creation.set_link_creation_order(old.get_link_creation_order())
    creation.set_attr_creation_order(old.get_attr_creation_order())
    creation.set_attr_phase_change(*old.get_attr_phase_change())
    creation.set_obj_track_times(old.get_obj_track_times())


def dataset_at(file: h5f.FileID, path: str) -> h5d.DatasetID:
    """Return the dataset at a path of the file; RewriteError where there is none."""
    try:
        found = h5o.open(file, os.fsencode(path))
    except KeyError:
        found = None
    if isinstance(found, h5d.DatasetID):
        if h5o.get_info(found).fileno == h5o.get_info(file).fileno:
            return found
        # An external link leads to it.
        other = os.fsdecode(h5f.get_name(found))
        raise RewriteError(f"{path!r} is a link to a dataset of another file, {other}: rewrite that one")
    names = [shown(node.path) for node in survey(file).values() if node.kind == h5o.TYPE_DATASET]
    raise RewriteError(f"no dataset {path!r} in this file; it has {', '.join(names[:12]) or 'none'}")


def refused_layouts(
    file: Path,
    path: str,
    layouts: Mapping[str, Mapping[str, Any]],
    check: Callable[[h5d.DatasetID, Mapping[str, Any]], object] = target.chunks_for,
) -> dict[str, str]:
    """Return by name why a dataset cannot get a layout; nothing of those that it can get.

    `check` raises RewriteError, without the dataset's path, for a layout that it cannot get. Raises
    RewriteError where there is no such dataset, OSError for another file.
    """
    opened = h5f.open(os.fsencode(file), h5f.ACC_RDONLY, fapl=access_for_reading())
    found = {}
    try:
        dataset = dataset_at(opened, path)
        for name, layout in layouts.items():
            try:
                check(dataset, layout)
            except RewriteError as error:
                found[name] = f"{path}: {error}"
    finally:
        opened.close()
    return found
