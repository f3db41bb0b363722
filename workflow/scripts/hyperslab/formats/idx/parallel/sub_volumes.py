"""How ranks write their sub-volumes of an array that is stored in IDX."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.data.sub_volumes import boxes_of
from hyperslab.formats.idx.parallel.aggregated import Aggregated
from hyperslab.formats.idx.parallel.by_openvisus import TokenByOpenVisus
from hyperslab.formats.idx.parallel.ways import WAYS, Job, Way
from hyperslab.formats.idx.places import disk_order, files_of
from hyperslab.specifications import Specification

ALL_WAYS: dict[str, type[Way]] = {**WAYS, "aggregated": Aggregated}


class SubVolumes:
    """The IDX side of the seam of sub-volumes."""

    def writer(self, path: str, spec: Specification, mpi: Any, values: npt.NDArray[Any]) -> Way:
        """Return what writes a rank's part in the way that a case names."""
        files, order = files_of(spec), disk_order(spec)
        asked = spec["case"]["subvolumes"]
        turned = values.transpose(order)
        fields = list(turned) if files.has_fields else [turned]
        dtype = values.dtype.newbyteorder("<")
        held = [np.ascontiguousarray(field, dtype) for field in fields]
        boxes = [_of_a_field(box.permuted(order), files.leading) for box in boxes_of(spec)]
        job = Job(path, mpi, spec, files, order, boxes, held, asked["aggregators"], asked["files_each"])
        return (TokenByOpenVisus if files.by_openvisus else ALL_WAYS[asked["way"]])(job)


def _of_a_field(box: Box, leading: int) -> Box:
    return Box(box.origin[leading:], box.extent[leading:])
