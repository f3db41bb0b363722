"""HDF5's settings as a study may give them; formats/hdf5 puts them in force.

A setting left out keeps the library's own value and stays out of specifications.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hyperslab.validation.models import Count, Name, Strict, Whole

# H5C__MIN_MAX_CACHE_SIZE and H5C__MAX_MAX_CACHE_SIZE.
MetadataCacheBytes = Annotated[Whole, Field(ge=1024, le=128 * 2**20)]
Percent = Annotated[Whole, Field(ge=0, le=100)]
# "default" leaves what the release of HDF5 brings, which differs between releases.
Default = Literal["default"]
# Larger than the memory of any node: HDF5 would fail, or overflow, only when it opens the file.
LARGEST_BUFFER = 2**40
Buffer = Annotated[Count, Field(le=LARGEST_BUFFER)]
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

    @model_validator(mode="after")
    def _pages_alone(self) -> Settings:
        for name in ("alignment", "meta_block_bytes"):
            if self.paging and getattr(self, name) is not None:
                raise ValueError(f"{name} does nothing beside paging: all that is stored lies in pages then")
        return self
