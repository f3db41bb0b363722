"""What a layout asks of a user's file, in the words of rewriting, wherever it was said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperslab.layouts import load
from hyperslab.layouts.hdf5 import Hdf5Layout
from hyperslab.layouts.hdf5_filters import FILTERS
from hyperslab.layouts.hdf5_rows import STORAGES
from hyperslab.layouts.hdf5_rows_schema import Hdf5RowsModel
from hyperslab.layouts.hdf5_schema import Hdf5Model
from hyperslab.layouts.hdf5_settings_schema import Settings
from hyperslab.layouts.schema import UNIDATA, UNIDATA_BYTES, LayoutModel
from hyperslab.layouts.zarr import ZarrLayout
from hyperslab.layouts.zarr_schema import ZarrModel, ZarrSettings
from hyperslab.rewriting import RewriteError
from hyperslab.validation.errors import Place
from hyperslab.validation.yaml_files import parsed

HDF5, ZARR = Hdf5Layout.suffix, ZarrLayout.suffix
# Any other format is HDF5's for arrays.
ZARR_FORMAT, ROWS_FORMAT = "zarr", "hdf5-rows"
# Settings that shape a file; the others hold only while one is open.
SHAPING = ("libver", "meta_block_bytes", "alignment", "paging", "alloc_time", "fill_time")


def read_layout(text: str) -> dict[str, Any]:
    """Return a layout as a study would say it; raises ConfigurationError for a mistake."""
    option = Path("--layout")
    content, place = parsed(text, option), Place(option)
    format_ = content.get("format") if isinstance(content, dict) else None
    if format_ == ZARR_FORMAT:
        zarr = place.validate(ZarrModel, content)
        place.at("settings").validate(ZarrSettings, zarr.settings)
        order, found = zarr.order, asked(zarr, zarr.settings, ZARR)
    else:
        hdf5: Hdf5Model | Hdf5RowsModel = (
            place.validate(Hdf5RowsModel, content)
            if format_ == ROWS_FORMAT
            else place.validate(Hdf5Model, content)
        )
        settings = place.at("settings").validate(Settings, hdf5.settings).model_dump(exclude_none=True)
        # Rows have one axis, and no order of it.
        order, found = getattr(hdf5, "order", None), asked(hdf5, settings)
    if order:
        raise place.at("order").mistake("a rewritten dataset keeps its axes in their order")
    return found


def asked(layout: LayoutModel, settings: Mapping[str, Any], suffix: str = HDF5) -> dict[str, Any]:
    """Return what a layout says of chunks, filters and the file; extents "all" and formulas are left open.

    Raises RewriteError, without the layout's name, for a layout that a user's file cannot get, or not in a
    file or directory whose name ends in `suffix`.
    """
    kind = load(layout.format)
    if layout.files is not None:
        raise RewriteError("keeps the array in several files; a dataset is rewritten into one")
    if not kind.abilities.rewriting:
        raise RewriteError(f"is stored as {kind.title}; a dataset is rewritten as HDF5 or Zarr")
    if kind.suffix != suffix:
        raise RewriteError(f"is stored as {kind.title}: name a result that ends in {kind.suffix}")
    if isinstance(layout, Hdf5Model | ZarrModel) and layout.pyramid:
        raise RewriteError("has coarser levels beside the array; a rewritten file keeps what there was")
    if isinstance(layout, ZarrModel):
        return {"format": layout.format, **layout.model_dump(include={"chunks", "shards", "settings"}),
                "codecs": [codec.model_dump(exclude_none=True) for codec in layout.codecs]}  # fmt: skip
    if isinstance(layout, Hdf5RowsModel):
        return _asked_of_rows(layout, settings)
    assert isinstance(layout, Hdf5Model)
    if layout.release:
        raise RewriteError(f"is written by HDF5 {layout.release}; a file is rewritten by the HDF5 in use")
    filters = [chosen.model_dump(exclude_none=True) for chosen in layout.filters]
    second = layout.second.model_dump(exclude_none=True) if layout.second else {}
    for options in [*filters, *second.get("filters", [])]:
        if FILTERS[options["name"]].lossy(options):
            raise RewriteError(f"{options['name']} may change values; a rewritten dataset keeps every bit")
    return {
        "chunks": {UNIDATA: UNIDATA_BYTES} if layout.chunks == UNIDATA else layout.chunks,
        "filters": filters,
        "compact": layout.storage == "compact",
        "settings": {key: settings[key] for key in SHAPING if key in settings},
        **({"second": {"chunks": None, **second}} if second else {}),
    }


def _asked_of_rows(layout: Hdf5RowsModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a layout says of ragged rows; raises RewriteError, without the layout's name."""
    storage = STORAGES[layout.storage]
    if not storage.rewriting:
        known = " and ".join(name for name, one in STORAGES.items() if one.rewriting)
        raise RewriteError(f"is {layout.storage}; rows of a user's file are rewritten to {known}")
    filters = [chosen.model_dump(exclude_none=True) for chosen in layout.filters]
    row_chunk = layout.row_chunk or storage.row_chunk
    if filters and not (storage.chunked_values or row_chunk):
        raise RewriteError("cannot have filters without chunks; give the layout a row_chunk")
    if wrong := storage.filters_refusal(filters):
        raise RewriteError(wrong)
    return {
        "rows": True,
        "vector": storage.chunked_values,
        "chunk_bytes": layout.chunk_bytes,
        "row_chunk": row_chunk,
        "reuse": layout.reuse,
        "filters": filters,
        "settings": {key: settings[key] for key in SHAPING if key in settings},
    }
