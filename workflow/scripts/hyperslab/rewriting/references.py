"""What the references of one file mean in another, whose objects lie elsewhere."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np
from h5py import h5f, h5g, h5r, h5s

from hyperslab.rewriting import RewriteError
from hyperslab.rewriting.calls import make_region, referenced, region_of
from hyperslab.rewriting.memory import REGION_BYTES
from hyperslab.rewriting.survey import Node, address_of

NULL_REGION = bytes(REGION_BYTES)


class Correspondence:
    """Objects of a file and those that stand for them in another.

    `there` maps addresses to addresses; it may grow while this is in use.
    """

    def __init__(
        self, nodes: Mapping[int, Node], file: h5f.FileID, other: h5f.FileID, there: Mapping[int, int]
    ) -> None:
        self._nodes = nodes
        # References are followed from an object; any of their file will do.
        self._root, self._other_root = h5g.open(file, b"/"), h5g.open(other, b"/")
        self._there = there

    def object(self, address: int) -> int:
        """Do as memory.References does; an object that is gone has none. RewriteError for one without a
        name.
        """
        if address in self._there:
            return self._there[address]
        if self._leads_somewhere(address):
            raise RewriteError(f"a reference leads to an object (at {address}) that no link names")
        return 0

    def region(self, place: int) -> None:
        """Do as memory.References does: select the same of the dataset that stands for the one referred
        to.
        """
        target = self._dataset(place, self._root)
        if target is None:
            ctypes.memset(place, 0, REGION_BYTES)
            return
        if target not in self._there:
            raise RewriteError(f"a region reference leads to a dataset (at {target}) that no link names")
        space = region_of(place, self._root)
        make_region(place, self._other_root, self._nodes[target].path, space)

    def same_object(self, ours: int, theirs: int) -> bool:
        """Do as memory.References does; an object that is gone corresponds to none and to one that is
        gone.
        """
        if ours in self._there:
            return self._there[ours] == theirs
        return not (self._leads_somewhere(ours) or self._leads_somewhere(theirs, self._other_root))

    def same_region(self, ours: int, theirs: int) -> bool:
        """Do as memory.References does; a dataset that is gone corresponds to none and to one that is
        gone.
        """
        first, second = self._dataset(ours, self._root), self._dataset(theirs, self._other_root)
        if first is None or second is None:
            return first is second
        if self._there.get(first) != second:
            return False
        return _same_selection(region_of(ours, self._root), region_of(theirs, self._other_root))

    def _leads_somewhere(self, address: int, root: h5g.GroupID | None = None) -> bool:
        reference = ctypes.c_uint64(address)
        try:
            referenced(ctypes.addressof(reference), root or self._root, h5r.OBJECT)
        except OSError:
            return False
        return True

    @staticmethod
    def _dataset(place: int, root: h5g.GroupID) -> int | None:
        """Return the address of the dataset of a region reference; None where there is none."""
        if ctypes.string_at(place, REGION_BYTES) == NULL_REGION:
            return None
        try:
            return address_of(referenced(place, root, h5r.DATASET_REGION))
        except OSError:
            return None


def _same_selection(ours: h5s.SpaceID, theirs: h5s.SpaceID) -> bool:
    """Return whether two selections have the same elements in the same order; their encodings may differ."""
    kind = ours.get_select_type()
    if kind != theirs.get_select_type() or ours.shape != theirs.shape:
        return False
    if kind == h5s.SEL_HYPERSLABS:
        return np.array_equal(ours.get_select_hyper_blocklist(), theirs.get_select_hyper_blocklist())
    if kind == h5s.SEL_POINTS:
        return np.array_equal(ours.get_select_elem_pointlist(), theirs.get_select_elem_pointlist())
    return True
