"""What a study may say of ragged rows in HDF5; settings and filters are those of HDF5's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from hyperslab.layouts.hdf5_filters import lossy, refusal
from hyperslab.layouts.hdf5_rows import STORAGES
from hyperslab.layouts.hdf5_schema import CHUNK_BYTES, MOST_FILTERS, Filter
from hyperslab.layouts.hdf5_settings_schema import LARGEST_BUFFER, Settings
from hyperslab.layouts.rows import RowsArray
from hyperslab.layouts.schema import LayoutModel
from hyperslab.validation.errors import Place
from hyperslab.validation.models import Count, Flag, Whole

# Largest array of padded rows, in elements; more is no mistake of a digit, but a layout that nobody meant.
MOST_PADDED = 2**40


class Hdf5RowsModel(LayoutModel):
    """How ragged rows are stored in HDF5."""

    extents = ()

    format: str = Field(default="hdf5-rows", description="the format; what else may be given depends on it")
    storage: Literal["vlen", "flattened", "offset-vector", "padded"] = Field(
        description="HDF5's variable-length type; one vector of values with one of lengths; a vector of "
        "bytes with offsets and lengths; or an array whose rows are filled up to the longest"
    )
    chunk_bytes: Annotated[Count, Field(lt=CHUNK_BYTES)] | None = Field(
        default=None,
        description="flattened, offset-vector: bytes of a chunk of values; a flattened vector is contiguous "
        "where nothing is given, the other has chunks of 8 MiB, or of 1 MiB where there are filters",
    )
    row_chunk: Annotated[Whole, Field(gt=0, lt=2**32)] | None = Field(
        default=None,
        description="rows of a chunk of references, lengths or padded rows; contiguous where nothing is "
        "given, but for offset-vector, which has 4096",
    )
    offsets: Flag = Field(default=False, description="flattened: offsets are kept instead of lengths")
    chunk_cache: Annotated[Whole, Field(ge=0, le=LARGEST_BUFFER)] | None = Field(
        default=None,
        description="offset-vector: bytes of the vector's chunk cache; by default those of "
        "`settings: {chunk_cache_bytes}` where a study gives them, else none without filters",
    )
    row_cache: Annotated[Whole, Field(ge=0, le=LARGEST_BUFFER)] | None = Field(
        default=None,
        description="offset-vector: bytes of the chunk cache of offsets and lengths; by default the file's",
    )
    reuse: Flag = Field(
        default=False, description="offset-vector: space of rows that were replaced is given to others"
    )
    filters: list[Filter] = Field(
        default=[],
        max_length=MOST_FILTERS,
        description="what chunks of values go through; of vlen those of references (gzip, lzf, zstd, lz4, "
        "bzip2): the heap has no filters",
    )
    settings: dict[str, Any] = Field(default={}, description="settings of HDF5 beside those of the study")


def resolve(
    given: Hdf5RowsModel, array: RowsArray, settings: Mapping[str, Any], place: Place
) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    storage = STORAGES[given.storage]
    if given.chunk_bytes and not storage.chunked_values:
        raise place.at("chunk_bytes").mistake(f"{given.storage} has no chunks of values; it has row_chunk")
    if given.offsets and not storage.offsets:
        raise place.at("offsets").mistake("only flattened rows can have offsets instead of lengths")
    of_vector = {"chunk_cache": given.chunk_cache, "row_cache": given.row_cache, "reuse": given.reuse or None}
    for key, value in of_vector.items():
        if value is not None and not storage.vector:
            raise place.at(key).mistake(f"{given.storage} has no {key}; only offset-vector has one")
    own = storage.filtered_chunk_bytes if given.filters else storage.chunk_bytes
    chunk_bytes = given.chunk_bytes or own
    if chunk_bytes and chunk_bytes < array.itemsize:
        raise place.at("chunk_bytes").mistake(f"should hold at least one {array.dtype}")
    row_chunk = given.row_chunk or storage.row_chunk
    width = _width(array, place) if storage.padded else 0
    settings = {**settings, **given.settings}
    if storage.vector and given.chunk_cache is None:
        # What a study says of the chunk cache is meant for the values.
        said = settings.get("chunk_cache_bytes", "default")
        of_vector["chunk_cache"] = None if said == "default" else said
    chosen = place.at("settings").validate(Settings, settings)
    if chosen.driver and chosen.driver.name == "split":
        raise place.at("settings", "driver").mistake("rows lie in one file; take another driver than split")
    resolved: dict[str, Any] = {
        "format": given.format,
        "storage": given.storage,
        "order": list(array.axes),
        "chunk_bytes": chunk_bytes,
        "row_chunk": row_chunk,
        "filters": _filters(given, array, place.at("filters"), chunk_bytes, row_chunk, width),
        "settings": chosen.model_dump(exclude_none=True),
        "label": given.label,
        **{key: value for key, value in of_vector.items() if value is not None},
    }
    if given.offsets:
        resolved["offsets"] = True
    if storage.padded:
        resolved["width"] = width
    return resolved


def _filters(
    given: Hdf5RowsModel,
    array: RowsArray,
    place: Place,
    chunk_bytes: int | None,
    row_chunk: int | None,
    width: int,
) -> list[dict[str, Any]]:
    """Return the filters; raises ConfigurationError for what cannot be applied to what lies in chunks."""
    chosen = [one.model_dump(exclude_none=True) for one in given.filters]
    storage = STORAGES[given.storage]
    values = storage.chunked_values
    if chosen and not (chunk_bytes if values else row_chunk):
        key = "chunk_bytes" if values else "row_chunk"
        raise place.mistake(f"filters need chunks; give the layout a {key}")
    if lossy(chosen):
        raise place.mistake("rows are compared byte by byte; no filter may change values")
    if wrong := storage.filters_refusal(chosen):
        raise place.mistake(wrong)
    # What a chunk consists of where it is not of the rows' own type: bytes, or references.
    dtype = "uint8" if given.storage in ("offset-vector", "vlen") else array.dtype
    if values:
        extents = [(chunk_bytes or 1) // (1 if storage.vector else array.itemsize)]
    else:
        extents = [row_chunk or 1, width] if storage.padded else [row_chunk or 1]
    if chosen and (wrong := refusal(chosen, dtype, extents)):
        raise place.mistake(wrong)
    return chosen


def _width(array: RowsArray, place: Place) -> int:
    """Return the elements of the longest row; raises ConfigurationError for an array without measure."""
    found = max(1, array.longest)
    if found * array.shape[0] > MOST_PADDED:
        elements = f"{array.shape[0]:,} rows of {found:,} elements"
        raise place.at("storage").mistake(f"padded, this would be {elements}; take another storage")
    return found


MODEL = Hdf5RowsModel
