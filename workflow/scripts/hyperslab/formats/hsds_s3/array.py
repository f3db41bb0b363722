"""HSDS over an object store: filled here as files, put into a bucket, read and written by HSDS there."""

from __future__ import annotations

import math
from typing import Any

from hyperslab.data.selections import Box
from hyperslab.data.values import Values
from hyperslab.formats.hsds.array import Hsds
from hyperslab.formats.hsds.inspection import Objects
from hyperslab.formats.hsds.server import HsdsArtifact
from hyperslab.formats.hsds_s3.server import HsdsS3Artifact
from hyperslab.measuring.machine import versions_of
from hyperslab.measuring.object_store.address import objects_of
from hyperslab.specifications import Specification


class HsdsS3(Hsds):
    """The HSDS side of the format seam, in an object store."""

    artifact = HsdsS3Artifact

    def versions(self) -> dict[str, str]:
        """Return the versions of HSDS and of its client of the store."""
        return super().versions() | versions_of(("aiobotocore",))

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new dataset through a server whose objects are files, of the names that the store's have."""
        plain = HsdsArtifact(path)
        plain.start(spec["layout"])
        try:
            return super().generate(path, spec, values)
        finally:
            plain.stop()

    def objects(self, path: str) -> Objects:
        """Return the bytes of every object in the bucket, by its name."""
        return objects_of(path)

    def folders(self, path: str) -> int:
        """Return 0: a store has none."""
        return 0

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the chunks that a selection touches and their bytes; the kernel is asked for nothing."""
        return {**super().predict(box, spec, stored), "requested": math.nan}


FORMAT = HsdsS3()
