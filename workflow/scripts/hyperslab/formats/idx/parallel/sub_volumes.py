"""How ranks write their sub-volumes of an array that is stored in IDX."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from hyperslab.data.selections import Box, disk_order
from hyperslab.data.sub_volumes import boxes_of
from hyperslab.formats.idx.parallel.aggregated import Aggregated
from hyperslab.formats.idx.parallel.by_level import PerLevel, PerLevelFast, PerLevelFastReopened, PerLevelKept
from hyperslab.formats.idx.parallel.by_openvisus import TokenByOpenVisus
from hyperslab.formats.idx.parallel.in_turn import Token
from hyperslab.formats.idx.parallel.plain import Plain, PlainWriteback
from hyperslab.formats.idx.parallel.ways import Job, Way
from hyperslab.formats.idx.places import files_of
from hyperslab.specifications import Specification

WAYS: dict[str, type[Way]] = {
    "token": Token,
    "per-level": PerLevel,
    "per-level-kept": PerLevelKept,
    "per-level-fast-reopened": PerLevelFastReopened,
    "per-level-fast": PerLevelFast,
    "aggregated": Aggregated,
    "plain": Plain,
    "plain-writeback": PlainWriteback,
}


class SubVolumes:
    """The IDX side of the seam of sub-volumes."""

    def writer(self, path: str, spec: Specification, mpi: Any, values: npt.NDArray[Any]) -> Way:
        """Return what writes a rank's part in the way that a case names."""
        files, order = files_of(spec), disk_order(spec)
        asked = spec["case"]["subvolumes"]
        boxes = [_of_a_field(box.permuted(order), files.leading) for box in boxes_of(spec)]
        job = Job(path, mpi, spec, files, order, boxes, values, asked["aggregators"], asked["files_each"])
        way = (TokenByOpenVisus if files.by_openvisus else WAYS[asked["way"]])(job)
        way.prepare()
        return way


def _of_a_field(box: Box, leading: int) -> Box:
    return Box(box.origin[leading:], box.extent[leading:])
