"""What a study may say of ragged rows in Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hyperslab.layouts.rows import RowsArray
from hyperslab.layouts.schema import LayoutModel
from hyperslab.validation.errors import Place
from hyperslab.validation.models import Count, Whole

# A row group is in memory while it is written and read.
LARGEST_GROUP = 2**30
# Compressors that take a level.
LEVELS = {"zstd": (1, 22), "gzip": (1, 9), "brotli": (1, 11)}


class ParquetModel(LayoutModel):
    """How ragged rows are stored in a Parquet file."""

    extents = ()

    format: str = Field(default="parquet", description="the format; what else may be given depends on it")
    chunk_bytes: Annotated[Count, Field(le=LARGEST_GROUP)] = Field(
        default=16 * 2**20, description="bytes of values after which a row group ends"
    )
    compression: Literal["none", "snappy", "zstd", "gzip", "lz4", "brotli"] = Field(
        default="none", description="what pages of a row group are compressed with"
    )
    level: Whole | None = Field(default=None, description="zstd, gzip, brotli: effort of the compressor")

    @model_validator(mode="after")
    def _fitting_level(self) -> ParquetModel:
        if self.level is not None:
            if self.compression not in LEVELS:
                raise ValueError(f"level: only {', '.join(LEVELS)} have one, not {self.compression}")
            low, high = LEVELS[self.compression]
            if not low <= self.level <= high:
                raise ValueError(f"level: of {self.compression} {low} to {high}, not {self.level}")
        return self


def resolve(given: ParquetModel, array: RowsArray, _: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; settings of HDF5 have no meaning here."""
    return {
        "format": given.format,
        "order": list(array.axes),
        "chunk_bytes": given.chunk_bytes,
        "compression": given.compression,
        **({"level": given.level} if given.level is not None else {}),
        "label": given.label,
    }


MODEL = ParquetModel
