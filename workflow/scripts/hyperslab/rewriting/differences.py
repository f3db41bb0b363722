"""Whether two files hold the same: one line for every difference in objects, links, attributes or values."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from h5py import h5a, h5d, h5f, h5g, h5l, h5o, h5s, h5t

from hyperslab.formats.hdf5.other_files import found
from hyperslab.rewriting import calls, long_elements, target
from hyperslab.rewriting.comparing import same_elements, same_values
from hyperslab.rewriting.elements import attribute_elements, count, filled_from_heap
from hyperslab.rewriting.filling import Digests
from hyperslab.rewriting.memory import UnknownReference
from hyperslab.rewriting.opening import access_for_reading, dataset_at
from hyperslab.rewriting.other_names import check_ends
from hyperslab.rewriting.progress import Progress
from hyperslab.rewriting.references import Correspondence
from hyperslab.rewriting.rows import ATTRIBUTES, row_differences, vector_address
from hyperslab.rewriting.storage import elsewhere, kept_properties, leads, same_fill_value, storage
from hyperslab.rewriting.survey import (
    KINDS,
    LINK_KINDS,
    Link,
    address_of,
    attributes_of,
    below,
    committed_address,
    shown,
    survey,
)

BUDGET = 256 * 2**20


def differences(
    original: Path,
    new: Path,
    relaid: Collection[str] = (),
    budget: int = BUDGET,
    progress: Progress | None = None,
    folder: Path | None = None,
    rows: str | None = None,
    digests: Mapping[int, Digests] | None = None,
) -> Iterator[str]:
    """Yield one line for each difference between two HDF5 files; none where they hold the same.

    Compared are the user block, links (names, order, kind, target), objects and which links share one, types,
    extents, fill values, attributes and every value, bit for bit; references by what they lead to. How
    datasets are stored is compared too, except for those named in `relaid`. Names of other files are the same
    where they lead to one file, those of the new file from `folder`, in which it is to lie (default: where it
    lies). Of `rows`, a dataset of ragged rows, the rows are compared, however each file keeps them. Of a
    dataset in `relaid` whose values lie in other files the new file may have the values itself. `digests` of
    datasets, by their address in the original, stand for values that were read of it before.
    `budget` bounds the memory, in bytes. Raises OSError for a file that cannot be read.
    """
    files = [h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=_access(path, new)) for path in (original, new)]
    try:
        sizes = [file.get_create_plist().get_userblock() for file in files]
        blocks = [_beginning(path, size) for path, size in zip((original, new), sizes, strict=True)]
        if blocks[0] != blocks[1]:
            yield f"the user block differs ({sizes[0]} and {sizes[1]} bytes)"
        places = original, (folder or new.parent) / new.name
        away = folder is not None and os.path.realpath(folder) != os.path.realpath(new.parent)
        yield from _Comparison(
            files[0], files[1], places, away, relaid, budget, progress, rows, digests or {}
        ).run()
    finally:
        for file in files:
            file.close()


def _access(path: Path, new: Path) -> Any:
    access = access_for_reading()
    if path == new:
        # Whoever writes it holds a lock of another kind on it.
        access.set_file_locking(False, True)
    return access


def _beginning(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


class _Comparison:
    """Two open files, walked side by side."""

    def __init__(
        self,
        ours: h5f.FileID,
        theirs: h5f.FileID,
        places: tuple[Path, Path],
        away: bool,
        relaid: Collection[str],
        budget: int,
        progress: Progress | None,
        rows: str | None,
        digests: Mapping[int, Digests],
    ) -> None:
        self._ours, self._theirs, self._places, self._away = ours, theirs, places, away
        self._nodes, self._others = survey(ours), survey(theirs)
        check_ends(ours, self._nodes.values())
        # Beside the new one a file may lie that HDF5 takes for a source, and beside the original none.
        check_ends(theirs, self._others.values())
        self._relaid = {address_of(dataset_at(ours, name)) for name in relaid}
        self._budget, self._progress, self._digests = budget, progress, digests
        self._heap = long_elements.heap_bytes(ours, self._nodes.values(), budget)
        # Of rows: their dataset, and in each file that of their bytes, if there is one.
        self._rows = address_of(dataset_at(ours, rows)) if rows else None
        self._vectors = [vector_address(file, rows.encode()) if rows else None for file in (ours, theirs)]
        # Address -> address of corresponding objects, and the pairs of paths at which they were met.
        self._there: dict[int, int] = {}
        self._met: set[int] = set()
        self._pairs: list[tuple[bytes, int]] = []
        self._references = Correspondence(self._nodes, ours, theirs, self._there)

    def run(self) -> Iterator[str]:
        """Yield all differences: first those of links, then those of each pair of objects."""
        self._meet(b"/", next(iter(self._nodes)), next(iter(self._others)))
        # Grows while groups are compared.
        for path, kind in self._pairs:
            if kind == h5o.TYPE_GROUP:
                yield from self._links(path)
        for path, kind in self._pairs:
            first, second = h5o.open(self._ours, path), h5o.open(self._theirs, path)
            yield from self._attributes(path, first, second)
            if calls.comment_of(first) != calls.comment_of(second):
                yield f"{shown(path)}: the comment differs"
            if kind == h5o.TYPE_DATASET:
                comparable = yield from self._dataset(path, first, second)
                # Whoever opens a dataset first decides on its chunk cache.
                del first, second
                if comparable:
                    yield from self._values(path)
            elif kind == h5o.TYPE_NAMED_DATATYPE and not first.copy().equal(second.copy()):
                yield f"{shown(path)}: the datatype differs"
            elif kind == h5o.TYPE_GROUP:
                yield from self._group(path, first, second)

    def _meet(self, path: bytes, ours: int, theirs: int) -> tuple[str, ...]:
        """Return the note that two objects stand at the same path."""
        if ours in self._there or theirs in self._met:
            if self._there.get(ours) == theirs:
                return ()
            return (f"{shown(path)}: is not shared by the same hard links",)
        first, second = self._nodes[ours], self._others[theirs]
        if first.kind != second.kind:
            return (f"{shown(path)}: a {KINDS[first.kind]} became a {KINDS[second.kind]}",)
        self._there[ours] = theirs
        self._met.add(theirs)
        self._pairs.append((path, first.kind))
        return ()

    # Groups and links

    def _links(self, path: bytes) -> Iterator[str]:
        ours, theirs = (
            {
                link.name: link
                for link in nodes[h5o.get_info(file, path).addr].links
                if link.kind != h5l.TYPE_HARD or link.address != vector
            }
            for nodes, file, vector in zip(
                (self._nodes, self._others), (self._ours, self._theirs), self._vectors, strict=True
            )
        )
        yield from _unmatched(path, ours, theirs, "links", lambda name: f"{shown(below(path, name))}:")
        for name in ours:
            if name in theirs:
                yield from self._link(below(path, name), ours[name], theirs[name])

    def _link(self, path: bytes, ours: Link, theirs: Link) -> Iterator[str]:
        if ours.kind != theirs.kind:
            yield f"{shown(path)}: a {LINK_KINDS[ours.kind]} became a {LINK_KINDS[theirs.kind]}"
        elif ours.kind == h5l.TYPE_HARD:
            yield from self._meet(path, ours.address, theirs.address)
        elif self._end(ours, 0) != self._end(theirs, 1):
            yield f"{shown(path)}: the {LINK_KINDS[ours.kind]} leads elsewhere"
        if ours.encoding != theirs.encoding:
            yield f"{shown(path)}: the character set of the name differs"

    def _end(self, link: Link, side: int) -> Any:
        """Return where a soft or external link of one of the two files leads."""
        if isinstance(link.value, bytes):
            return link.value
        name, path = link.value
        return leads(name, found(name, self._places[side])), path

    def _group(self, path: bytes, ours: h5g.GroupID, theirs: h5g.GroupID) -> Iterator[str]:
        first, second = ours.get_create_plist(), theirs.get_create_plist()
        for words, get in (
            ("order of links", "get_link_creation_order"),
            ("order of attributes", "get_attr_creation_order"),
        ):
            if getattr(first, get)() != getattr(second, get)():
                yield f"{shown(path)}: whether it keeps the {words} differs"

    # Types and extents

    def _same_type(self, ours: h5t.TypeID, theirs: h5t.TypeID) -> bool:
        if not ours.copy().equal(theirs.copy()):
            return False
        first, second = committed_address(ours), committed_address(theirs)
        if first is not None and first not in self._nodes:
            # No link names it, so that it cannot be told from its copy.
            return True
        return (None if first is None else self._there.get(first)) == second

    def _shape_differences(self, where: str, ours: Any, theirs: Any) -> Iterator[str]:
        if not self._same_type(ours.get_type(), theirs.get_type()):
            yield f"{where}: the datatype differs"
        if self._extent(ours) != self._extent(theirs):
            yield f"{where}: the extent differs"

    def _extent(self, thing: Any) -> tuple[Any, ...]:
        """Return the class, extents and largest extents of a dataset or attribute."""
        space = thing.get_space()
        kind = space.get_simple_extent_type()
        if kind != h5s.SIMPLE:
            return (kind,)
        most = space.get_simple_extent_dims(True)
        # A virtual dataset without end is as long as its sources, which are not found from here yet.
        if self._away and h5s.UNLIMITED in most and _is_virtual(thing):
            return kind, most
        return kind, space.get_simple_extent_dims(), most

    # Attributes

    def _attributes(self, path: bytes, ours: Any, theirs: Any) -> Iterator[str]:
        said = ATTRIBUTES if any(self._vectors) and address_of(ours) == self._rows else frozenset()
        first, second = (
            {name: encoding for name, encoding in attributes_of(one) if name not in said}
            for one in (ours, theirs)
        )

        def called(name: bytes) -> str:
            return f"{shown(path)}: attribute {shown(name)!r}"

        yield from _unmatched(path, first, second, "attributes", called)
        for name in first:
            if name in second:
                where = called(name)
                if first[name] != second[name]:
                    yield f"{where}: the character set of the name differs"
                yield from self._attribute(where, h5a.open(ours, name), h5a.open(theirs, name))

    def _attribute(self, where: str, ours: h5a.AttrID, theirs: h5a.AttrID) -> Iterator[str]:
        found = list(self._shape_differences(where, ours, theirs))
        yield from found
        if found or not count(ours.get_space()):
            return
        try:
            with attribute_elements(ours) as first, attribute_elements(theirs) as second:
                if not same_elements(ours.get_type(), first, second, self._references):
                    yield f"{where}: the value differs"
        except UnknownReference as error:
            yield f"{where}: has {error}, which cannot be compared"

    # Datasets

    def _dataset(self, path: bytes, ours: h5d.DatasetID, theirs: h5d.DatasetID) -> Generator[str, None, bool]:
        """Yield what differs but for the values; returns whether these are still to be compared."""
        where = shown(path)
        if address_of(ours) == self._rows:
            found = list(row_differences(where, ours, theirs))
            yield from found
            # A vector has no type of HDF5's that says what rows hold, and always grows.
            if not (found or any(self._vectors)):
                found = list(self._shape_differences(where, ours, theirs))
                yield from found
                filled = filled_from_heap(ours) == filled_from_heap(theirs)
                if not found and not (filled and same_fill_value(ours, theirs, self._references)):
                    yield f"{where}: the fill value differs"
            return False
        found = list(self._shape_differences(where, ours, theirs))
        yield from found
        relaid = address_of(ours) in self._relaid
        first, second = (
            kept_properties(dataset, place) | ({} if relaid else storage(dataset))
            for dataset, place in zip((ours, theirs), self._places, strict=True)
        )
        taken_in = relaid and not any(elsewhere(theirs, self._places[1]).values())
        if taken_in:
            first |= {words: second[words] for words in elsewhere(theirs, self._places[1])}
        yield from (f"{where}: differs in {words}" for words in first if first[words] != second[words])
        if found:
            return False
        try:
            if not same_fill_value(ours, theirs, self._references):
                yield f"{where}: the fill value differs"
        except UnknownReference as error:
            yield f"{where}: has {error}, which cannot be compared"
            return False
        # Where other files hold the values, their names are all that this file says.
        outside = not taken_in and any(elsewhere(ours, self._places[0]).values())
        return not outside and bool(count(ours.get_space()))

    def _values(self, path: bytes) -> Iterator[str]:
        where = shown(path)
        ours, theirs = (target.opened(file, path, self._budget) for file in (self._ours, self._theirs))
        digests = self._digests.get(address_of(ours))
        try:
            if not same_values(
                where, ours, theirs, self._references, self._budget, self._progress, digests, self._heap
            ):
                yield f"{where}: values differ"
        except UnknownReference as error:
            yield f"{where}: has {error}, which cannot be compared"


def _unmatched(
    path: bytes, ours: dict[bytes, Any], theirs: dict[bytes, Any], what: str, called: Callable[[bytes], str]
) -> Iterator[str]:
    """Yield the names that one side lacks, and another order of the same names."""
    for name in sorted(ours.keys() - theirs.keys()):
        yield f"{called(name)} is missing"
    for name in sorted(theirs.keys() - ours.keys()):
        yield f"{called(name)} is new"
    if ours.keys() == theirs.keys() and list(ours) != list(theirs):
        yield f"{shown(path)}: the order of its {what} differs"


def _is_virtual(thing: Any) -> bool:
    return isinstance(thing, h5d.DatasetID) and thing.get_create_plist().get_layout() == h5d.VIRTUAL
