"""What ranks hold of an array that is stored in IDX, and the ways in which they write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.formats.idx.parallel import division
from hyperslab.formats.idx.parallel.aggregated import Aggregated
from hyperslab.formats.idx.parallel.ways import WAYS, Job, Way
from hyperslab.formats.idx.places import disk_order, files_of
from hyperslab.layouts.idx_files import IdxFiles
from hyperslab.specifications import Specification

ALL_WAYS: dict[str, type[Way]] = {**WAYS, "aggregated": Aggregated}


class SubVolumes:
    """The IDX side of the seam of sub-volumes."""

    def part(self, spec: Specification, rank: int, ranks: int) -> Box:
        """Return the part of a rank, in array terms: all fields of its sub-volume.

        Raises ValueError where the sub-volumes do not make up the array.
        """
        files, order = files_of(spec), disk_order(spec)
        box = _boxes(spec, files, order, ranks)[rank]
        fields = (0,) * files.has_fields, (files.fields,) * files.has_fields
        inverse = [order.index(axis) for axis in range(len(order))]
        return Box((*fields[0], *box.origin), (*fields[1], *box.extent)).permuted(inverse)

    def writer(self, path: str, spec: Specification, mpi: Any, values: npt.NDArray[Any]) -> Way:
        """Return what writes a rank's part in the way that a case names."""
        files, order = files_of(spec), disk_order(spec)
        asked = spec["case"]["subvolumes"]
        turned = values.transpose(order)
        fields = list(turned) if files.has_fields else [turned]
        dtype = values.dtype.newbyteorder("<")
        boxes = _boxes(spec, files, order, mpi.COMM_WORLD.Get_size())
        held = [np.ascontiguousarray(field, dtype) for field in fields]
        job = Job(path, mpi, files, order, boxes, held, asked["aggregators"] or 0)
        return ALL_WAYS[asked["way"]](job)


def _boxes(spec: Specification, files: IdxFiles, order: Sequence[int], ranks: int) -> list[Box]:
    along = spec["dataset"]["axes"].index(spec["case"]["subvolumes"]["along"])
    boxes = division.sub_volumes(files.shape, order.index(along) - files.leading, ranks)
    if wrong := division.mistake(boxes, files.shape):
        raise ValueError(wrong)
    return boxes
