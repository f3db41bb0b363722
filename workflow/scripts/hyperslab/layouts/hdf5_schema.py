"""HDF5's layouts and filters as a study may give them; formats/hdf5 puts them in force.

A filter is written "gzip", {gzip: 4}, or {blosc: {codec: zstd, level: 5}}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from hyperslab.layouts import pyramids
from hyperslab.layouts.hdf5 import LOSS, loses_one_chunk
from hyperslab.layouts.hdf5_filters import FILTERS, lossy, refusal
from hyperslab.layouts.hdf5_releases import RELEASES
from hyperslab.layouts.hdf5_settings_schema import Settings
from hyperslab.layouts.layout import Array
from hyperslab.layouts.parameters_schema import WithParameters
from hyperslab.layouts.pyramid_schema import Pyramid, resolved_pyramid
from hyperslab.layouts.schema import (
    CHUNKS_FORMS,
    Balanced,
    LayoutModel,
    automatic_extents,
    balanced_extents,
    resolved_extents,
    resolved_order,
)
from hyperslab.validation.errors import Forms, Place
from hyperslab.validation.models import Count, Flag, Name, Strict, Whole

# H5Z_MAX_NFILTERS
MOST_FILTERS = 32
# Strict, or `yes` would be the number 1.
Real = Annotated[float, Field(strict=True)]


class Filter(WithParameters):
    """One filter of a layout with its parameters: "gzip", {gzip: 4}, or {blosc: {codec: zstd, level: 5}}."""

    table = FILTERS

    block: Whole | None = Field(
        default=None, description="szip: pixels of a block; bzip2: size of a block, 1 to 9"
    )
    coding: str | None = Field(default=None, description="szip: the coding method")
    bits: Whole | None = Field(default=None, description="nbit, scaleoffset: bits kept")
    digits: Whole | None = Field(default=None, description="scaleoffset: decimal digits kept")
    codec: str | None = Field(default=None, description="blosc, blosc2, bitshuffle: the compressor inside")
    shuffle: str | None = Field(default=None, description="blosc, blosc2: how bytes or bits are sorted first")
    accuracy: Real | None = Field(default=None, description="zfp: largest absolute error")
    precision: Whole | None = Field(default=None, description="zfp: bits of each value kept")
    rate: Real | None = Field(default=None, description="zfp, sperr: bits a value")
    reversible: Literal[True] | None = Field(default=None, description="zfp: without loss")
    absolute: Real | None = Field(default=None, description="sz3, sperr: largest absolute error")
    psnr: Real | None = Field(default=None, description="sperr: peak signal-to-noise ratio, dB")

    @model_validator(mode="after")
    def _one_mode(self) -> Filter:
        modes = FILTERS[self.name].modes
        if modes and len(self.model_dump(exclude_none=True).keys() & set(modes)) != 1:
            raise ValueError(f"{self.name} needs exactly one of {', '.join(modes)}")
        return self


# What pydantic would report form by form, in one sentence.
SECOND_FORMS = "a list with an extent or 'all' for each axis"
# A chunk's size is kept in 32 bits.
CHUNK_BYTES = 2**32


def _known_release(name: str) -> str:
    if name not in RELEASES:
        raise ValueError(f"should be {' or '.join(map(repr, RELEASES))} (in quotes)")
    return name


class SecondCopy(Strict):
    """A second copy of the array in the same file, for some of its reads."""

    chunks: Annotated[list[Count | Literal["all"]] | None, Forms(SECOND_FORMS)] = Field(
        default=None, description="its chunk shape; contiguous where there is none"
    )
    filters: list[Filter] = Field(
        default=[], max_length=MOST_FILTERS, description="what the bytes of its chunks go through"
    )
    cases: list[Name] = Field(min_length=1, description="the read cases that read it; others read the first")


class Hdf5Model(LayoutModel):
    """How an HDF5 dataset is stored."""

    chunks: Annotated[
        list[Count | Literal["all"]] | Literal["auto"] | Balanced | None, Forms(CHUNKS_FORMS)
    ] = Field(
        default=None,
        description="the chunk shape, or that of a formula: h5py's (auto) or Unidata's; contiguous where "
        "there is none",
    )
    order: list[Name] | None = Field(default=None, description="the axes as they lie on disk, slowest first")
    filters: list[Filter] = Field(
        default=[], max_length=MOST_FILTERS, description="what the bytes of a chunk go through, in this order"
    )
    settings: dict[str, Any] = Field(default={}, description="settings of HDF5 beside those of the study")
    storage: Literal["compact"] | None = Field(
        default=None, description="compact: the array lies in the header of its dataset"
    )
    netcdf: Flag = Field(
        default=False,
        description="whether the file has dimensions as netCDF-4 keeps them, so that its tools read it",
    )
    release: Annotated[str, AfterValidator(_known_release)] | None = Field(
        default=None, description="another release of HDF5, in an environment of its own"
    )
    pyramid: Pyramid | None = Field(
        default=None, description="coarser levels in the same file, each a dataset beside the array's"
    )

    second: SecondCopy | None = Field(default=None, description="a second copy, stored otherwise")

    @model_validator(mode="after")
    def _compact_is_whole(self) -> Hdf5Model:
        if self.storage and (self.chunks or self.filters):
            raise ValueError("compact storage has neither chunks nor filters")
        if self.second and (self.storage or self.pyramid):
            raise ValueError("second: neither compact storage nor a pyramid has a second copy")
        if self.storage and self.pyramid:
            raise ValueError("compact storage is for small arrays, which need no pyramid")
        return self


def resolve(given: Hdf5Model, array: Array, settings: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    order = resolved_order(given.order, array, place)
    chunks = _resolved_chunks(given, array, order, place.at("chunks"))
    if given.filters and chunks is None:
        raise place.at("filters").mistake("filters need chunks; a contiguous dataset cannot have any")
    filters = [chosen.model_dump(exclude_none=True) for chosen in given.filters]
    if wrong := refusal(filters, array.dtype, chunks or []):
        raise place.at("filters").mistake(wrong)
    chosen_settings = place.at("settings").validate(Settings, {**settings, **given.settings})
    if given.release and chosen_settings.libver in RELEASES[given.release].unknown_libvers:
        message = f"HDF5 {given.release} does not know {chosen_settings.libver}"
        raise place.at("settings", "libver").mistake(message)
    if given.storage and chosen_settings.alloc_time in ("late", "incremental"):
        raise place.at("settings", "alloc_time").mistake("compact storage has room from the beginning: early")
    second = _second(given.second, array, place.at("second")) if given.second else None
    copies = [(chunks, filters), *([(second["chunks"], second["filters"])] if second else [])]
    settled = chosen_settings.model_dump(exclude_none=True)
    if (array.shape, []) in copies and loses_one_chunk(settled):
        raise place.at("settings", "fill_time").mistake(LOSS)
    if given.netcdf and (taken := {"data", "provenance"}.intersection(array.axes)):
        raise place.at("netcdf").mistake(
            f"a dimension cannot be called {min(taken)}, which the file has already"
        )
    optional: dict[str, Any] = {"storage": given.storage, "release": given.release}
    optional |= {"netcdf": given.netcdf or None, "second": second}
    found = {
        "format": given.format,
        "chunks": chunks,
        "order": order,
        "filters": filters,
        # What is not given stays out of specifications, and with it out of their hashes.
        "settings": settled,
        "label": given.label,
        **{key: value for key, value in optional.items() if value is not None},
        **resolved_pyramid(given.pyramid, array, lossy(filters), place.at("pyramid")),
    }
    _check_levels(found, array, loses_one_chunk(settled), place)
    return found


def _check_levels(found: Mapping[str, Any], array: Array, loses: bool, place: Place) -> None:
    """Raise ConfigurationError where a coarser level, whose chunks may be shorter, cannot be kept so."""
    for level in range(1, found.get("pyramid", {}).get("levels", 0) + 1):
        chunks = pyramids.level_layout(found, array.shape, level)["chunks"]
        if wrong := refusal(found["filters"], array.dtype, chunks or []):
            raise place.at("pyramid").mistake(f"level {level}: {wrong}")
        if loses and not found["filters"] and chunks == list(pyramids.level_shape(array.shape, level)):
            raise place.at("settings", "fill_time").mistake(f"level {level}: {LOSS}")


def _second(given: SecondCopy, array: Array, place: Place) -> dict[str, Any]:
    """Return a second copy with every default filled in; raises ConfigurationError."""
    if given.filters and given.chunks is None:
        raise place.at("filters").mistake("filters need chunks; a contiguous dataset cannot have any")
    filters = [chosen.model_dump(exclude_none=True) for chosen in given.filters]
    chunks = _listed(given.chunks, array, place.at("chunks")) if given.chunks else None
    if wrong := refusal(filters, array.dtype, chunks or []):
        raise place.at("filters").mistake(wrong)
    return {"chunks": chunks, "filters": filters, "cases": list(given.cases)}


def _resolved_chunks(given: Hdf5Model, array: Array, order: list[str], place: Place) -> list[int] | None:
    if given.chunks is None:
        return None
    if given.chunks == "auto":
        return automatic_extents(array, order)
    if not isinstance(given.chunks, list):
        return balanced_extents(given.chunks, array, order, place)
    return _listed(given.chunks, array, place)


def _listed(chunks: Any, array: Array, place: Place) -> list[int]:
    """Return a chunk shape that is given by its extents; raises ConfigurationError for one beyond HDF5."""
    found = resolved_extents(chunks, array, place)
    if math.prod(found) * array.itemsize >= CHUNK_BYTES:
        raise place.mistake(f"{found} has 4 GiB or more; an HDF5 chunk must be smaller")
    return found


MODEL = Hdf5Model
