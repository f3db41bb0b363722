"""HDF5 filters by name: how each is put on a dataset and how a file names it.

What they take, treat and promise is the table of hyperslab.layouts.hdf5_filters.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from h5py import h5d, h5p, h5t, h5z

from hyperslab.formats import Unavailable
from hyperslab.layouts.hdf5_filters import options_in_force

Filter = dict[str, Any]
# Codes of the HDF5 filters of Blosc.
BLOSC_SHUFFLES = {"none": 0, "byte": 1, "bit": 2, "delta": 3}
SZIP_CODINGS = {"nearest-neighbour": h5z.SZIP_NN_OPTION_MASK, "entropy": h5z.SZIP_EC_OPTION_MASK}


def _scaleoffset(creation: h5p.PropDCID, options: Filter) -> None:
    if "digits" in options:
        creation.set_scaleoffset(h5z.SO_FLOAT_DSCALE, options["digits"])
    else:
        creation.set_scaleoffset(h5z.SO_INT, options["bits"])


def _optional(code: int) -> Callable[[h5p.PropDCID, Filter], None]:
    """Return a filter without parameters that leaves a chunk alone which it cannot shrink."""
    return lambda creation, _: creation.set_filter(code, h5z.FLAG_OPTIONAL)


# name -> how to put it on a property list with the options in force
SETTERS: dict[str, Callable[[h5p.PropDCID, Filter], None]] = {
    "gzip": lambda creation, options: creation.set_deflate(options["level"]),
    "shuffle": lambda creation, _: creation.set_shuffle(),
    "fletcher32": lambda creation, _: creation.set_fletcher32(),
    "lzf": _optional(h5z.FILTER_LZF),
    "szip": lambda creation, options: creation.set_szip(SZIP_CODINGS[options["coding"]], options["block"]),
    "nbit": _optional(h5z.FILTER_NBIT),
    "scaleoffset": _scaleoffset,
}
# name -> class of hdf5plugin, and its arguments of the options in force
PLUGINS: dict[str, tuple[str, Callable[[Filter], dict[str, Any]]]] = {
    "blosc": (
        "Blosc",
        lambda o: {"cname": o["codec"], "clevel": o["level"], "shuffle": BLOSC_SHUFFLES[o["shuffle"]]},
    ),
    "blosc2": (
        "Blosc2",
        lambda o: {"cname": o["codec"], "clevel": o["level"], "filters": BLOSC_SHUFFLES[o["shuffle"]]},
    ),
    "zstd": ("Zstd", lambda o: {"clevel": o["level"]}),
    "lz4": ("LZ4", lambda _: {}),
    "bitshuffle": ("Bitshuffle", lambda o: {"cname": o["codec"], "clevel": o["level"]}),
    "bzip2": ("BZip2", lambda o: {"blocksize": o["block"]}),
    "fcidecomp": ("FciDecomp", lambda _: {}),
    "htj2k": ("Htj2k", lambda _: {}),
    "zfp": ("Zfp", lambda o: {name: value for name, value in o.items() if name != "name"}),
    "sz3": ("SZ3", lambda o: {"absolute": o["absolute"]}),
    "sperr": (
        "Sperr",
        lambda o: {
            {"psnr": "peak_signal_to_noise_ratio"}.get(name, name): value
            for name, value in o.items()
            if name != "name"
        },
    ),
}
# Filters of HDF5 and h5py by their code in the library.
BUILT_IN = {
    "gzip": h5z.FILTER_DEFLATE,
    "shuffle": h5z.FILTER_SHUFFLE,
    "fletcher32": h5z.FILTER_FLETCHER32,
    "lzf": h5z.FILTER_LZF,
    "szip": h5z.FILTER_SZIP,
    "nbit": h5z.FILTER_NBIT,
    "scaleoffset": h5z.FILTER_SCALEOFFSET,
}


def of_plugins(chosen: Sequence[Filter]) -> list[str]:
    """Return the names of those filters that neither HDF5 nor h5py has by itself, each once: whoever reads a
    file with one needs its plug-in.
    """
    return list(dict.fromkeys(options["name"] for options in chosen if options["name"] not in BUILT_IN))


def prepare(chosen: Sequence[Filter]) -> None:
    """Make filters known to the library, which takes time once; raises Unavailable for one it has not."""
    for options in chosen:
        _prepare(options["name"])


def code_of(name: str) -> int:
    """Return the code of a filter in the library; raises Unavailable where its plug-in is not installed."""
    return BUILT_IN[name] if name in BUILT_IN else int(_plugin_class(name).filter_id)


@cache
def _prepare(name: str) -> None:
    if not h5z.filter_avail(code_of(name)):
        raise Unavailable(f"this build of HDF5 and its plugins has no filter {name}")


def missing(dataset: h5d.DatasetID) -> str:
    """Return in words which filter a dataset cannot be read for want of; empty where it can.

    Filters of hdf5plugin are made known where a dataset was written with one that the library has not.
    """
    creation = dataset.get_create_plist()
    for position in range(creation.get_nfilters()):
        code, _, _, name = creation.get_filter(position)
        if not h5z.filter_avail(code):
            with suppress(ImportError):
                importlib.import_module("hdf5plugin")
        if not h5z.filter_avail(code):
            known = f" ({name.decode(errors='replace')})" if name else ""
            return f"was written with filter {code}{known}, whose plug-in is not installed here"
    return ""


def _plugin_class(name: str) -> Any:
    """Return the class of hdf5plugin that describes a filter;
    importing the package registers all that it has.
    """
    try:
        return getattr(importlib.import_module("hdf5plugin"), PLUGINS[name][0])
    except ImportError:
        raise Unavailable(f"filter {name} needs hdf5plugin, which is not installed here") from None


def apply(creation: h5p.PropDCID, chosen: Sequence[Filter]) -> None:
    """Put the filters on a dataset creation property list, in the order given."""
    for options in chosen:
        if options["name"] in SETTERS:
            SETTERS[options["name"]](creation, options_in_force(options))
        else:
            arguments = PLUGINS[options["name"]][1]
            filter_ = _plugin_class(options["name"])(**arguments(options_in_force(options)))
            # As h5py does: a chunk that the filter cannot treat or shrink is stored as it is, and counted.
            creation.set_filter(filter_.filter_id, h5z.FLAG_OPTIONAL, filter_.filter_options)


def datatype(dtype: str | np.dtype[Any], chosen: Sequence[Filter]) -> h5t.TypeID:
    """Return the type of the elements in the file: that of memory,
    but of fewer bits where n-bit is asked for.
    """
    found = h5t.py_create(np.dtype(dtype))
    for options in chosen:
        if options["name"] == "nbit":
            found = found.copy()
            found.set_precision(options["bits"])
    return found


def describe(creation: h5p.PropDCID) -> list[str]:
    """Return the filters of a dataset as the file names them, with their parameters."""
    found = []
    for position in range(creation.get_nfilters()):
        _, _, parameters, name = creation.get_filter(position)
        found.append(f"{name.decode()} {list(parameters)}")
    return found
