"""A user's file in which one dataset of ragged rows is kept in another way, and all else as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
from h5py import h5d, h5l, h5o, h5p

from hyperslab import ragged
from hyperslab.formats import Unavailable
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.ragged.convention import SUFFIX
from hyperslab.ragged.opening import storable
from hyperslab.ragged.vlen import fill_vlen
from hyperslab.rewriting import RewriteError, calls, opening
from hyperslab.rewriting.copying import Copy
from hyperslab.rewriting.elements import filled_from_heap
from hyperslab.rewriting.filling import Digests
from hyperslab.rewriting.progress import SECONDS_APART
from hyperslab.rewriting.rows import ATTRIBUTES, Block, StoredRows, vector_address
from hyperslab.rewriting.survey import address_of, attributes_of, shown
from hyperslab.rewriting.target import Place, can_grow, check_filters, extents


class RowsCopy(Copy):
    """The making of a new file with rows of the variable-length type, or of `hyperslab.ragged`."""

    def _checked(self, old: h5d.DatasetID) -> None:
        """Refuse rows that cannot be had, or that cannot be kept as asked; raises RewriteError."""
        try:
            self._rows = _source(old, self._layout)
        except RewriteError as error:
            raise RewriteError(f"{self._name}: {error}") from None
        if self._names_of(self._target) > 1:
            raise RewriteError(
                f"{self._name}: has several names (hard links); the vector of rows lies beside one"
            )
        if self._rows.vector is not None:
            self._check_vector(self._rows.vector)
            self._left_out.add(address_of(self._rows.vector))
            self._not_copied = ATTRIBUTES

    def _names_of(self, address: int) -> int:
        """Return how many hard links lead to an object."""
        links = (link for node in self._nodes.values() for link in node.links)
        return sum(link.kind == h5l.TYPE_HARD and link.address == address for link in links)

    def _check_vector(self, vector: h5d.DatasetID) -> None:
        """Refuse a vector with more than these rows have of it, for it is left out; raises RewriteError."""
        address = address_of(vector)
        if h5o.get_info(vector).fileno != h5o.get_info(self._source).fileno:
            raise RewriteError(f"{self._name}: its vector lies in another file; rewrite one that has both")
        datasets = (node for node in self._nodes.values() if node.kind == h5o.TYPE_DATASET)
        others = [node for node in datasets if node.address != self._target]
        shared = (node for node in others if vector_address(self._source, node.path) == address)
        if other := next(shared, None):
            more = f"the rows of {shown(other.path)}, too"
        elif self._names_of(address) > 1:
            more = "several names (hard links)"
        # Of its own it has neither.
        elif attributes_of(vector) or calls.comment_of(vector):
            more = "attributes or a comment"
        else:
            return
        raise RewriteError(f"{self._name}: its vector has {more}, which would be lost with it")

    def _make_target(self, source: h5d.DatasetID, place: Place) -> None:
        """Make the target: empty rows with a vector, or references without rows."""
        group, link, linking = place
        parent, name = h5py.Group(group), link.decode()
        creation, layout = h5p.create(h5p.DATASET_CREATE), self._layout
        try:
            filter_setters.prepare(layout["filters"])
        except Unavailable as error:
            raise RewriteError(str(error)) from None
        filter_setters.apply(creation, layout["filters"])
        kept: dict[str, Any] = {"dcpl": creation}
        given = source.get_create_plist()
        filled = filled_from_heap(source)
        # How attributes are ordered, and whether times are kept, is the primary dataset's.
        orders = {
            "track_order": given.get_attr_creation_order() > 0,
            "track_times": bool(given.get_obj_track_times()),
        }
        if layout["vector"]:
            try:
                ragged.create(
                    parent, name, self._rows.dtype, chunk_bytes=layout["chunk_bytes"],
                    row_chunk=layout["row_chunk"], filters=kept, row_filters=orders, reuse=layout["reuse"],
                    expected_bytes=self._rows.most_bytes,
                ).close()  # fmt: skip
            except ragged.RaggedError as error:
                raise RewriteError(str(error)) from None
            if filled:
                self._progress.say(
                    f"{self._name}: rows with a vector have no fill value; that of these is left out"
                )
        else:
            shape = (len(self._rows),)
            chunks = (min(layout["row_chunk"], max(1, shape[0])),) if layout["row_chunk"] else None
            most = extents(source)[1] if chunks and can_grow(source) else None
            # A type that was there stays, and with it the name that it has where it is committed.
            own = self._rows.vector is None
            if filled:
                memory = source.get_type().copy()
                calls.set_fill_value(creation, memory, calls.fill_value(given, memory))
            dtype = h5py.Datatype(self._type(source.get_type())) if own else h5py.vlen_dtype(self._rows.dtype)
            parent.create_dataset(name, shape, dtype, maxshape=most, chunks=chunks, **kept, **orders)
        # h5py calls a name of ASCII alone ASCII, where the original may call it UTF-8, as HDF5.jl does.
        if group.links.get_info(link).cset != linking.get_char_encoding():
            aside = link + SUFFIX.encode() * 2
            group.links.move(link, group, aside)
            group.links.move(aside, group, link, lcpl=linking)

    def _fill_target(self) -> dict[int, Digests]:
        """Write all rows, some 16 MiB at a time; their copy is compared with what the original has."""
        new = h5py.Dataset(h5d.open(self._new, self._nodes[self._target].path))
        if self._layout["vector"]:
            with ragged.open(new) as rows:
                for lengths, values in self._told():
                    rows.append_block(lengths, values)
        else:
            fill_vlen(new, self._told())
            new.id.flush()
        return {}

    def _told(self) -> Iterator[Block]:
        """Yield blocks of rows, and say now and then how many there were."""
        began = said = time.monotonic()
        done, what = 0, f"writing {len(self._rows):,} rows of {self._name}"
        self._progress.say(what)
        for lengths, values in self._rows.blocks():
            yield lengths, values
            done += len(lengths)
            if time.monotonic() - said >= SECONDS_APART:
                said = time.monotonic()
                self._progress.say(f"{what}: {done:,}")
        self._progress.say(f"{what}: done in {time.monotonic() - began:.1f} s")


def _source(dataset: h5d.DatasetID, layout: Mapping[str, Any]) -> StoredRows:
    """Return the rows of a dataset that is to get a layout; RewriteError, without its name."""
    if dataset.get_space().get_simple_extent_type() != h5py.h5s.SIMPLE:
        raise RewriteError("is no list of rows")
    check_filters(dataset)
    rows = StoredRows(dataset)
    for words, one in (("has", dataset), ("its vector has", rows.vector)):
        if one is None:
            continue
        creation = one.get_create_plist()
        if creation.get_layout() == h5d.VIRTUAL or creation.get_external_count():
            raise RewriteError(f"{words} values in other datasets or files (virtual or external storage)")
    if rows.vector is not None:
        check_filters(rows.vector)
    if layout["vector"]:
        try:
            storable(rows.dtype)
        except ragged.RaggedError as error:
            raise RewriteError(str(error)) from None
    # A vector can always grow, which tells nothing of what its user wants.
    if rows.vector is None and not layout["vector"] and not layout["row_chunk"] and can_grow(dataset):
        raise RewriteError(
            "can grow, which rows without chunks cannot; choose a layout with row_chunk, or offset-vector"
        )
    if layout["vector"] and rows.vector is None:
        if taken := [shown(name) for name, _ in attributes_of(dataset) if name in ATTRIBUTES]:
            raise RewriteError(f"has an attribute {taken[0]!r}, which the convention of rows has")
        own = h5py.Dataset(dataset)
        if (beside := own.name.rpartition("/")[2] + SUFFIX) in own.parent:
            raise RewriteError(f"its vector would be {beside!r}, which is something else already")
    return rows


def refused_layouts(file: Path, path: str, layouts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return by name why rows cannot get a layout, as opening.refused_layouts does of an array."""
    return opening.refused_layouts(file, path, layouts, _source)
