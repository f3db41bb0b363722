"""The new file: what stays is copied by HDF5 itself, the one dataset is made anew.

A copied object lies elsewhere, so hard links, references, dimension scales and committed datatypes must be
made to lead to it: objects are copied one by one, and their addresses are remembered.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from h5py import h5a, h5d, h5f, h5g, h5l, h5o, h5p, h5t

from hyperslab.rewriting import RewriteError, calls, long_elements, taking_in, target
from hyperslab.rewriting.elements import (
    copy_attribute,
    count,
    filled_from_heap,
    read_elements,
    translated,
    write_elements,
)
from hyperslab.rewriting.filling import Digests, Filling
from hyperslab.rewriting.memory import Plain, UnknownReference, form_of, has_references
from hyperslab.rewriting.opening import access_for_reading, dataset_at, keep_orders, property_lists
from hyperslab.rewriting.other_names import OtherNames, check_ends
from hyperslab.rewriting.progress import Progress
from hyperslab.rewriting.references import Correspondence
from hyperslab.rewriting.storage import StoredChunks, chunk_of, elsewhere
from hyperslab.rewriting.survey import (
    Link,
    Node,
    address_of,
    attributes_of,
    below,
    committed_address,
    shown,
    survey,
)

# From here on a larger budget is worth a word.
DECODED_OFTEN = 1.5


class Copy:
    """The making of one new file."""

    def __init__(
        self,
        original: Path,
        new: Path,
        path: str,
        layout: Mapping[str, Any],
        budget: int,
        progress: Progress,
        folder: Path,
        materialise: bool = False,
    ) -> None:
        """Take what is copied where and how; `materialise`: values in other files are taken in."""
        self._materialise = materialise
        # Datasets whose values were in other files.
        self._taken_in: list[Node] = []
        self._name, self._budget, self._progress, self._layout = path, budget, progress, layout
        self._original = original
        self._source = h5f.open(os.fsencode(original), h5f.ACC_RDONLY, fapl=access_for_reading())
        self._nodes = survey(self._source)
        check_ends(self._source, self._nodes.values())
        self._heap = long_elements.heap_bytes(self._source, self._nodes.values(), budget)
        old = dataset_at(self._source, path)
        self._target = address_of(old)
        # Objects without a place in the new file, and attributes of the target that are not a user's.
        self._left_out: set[int] = set()
        self._not_copied: frozenset[bytes] = frozenset()
        self._chunk = self._checked(old)
        self._lists = property_lists(self._source, layout["settings"], self._nodes)
        self._new = h5f.create(
            os.fsencode(new), h5f.ACC_TRUNC, fcpl=self._lists.file_creation, fapl=self._lists.file_access
        )
        # Address in the old file -> address in the new one, and path of a committed datatype's copy.
        self._there: dict[int, int] = {}
        self._other = OtherNames(original, folder)
        self._types: dict[int, bytes] = {}
        self._by_hand: list[Node] = []
        self._references = Correspondence(self._nodes, self._source, self._new, self._there)

    def make(self) -> dict[int, Digests]:
        """Copy everything but the target's values, then these; closes both files.

        Returns address -> what was read, of those datasets of the original whose values were copied here.
        """
        holder = self._copy_types()
        root = h5g.open(self._new, b"/")
        self._there[address_of(h5g.open(self._source, b"/"))] = address_of(root)
        for node in self._nodes.values():
            if node.kind == h5o.TYPE_GROUP:
                self._by_hand.append(node)
                self._make_links(node)
        for node in self._by_hand:
            self._finish(node)
        if holder:
            self._remove(root, holder)
        for line in self._other.said():
            self._progress.say(line)
        digests = self._fill_target()
        for node in self._taken_in:
            chunk = chunk_of(h5d.open(self._new, node.path))
            digests |= self._fill(node, f"{shown(node.path)}, whose values lie in other files,", chunk)
        h5f.flush(self._new, h5f.SCOPE_LOCAL)
        self._new.close()
        self._source.close()
        return digests

    def _checked(self, old: h5d.DatasetID) -> tuple[int, ...] | None:
        """Return the chunk shape of the target; raises RewriteError where it cannot get the layout."""
        try:
            return target.chunks_for(old, self._layout)
        except RewriteError as error:
            raise RewriteError(f"{self._name}: {error}") from None

    def _make_target(self, source: h5d.DatasetID, place: target.Place) -> None:
        """Make the target, empty."""
        target.create(source, self._type(source.get_type()), self._chunk, self._layout, self._lists, place)

    def _fill_target(self) -> dict[int, Digests]:
        """Copy its values."""
        return self._fill(self._nodes[self._target], self._name, self._chunk)

    def _fill(self, node: Node, called: str, chunk: tuple[int, ...] | None) -> dict[int, Digests]:
        """Copy the values of a dataset; returns what was read by the dataset's address."""
        old = target.opened(self._source, node.path, self._budget)
        new = target.opened(self._new, node.path, self._budget)
        filling = Filling(old, new, self._budget)
        storage = f"in chunks {list(chunk)}" if chunk else "without chunks"
        size = math.prod(old.shape) * old.get_type().get_size()
        self._progress.start(f"writing {called} {storage}", size)
        if (decoded := filling.pieces.decoded) >= DECODED_OFTEN:
            self._progress.say(f"reading each chunk {decoded:.1f} times; a larger --budget, fewer times")
        digests = filling.run(self._progress.advance)
        # What fails in a destructor is lost.
        new.flush()
        self._progress.done()
        return {node.address: digests}

    # Objects

    def _copy_types(self) -> bytes | None:
        """Copy committed datatypes into a group of their own, where copies of others find them."""
        types = [node for node in self._nodes.values() if node.kind == h5o.TYPE_NAMED_DATATYPE]
        if not types:
            return None
        used = {link.name for node in self._nodes.values() if node.path == b"/" for link in node.links}
        name = next(name for n in range(len(used) + 1) if (name := b"datatypes-%d" % n) not in used)
        holder = h5g.create(self._new, name)
        for node in types:
            path = below(b"/" + name, b"%d" % node.address)
            bare = calls.merging(None, h5o.COPY_WITHOUT_ATTR_FLAG)
            h5o.copy(self._source, node.path, self._new, path, bare)
            self._types[node.address] = path
            self._there[node.address] = address_of(h5o.open(self._new, path))
            self._by_hand.append(node)
        holder.close()
        return name

    def _remove(self, root: h5g.GroupID, holder: bytes) -> None:
        group = h5g.open(root, holder)
        for path in self._types.values():
            group.unlink(path.rpartition(b"/")[2])
        root.unlink(holder)

    def _make_links(self, node: Node) -> None:
        """Fill the copy of a group with its links, in order, each object at its first link."""
        group = h5g.open(self._new, node.path)
        for link in node.links:
            if link.kind == h5l.TYPE_HARD and link.address in self._left_out:
                continue
            linking = h5p.create(h5p.LINK_CREATE)
            linking.set_char_encoding(link.encoding)
            if link.kind == h5l.TYPE_SOFT:
                group.links.create_soft(link.name, link.value, linking)
            elif link.kind == h5l.TYPE_EXTERNAL:
                group.links.create_external(link.name, *self._other.link(*link.value), linking)
            elif link.address in self._there:
                known = self._types.get(link.address, self._nodes[link.address].path)
                group.links.create_hard(link.name, self._new, known, linking)
            else:
                self._place(self._nodes[link.address], group, link, linking)
                self._there[link.address] = address_of(h5o.open(group, link.name))

    def _place(self, node: Node, group: h5g.GroupID, link: Link, linking: h5p.PropLCID) -> None:
        if node.kind == h5o.TYPE_GROUP:
            creation = h5p.create(h5p.GROUP_CREATE)
            keep_orders(h5g.open(self._source, node.path), creation)
            h5g.create(group, link.name, linking, creation).close()
        else:
            self._place_dataset(node, group, link, linking)

    def _place_dataset(self, node: Node, group: h5g.GroupID, link: Link, linking: h5p.PropLCID) -> None:
        source = h5d.open(self._source, node.path)
        datatype = source.get_type()
        if node.address == self._target:
            self._make_target(source, (group, link.name, linking))
            self._by_hand.append(node)
            return
        if self._materialise and any(elsewhere(source, self._original).values()):
            try:
                taking_in.create(source, self._type(datatype), (group, link.name, linking))
            except RewriteError as error:
                raise RewriteError(f"{shown(node.path)}: {error}") from None
            self._by_hand.append(node)
            self._taken_in.append(node)
            return
        attributes = [h5a.open(source, name).get_type() for name, _ in attributes_of(source)]
        try:
            beyond = self._by_elements(source)
            renamed = self._other.creation(source)
            by_hand = beyond or renamed or any(t.committed() or self._beyond_hdf5(t) for t in attributes)
        except UnknownReference as error:
            raise RewriteError(
                f"{shown(node.path)}: has {error}, which cannot be led into a new file"
            ) from None
        if by_hand:
            self._by_hand.append(node)
        if beyond or renamed:
            creation = renamed or source.get_create_plist()
            h5d.create(group, link.name, self._type(datatype), source.get_space(), creation, linking).close()
            return
        self._progress.note_large(shown(node.path), int(source.get_storage_size()))
        flags = h5o.COPY_WITHOUT_ATTR_FLAG if by_hand else 0
        # Of several equal committed types HDF5 would take any: there is but this one to choose.
        path = self._types.get(committed_address(datatype) or 0)
        h5o.copy(self._source, node.path, group, link.name, calls.merging(path, flags), linking)

    def _by_elements(self, source: h5d.DatasetID) -> bool:
        """Return whether elements are read and written here: H5Ocopy loses some, or holds too many."""
        return (
            self._beyond_hdf5(source.get_type())
            or filled_from_heap(source)
            or long_elements.too_long(source, self._heap, self._budget)
        )

    @staticmethod
    def _beyond_hdf5(datatype: h5t.TypeID) -> bool:
        """Return whether H5Ocopy loses something of what has this type.

        It copies or voids what references lead to. A committed type with elements of variable length it
        never takes for the one in the new file: such types name their file.
        """
        form = form_of(datatype)
        return has_references(form) or (datatype.committed() and not isinstance(form, Plain))

    def _type(self, datatype: h5t.TypeID) -> h5t.TypeID:
        """Return the type to use in the new file: where committed, the copy of it."""
        path = self._types.get(committed_address(datatype) or 0)
        return h5t.open(self._new, path) if path else datatype.copy()

    # What is finished once every object has its place

    def _finish(self, node: Node) -> None:
        """Copy attributes and comment of what HDF5 did not copy whole, and the values of references."""
        source = h5o.open(self._source, node.path)
        new = h5o.open(self._new, self._types.get(node.address, node.path))
        is_target = node.address == self._target
        for name, encoding in attributes_of(source):
            if is_target and name in self._not_copied:
                continue
            try:
                found = h5a.open(source, name)
                copy_attribute(found, new, name, encoding, self._type(found.get_type()), self._references)
            except UnknownReference as error:
                where = f"{shown(node.path)}, attribute {shown(name)}"
                raise RewriteError(f"{where}: has {error}, which cannot be led into a new file") from None
        if comment := calls.comment_of(source):
            calls.set_comment(new, comment)
        if (
            is_target
            or not isinstance(source, h5d.DatasetID)
            or any(elsewhere(source, self._original).values())
        ):
            return
        if self._by_elements(source):
            self._copy_elements(source, new)

    def _copy_elements(self, source: h5d.DatasetID, new: h5d.DatasetID) -> None:
        form, stored = form_of(source.get_type()), StoredChunks(source)
        if not count(source.get_space()):
            return
        for box in long_elements.pieces(source, new, self._heap, self._budget).boxes(source.shape):
            if stored.any(box):
                with read_elements(source, box) as buffer:
                    write_elements(new, box, translated(form, buffer, self._references))
