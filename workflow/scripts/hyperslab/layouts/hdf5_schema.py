"""HDF5's layouts, settings and filters as a study may give them; formats/hdf5 puts them in force.

A filter is written "gzip", {gzip: 4}, or {blosc: {codec: zstd, level: 5}}. A setting left out keeps the
library's own value and stays out of specifications.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from hyperslab.layouts.hdf5_filters import FILTERS, refusal
from hyperslab.layouts.hdf5_releases import RELEASES
from hyperslab.layouts.layout import Array
from hyperslab.layouts.parameters import check_parameters, known, spelt_out
from hyperslab.layouts.schema import LayoutModel, automatic_extents, resolved_extents, resolved_order
from hyperslab.validation.errors import Forms, Place
from hyperslab.validation.models import Count, Name, Strict, Whole

# H5C__MIN_MAX_CACHE_SIZE and H5C__MAX_MAX_CACHE_SIZE.
MetadataCacheBytes = Annotated[Whole, Field(ge=1024, le=128 * 2**20)]
Percent = Annotated[Whole, Field(ge=0, le=100)]
# "default" leaves what the release of HDF5 brings, which differs between releases.
Default = Literal["default"]
# Larger than the memory of any node: HDF5 would fail, or overflow, only when it opens the file.
LARGEST_BUFFER = 2**40
Buffer = Annotated[Count, Field(le=LARGEST_BUFFER)]
# H5Z_MAX_NFILTERS
MOST_FILTERS = 32
# H5Pset_cache allocates 8 bytes for each when a dataset is opened.
MOST_SLOTS = 2**27


class MetadataCache(Strict):
    """Bytes of the metadata cache: at first, and the bounds between which it resizes itself.

    H5Pset_mdc_config. The number of objects that H5Pset_cache once took is ignored since HDF5 1.8.
    """

    initial_bytes: MetadataCacheBytes = Field(description="size at first, bytes")
    min_bytes: MetadataCacheBytes = Field(description="smallest size, bytes")
    max_bytes: MetadataCacheBytes = Field(description="largest size, bytes")

    @model_validator(mode="after")
    def _ordered(self) -> MetadataCache:
        if not self.min_bytes <= self.initial_bytes <= self.max_bytes:
            raise ValueError("needs min_bytes <= initial_bytes <= max_bytes")
        return self


class Alignment(Strict):
    """Everything of at least `threshold_bytes` begins at a multiple of `bytes` (H5Pset_alignment)."""

    threshold_bytes: Annotated[Whole, Field(ge=0)] = Field(
        default=1, description="smallest object that is aligned, bytes"
    )
    bytes: Annotated[Count, Field(le=LARGEST_BUFFER)] = Field(
        description="multiple at which it begins, bytes"
    )


class Paging(Strict):
    """File space in pages, and a page buffer if `buffer_bytes` is given.

    H5Pset_file_space_strategy, H5Pset_file_space_page_size, H5Pset_page_buffer_size.
    """

    page_bytes: Annotated[Whole, Field(ge=512, le=2**30)] = Field(description="size of a page, bytes")
    buffer_bytes: Buffer | None = Field(
        default=None, description="size of the page buffer, bytes; none if not given"
    )
    min_metadata_percent: Percent | None = Field(
        default=None, description="least share of metadata in the buffer, percent"
    )
    min_raw_percent: Percent | None = Field(
        default=None, description="least share of raw data in the buffer, percent"
    )

    @model_validator(mode="after")
    def _fitting(self) -> Paging:
        shares = [share for share in (self.min_metadata_percent, self.min_raw_percent) if share is not None]
        if self.buffer_bytes is None and shares:
            raise ValueError("min_metadata_percent and min_raw_percent need buffer_bytes")
        if self.buffer_bytes is not None and self.buffer_bytes < self.page_bytes:
            raise ValueError(f"buffer_bytes should hold at least one page of {self.page_bytes}")
        if sum(shares) > 100:
            raise ValueError("min_metadata_percent and min_raw_percent add up to more than 100")
        return self


# parameter of a driver -> the driver that has it
DRIVER_PARAMETERS = {
    "metadata_on": "split",
    "increment_bytes": "core",
    "backing_store": "core",
    "block_bytes": "direct",
    "copy_buffer_bytes": "direct",
}


class Driver(Strict):
    """The way to the file: `metadata_on` names the file system of the split driver's metadata file."""

    name: Literal["sec2", "stdio", "core", "direct", "split"] = Field(description="the virtual file driver")
    metadata_on: Name | None = Field(
        default=None, description="split: the file system of the metadata's file"
    )
    increment_bytes: Buffer | None = Field(default=None, description="core: by how much memory grows, bytes")
    backing_store: bool | None = Field(default=None, description="core: whether there is a file")
    block_bytes: Buffer | None = Field(
        default=None, description="direct: block size of the file system, bytes"
    )
    copy_buffer_bytes: Buffer | None = Field(
        default=None, description="direct: size of the copy buffer, bytes"
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fitting_parameters(self) -> Driver:
        for parameter, driver in DRIVER_PARAMETERS.items():
            if getattr(self, parameter) is not None and driver != self.name:
                raise ValueError(f"{self.name} has no {parameter}; only {driver} has one")
        if self.name == "split" and self.metadata_on is None:
            raise ValueError("split needs metadata_on, the name of a file system")
        if self.name == "core" and self.backing_store is False:
            raise ValueError("without a backing store there would be no file to measure")
        return self


class Settings(Strict):
    """Library settings in force while a file is written and read."""

    chunk_cache_bytes: Annotated[Whole, Field(ge=0, le=LARGEST_BUFFER)] | Default = Field(
        default=8 * 2**20, description="size of the chunk cache, bytes"
    )
    chunk_cache_slots: Annotated[Count, Field(le=MOST_SLOTS)] | Default = Field(
        default=8191, description="slots of its hash table"
    )
    chunk_cache_w0: Annotated[float, Field(ge=0, le=1)] | Default = Field(
        default=0.75, description="preemption policy of the chunk cache, 0 to 1"
    )
    sieve_bytes: Buffer | Default = Field(
        default=65536, description="size of the sieve buffer for contiguous data, bytes"
    )
    libver: Literal["earliest", "v108", "v110", "v112", "v114", "latest"] | Default = Field(
        default="earliest", description="oldest release whose format may be written"
    )
    meta_block_bytes: Annotated[Whole, Field(ge=0, le=LARGEST_BUFFER)] | None = Field(
        default=None, description="size of the blocks in which metadata are allocated, bytes"
    )
    metadata_cache: MetadataCache | None = Field(
        default=None, description="size of the metadata cache and its bounds"
    )
    # H5Pset_buffer. The conversion of one element needs room (H5D__typeinfo_init).
    conversion_buffer_bytes: Annotated[Whole, Field(ge=64, le=LARGEST_BUFFER)] | None = Field(
        default=None, description="size of the buffer in which types are converted, bytes"
    )
    alloc_time: Literal["early", "late", "incremental"] | None = Field(
        default=None, description="when space is allocated"
    )
    fill_time: Literal["ifset", "alloc", "never"] | None = Field(
        default=None, description="when fill values are written"
    )
    alignment: Alignment | None = Field(default=None, description="where large objects begin")
    driver: Driver | None = Field(default=None, description="the way to the file")
    paging: Paging | None = Field(default=None, description="file space in pages")
    # H5garbage_collect after so many objects of an `objects` case.
    garbage_collect_every: Count | None = Field(
        default=None, description="H5garbage_collect after so many objects of an `objects` case"
    )


# Strict, or `yes` would be the number 1.
Real = Annotated[float, Field(strict=True)]


def _known(name: str) -> str:
    return known(name, FILTERS)


class Filter(Strict):
    """One filter of a layout with its parameters: "gzip", {gzip: 4}, or {blosc: {codec: zstd, level: 5}}."""

    name: Annotated[str, AfterValidator(_known)] = Field(description="the filter")
    level: Whole | None = Field(default=None, description="effort of a compressor")
    block: Whole | None = Field(default=None, description="szip: pixels of a block")
    coding: str | None = Field(default=None, description="szip: the coding method")
    bits: Whole | None = Field(default=None, description="nbit, scaleoffset: bits kept")
    digits: Whole | None = Field(default=None, description="scaleoffset: decimal digits kept")
    codec: str | None = Field(default=None, description="blosc, blosc2: the compressor inside")
    shuffle: str | None = Field(
        default=None, description="blosc, blosc2 and others: how bytes or bits are sorted first"
    )
    accuracy: Real | None = Field(default=None, description="zfp: largest absolute error")
    precision: Whole | None = Field(default=None, description="zfp: bits of each value kept")
    rate: Real | None = Field(default=None, description="zfp: bits a value")
    reversible: Literal[True] | None = Field(default=None, description="zfp: without loss")
    absolute: Real | None = Field(default=None, description="sz3, sperr: largest absolute error")
    psnr: Real | None = Field(default=None, description="sz3, sperr: peak signal-to-noise ratio, dB")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return spelt_out(value, FILTERS)

    @model_validator(mode="after")
    def _fitting_parameters(self) -> Filter:
        given = self.model_dump(exclude_none=True, exclude={"name"})
        check_parameters(self.name, given, FILTERS)
        modes = FILTERS[self.name].modes
        if modes and len(given.keys() & set(modes)) != 1:
            raise ValueError(f"{self.name} needs exactly one of {', '.join(modes)}")
        return self


# What pydantic would report form by form, in one sentence.
CHUNKS_FORMS = "a list with an extent or 'all' for each axis, or 'auto'"
# A chunk's size is kept in 32 bits.
CHUNK_BYTES = 2**32
# Seen with HDF5 2.0: nothing of such a dataset is stored, and no call fails.
LOSS = (
    "never loses the values of a dataset of one chunk from libver v110 on; take another chunk shape, "
    "`alloc_time: early` or libver v108"
)


def _known_release(name: str) -> str:
    if name not in RELEASES:
        raise ValueError(f"should be {' or '.join(map(repr, RELEASES))} (in quotes)")
    return name


class Hdf5Model(LayoutModel):
    """How an HDF5 dataset is stored."""

    chunks: Annotated[list[Count | Literal["all"]] | Literal["auto"] | None, Forms(CHUNKS_FORMS)] = Field(
        default=None, description="the chunk shape; contiguous where there is none"
    )
    order: list[Name] | None = Field(default=None, description="the axes as they lie on disk, slowest first")
    filters: list[Filter] = Field(
        default=[], max_length=MOST_FILTERS, description="what the bytes of a chunk go through, in this order"
    )
    settings: dict[str, Any] = Field(default={}, description="settings of HDF5 beside those of the study")
    storage: Literal["compact"] | None = Field(
        default=None, description="compact: the array lies in the header of its dataset"
    )
    release: Annotated[str, AfterValidator(_known_release)] | None = Field(
        default=None, description="another release of HDF5, in an environment of its own"
    )

    @model_validator(mode="after")
    def _compact_is_whole(self) -> Hdf5Model:
        if self.storage and (self.chunks or self.filters):
            raise ValueError("compact storage has neither chunks nor filters")
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
    if not filters and chunks == array.shape and _loses_one_chunk(chosen_settings):
        raise place.at("settings", "fill_time").mistake(LOSS)
    optional = {"storage": given.storage, "release": given.release}
    return {
        "format": given.format,
        "chunks": chunks,
        "order": order,
        "filters": filters,
        # What is not given stays out of specifications, and with it out of their hashes.
        "settings": chosen_settings.model_dump(exclude_none=True),
        "label": given.label,
        **{key: value for key, value in optional.items() if value is not None},
    }


def _loses_one_chunk(settings: Settings) -> bool:
    """Tell whether HDF5 forgets to allocate a dataset of one chunk that its cache does not hold."""
    new = settings.libver not in ("earliest", "v108", "default")
    return new and settings.fill_time == "never" and settings.alloc_time in (None, "incremental")


def _resolved_chunks(given: Hdf5Model, array: Array, order: list[str], place: Place) -> list[int] | None:
    if given.chunks is None:
        return None
    if given.chunks == "auto":
        return automatic_extents(array, order)
    found = resolved_extents(given.chunks, array, place)
    if math.prod(found) * array.itemsize >= CHUNK_BYTES:
        raise place.mistake(f"{found} has 4 GiB or more; an HDF5 chunk must be smaller")
    return found


MODEL = Hdf5Model
