"""Arrays of Zarr as a specification describes them: extents on disk, codecs, how one is made or opened."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, BloscShuffle, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec
from zarr.storage import LocalStore

from hyperslab.data.selections import disk_order
from hyperslab.layouts.chunks import chunks_per_axis
from hyperslab.layouts.pyramids import AVERAGING, stored_levels
from hyperslab.layouts.zarr_codecs import options_in_force
from hyperslab.layouts.zarr_store import chunk_extents, file_extents
from hyperslab.specifications import Specification

# In the order of blosc's own numbers.
SHUFFLES = {"none": "noshuffle", "byte": "shuffle", "bit": "bitshuffle"}


@dataclass(frozen=True)
class OnDisk:
    """Extents of an array in the order of its axes on disk, in elements, and its type.

    `unit` is what one file holds: a shard, or a chunk where there are no shards.
    """

    order: tuple[int, ...]
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    unit: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, spec: Specification) -> OnDisk:
        """Return what a specification says."""
        layout, dataset = spec["layout"], spec["dataset"]
        order = tuple(disk_order(spec))

        def turned(extents: Sequence[int]) -> tuple[int, ...]:
            return tuple(extents[axis] for axis in order)

        return cls(
            order, turned(dataset["shape"]), turned(chunk_extents(layout)), turned(file_extents(layout)),
            np.dtype(dataset["dtype"]).newbyteorder("<"),
        )  # fmt: skip

    @property
    def sharded(self) -> bool:
        """Whether a file holds several chunks."""
        return self.unit != self.chunk

    @property
    def units(self) -> tuple[int, ...]:
        """Files per axis."""
        return chunks_per_axis(self.shape, self.unit)

    @property
    def per_unit(self) -> tuple[int, ...]:
        """Chunks of one file, per axis; those beyond the array's edge count."""
        return chunks_per_axis(self.unit, self.chunk)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one chunk before its codecs."""
        return math.prod(self.chunk) * self.dtype.itemsize


def codecs(spec: Specification) -> list[Any]:
    """Return the codecs that a chunk's bytes go through, as zarr-python's own objects."""
    itemsize = np.dtype(spec["dataset"]["dtype"]).itemsize
    made: list[Any] = []
    for codec in spec["layout"]["codecs"]:
        given = options_in_force(codec)
        match given["name"]:
            case "gzip":
                made.append(GzipCodec(level=given["level"]))
            case "zstd":
                made.append(ZstdCodec(level=given["level"], checksum=False))
            case "blosc":
                shuffle = BloscShuffle(SHUFFLES[given["shuffle"]])
                name, level = given["codec"], given["level"]
                made.append(BloscCodec(typesize=itemsize, cname=name, clevel=level, shuffle=shuffle))
            case _:
                made.append(Crc32cCodec())
    return made


def create_array(
    path: str, spec: Specification, fill_value: Any = 0, attributes: Mapping[str, Any] | None = None
) -> Any:
    """Create the directory `path` with an empty array as `spec` describes it; returns the zarr.Array."""
    disk = OnDisk.of(spec)
    return zarr.create_array(
        LocalStore(path),
        shape=disk.shape,
        chunks=disk.chunk,
        shards=disk.unit if disk.sharded else None,
        dtype=disk.dtype,
        filters=None,
        serializer=BytesCodec(endian="little"),
        compressors=codecs(spec) or None,
        fill_value=fill_value,
        attributes=dict(attributes or {}),
        zarr_format=3,
        dimension_names=spec["layout"]["order"],
        config={"write_empty_chunks": spec["layout"]["settings"]["write_empty_chunks"]},
    )


def level_path(path: str, spec: Specification, level: int = 0) -> str:
    """Return where the array of a level lies: under its number in a pyramid's group, else `path`."""
    return os.path.join(path, str(level)) if stored_levels(spec["layout"]) else path


def create_group(path: str, spec: Specification) -> None:
    """Create the group of a pyramid, described as OME-Zarr 0.5 has it where all axes can be those of space.

    Positions are those of the array's elements. One of a level stands for several: it lies at the first of
    them, or in their middle.
    """
    pyramid, axes = spec["layout"]["pyramid"], spec["layout"]["order"]
    averaged = pyramid["by"] == AVERAGING
    datasets = []
    for level in range(pyramid["levels"] + 1):
        scale: dict[str, Any] = {"type": "scale", "scale": [float(1 << level)] * len(axes)}
        shift: dict[str, Any] = {"type": "translation", "translation": [((1 << level) - 1) / 2] * len(axes)}
        steps = [scale, shift] if averaged and level else [scale]
        datasets.append({"path": str(level), "coordinateTransformations": steps})
    # Beside two or three axes of space there may be time and channels, which no study names.
    described = {
        "version": "0.5",
        "multiscales": [
            {
                "axes": [{"name": name, "type": "space"} for name in axes],
                "datasets": datasets,
                "type": pyramid["by"],
            }
        ],
    }
    attributes: dict[str, Any] = {"ome": described} if len(axes) in (2, 3) else {}
    zarr.create_group(LocalStore(path), attributes=attributes, zarr_format=3)


def open_array(path: str) -> Any:
    """Open the array in the directory `path` for reading; returns the zarr.Array."""
    return zarr.open_array(LocalStore(path, read_only=True), mode="r", zarr_format=3)
