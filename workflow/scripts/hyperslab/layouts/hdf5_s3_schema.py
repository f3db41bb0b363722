"""What a layout of HDF5 in an object store may say: that of HDF5, and the client that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hyperslab.layouts import hdf5_schema
from hyperslab.layouts.layout import Array
from hyperslab.layouts.schema import LayoutModel
from hyperslab.validation.errors import Place
from hyperslab.validation.models import Count, Strict

# More than any object has; fsspec allocates no block before it is read.
MOST_BLOCK = 2**40


class Access(Strict):
    """The client through which h5py reads, and how it caches; what is not given is the client's own."""

    through: Literal["s3fs", "obstore", "ros3"] = Field(
        default="s3fs",
        description="the client: s3fs, which is fsspec's; obstore, in Rust; or HDF5's own driver ros3, where "
        "h5py was built with it",
    )
    cache: Literal["readahead", "blockcache", "bytes", "first", "all", "none"] | None = Field(
        default=None, description="s3fs: fsspec's cache of what was read; by default readahead"
    )
    block_bytes: Annotated[Count, Field(le=MOST_BLOCK)] | None = Field(
        default=None, description="what the cache reads beyond what is asked, or at once, bytes"
    )

    @model_validator(mode="after")
    def _cache_of_s3fs(self) -> Access:
        if self.cache is not None and self.through != "s3fs":
            raise ValueError("cache: only s3fs has several; obstore has a buffer of block_bytes")
        if self.block_bytes is not None and self.through == "ros3":
            raise ValueError("block_bytes: ros3 keeps the first 16 MiB of a file, and has no such setting")
        return self


class Hdf5S3Model(hdf5_schema.Hdf5Model):
    """How an HDF5 dataset is stored whose file is an object in a store."""

    format: str = Field(default="hdf5-s3", description="the format; what else may be given depends on it")
    access: Access = Field(default=Access(), description="the client that reads, and how it caches")

    @model_validator(mode="after")
    def _one_object(self) -> Hdf5S3Model:
        if self.release:
            raise ValueError("release: in an object store there is the one of its clients' environment")
        if "driver" in self.settings:
            raise ValueError("driver: in an object store it is that of h5py's file objects")
        return self


def resolve(given: Any, array: Array, settings: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    assert isinstance(given, Hdf5S3Model)
    own = {name: value for name, value in settings.items() if name != "driver"}
    found = hdf5_schema.resolve(given, array, own, place)
    return {**found, "access": given.access.model_dump(exclude_none=True)}


MODEL: type[LayoutModel] = Hdf5S3Model
