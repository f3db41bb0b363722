"""The filters of a dataset in a file, in the words of a study: what to ask for to store it so again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from h5py import h5d, h5f, h5p, h5s

from hyperslab.formats import Unavailable
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.formats.hdf5.filter_setters import Filter
from hyperslab.layouts.hdf5_filters import FILTERS, lossy

# How many of a filter's first parameters say which release of it wrote, and not how.
RELEASES = {"lzf": 2, "blosc": 2, "blosc2": 1, "bitshuffle": 2}


def named(dataset: h5d.DatasetID) -> list[Filter] | None:
    """Return the filters of a chunked dataset as specifications have them, in their order.

    What a filter's parameters mean is found by putting on whatever they could mean, so that nothing is named
    by which HDF5 would store otherwise. None where a filter is lossy, is not here, or cannot be named so.
    """
    creation, access = dataset.get_create_plist(), h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(2**16, False)
    file = h5f.create(b"filters", h5f.ACC_TRUNC, fapl=access)
    try:
        return _named(creation, lambda options: _stored(file, dataset, options))
    finally:
        file.close()


def _named(creation: h5p.PropDCID, stored: Callable[[Filter], Sequence[int] | None]) -> list[Filter] | None:
    """Return the filters; `stored` tells which parameters HDF5 would store of one."""
    found: list[Filter] = []
    for position in range(creation.get_nfilters()):
        code, _, parameters, _ = creation.get_filter(position)
        name = next((one for one in FILTERS if _code(one) == code), None)
        meant = (
            options
            for options in (_meant(name, parameters) if name else ())
            if _same(options["name"], parameters, stored(options))
        )
        if (options := next(meant, None)) is None:
            return None
        found.append(options)
    return found


def _code(name: str) -> int | None:
    """Return the code of a filter in the library, None where its plug-in is not installed."""
    with suppress(Unavailable):
        return filter_setters.code_of(name)
    return None


def _meant(name: str, parameters: Sequence[int]) -> Iterator[Filter]:
    """Yield what stored parameters may mean: every word, and every number that is among them."""
    kind = FILTERS[name]
    numbers = [value - 2**32 if value >= 2**31 else value for value in parameters]
    given = {
        # The default first: a level is nothing to some codecs.
        key: parameter.words
        or [one for one in dict.fromkeys([parameter.default, *numbers]) if not parameter.mistake(one)]
        for key, parameter in kind.parameters.items()
        if parameter.words or parameter.default is not None
    }
    for values in itertools.product(*given.values()):
        options = {"name": name, **dict(zip(given, values, strict=True))}
        if not kind.modes and not lossy([options]):
            yield options


def _stored(file: h5f.FileID, dataset: h5d.DatasetID, options: Filter) -> Sequence[int] | None:
    """Return the parameters that HDF5 would store of a filter for chunks like those of `dataset`, if any."""
    chunk, creation = dataset.get_create_plist().get_chunk(), h5p.create(h5p.DATASET_CREATE)
    # What cannot be put on such chunks was not meant.
    with suppress(ValueError, OSError, RuntimeError):
        creation.set_chunk(chunk)
        filter_setters.apply(creation, [options])
        # A copy, since a type that lies in one file cannot be used in another.
        elements = dataset.get_type().copy()
        like = h5d.create(file, None, elements, h5s.create_simple(chunk), creation)
        _, _, parameters, _ = like.get_create_plist().get_filter(0)
        return tuple(parameters)
    return None


def _same(name: str, parameters: Sequence[int], others: Sequence[int] | None) -> bool:
    """Return whether two releases of a filter would make the same of a chunk by these parameters."""
    release = RELEASES.get(name, 0)
    return others is not None and tuple(parameters[release:]) == tuple(others[release:])
