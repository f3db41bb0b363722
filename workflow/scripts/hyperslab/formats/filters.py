"""HDF5 filters by name: how each is put on a dataset and how a file names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from h5py import h5p, h5z

Filter = dict[str, Any]


def _lzf(creation: h5p.PropDCID, _: Filter) -> None:
    creation.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL)


# name -> how to put it on a property list with the study's options
SETTERS: dict[str, Callable[[h5p.PropDCID, Filter], None]] = {
    "gzip": lambda creation, options: creation.set_deflate(options.get("level", 4)),
    "shuffle": lambda creation, _: creation.set_shuffle(),
    "fletcher32": lambda creation, _: creation.set_fletcher32(),
    "lzf": _lzf,
    "szip": lambda creation, options: creation.set_szip(h5z.SZIP_NN_OPTION_MASK, options.get("block", 16)),
}


def apply(creation: h5p.PropDCID, chosen: Sequence[Filter]) -> None:
    """Put the filters on a dataset creation property list, in the order given."""
    for options in chosen:
        SETTERS[options["name"]](creation, options)


def describe(creation: h5p.PropDCID) -> list[str]:
    """The filters of a dataset as the file names them, with their parameters."""
    found = []
    for position in range(creation.get_nfilters()):
        _, _, parameters, name = creation.get_filter(position)
        found.append(f"{name.decode()} {list(parameters)}")
    return found
