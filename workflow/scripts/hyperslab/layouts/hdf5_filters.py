"""The filters that a layout may name: one row of FILTERS each says what it takes, treats, promises and adds.

How each is put on a dataset stands in formats/hdf5/filter_setters.py, how a study writes it in hdf5_schema;
this table needs neither HDF5 nor pydantic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hyperslab.layouts.parameters import FLOATS, INTEGERS, NUMBERS, SMALL_INTEGERS, Parameter

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """One filter.

    parameters: by name; a single value in a study means the first.
    modes: parameters of which exactly one is given.
    treats: types of the elements it can treat. first: it treats numbers, so no other filter may come before.
    rank, longer, least: most axes of a chunk; how few and how many of them are longer than 1, and how long
    these are at least.
    lossy: whether values may change with these options. bound: the largest absolute error they promise.
    share, extra: the largest growth of a chunk, as share of its bytes and in bytes; `block`: each axis that
    is longer than 1 is filled up to a multiple of it first.
    rate: about how many bytes a second it encodes, where that is what a write takes longest for.
    """

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    modes: tuple[str, ...] = ()
    treats: frozenset[str] = NUMBERS
    first: bool = False
    rank: int = 32
    longer: tuple[int, int] = (0, 32)
    least: int = 1
    lossy: Callable[[Options], bool] = lambda _: False
    bound: Callable[[Options], float | None] = lambda _: None
    share: float = 0.0
    extra: int = 0
    block: int = 1
    rate: Callable[[Options], float] = lambda _: math.inf


def _always(_: Options) -> bool:
    return True


def _level(low: int, high: int, default: int) -> Parameter:
    return Parameter(low, high, default=default)


def _codec(*words: str) -> Parameter:
    """Return the codec inside a container; the first is the library's default."""
    return Parameter(words=words, default=words[0])


# Bytes a second by gzip's level, seen on one core with counts that level 4 makes a third; of nearly all zeros
# five times as many. They decide no result, only what a dry run says and how jobs are cut.
GZIP_RATES = (math.inf, 128e6, 98e6, 46e6, 85e6, 32e6, 11e6, 7.8e6, 3.4e6, 2.6e6)
POSITIVE = Parameter(low=math.ulp(0.0))
BLOSC_SHUFFLE = Parameter(words=("none", "byte", "bit"), default="byte")
# Left out of what hdf5plugin 7.1 has, each after trying it on arrays of all kinds: sz (ends the process on
# some chunks, is given up by its authors), psnr and norm2 of sz3 and relative bounds (not kept or not
# checkable on a selection), blosc2's trunc_prec (fails), sz3 and zfp on integers (bounds not kept).
FILTERS: dict[str, Kind] = {
    # In HDF5 and h5py. Growth of gzip: H5Z_DEFLATE_SIZE_ADJUST; of scaleoffset: the header of a chunk.
    "gzip": Kind(
        {"level": _level(0, 9, 4)},
        share=0.001,
        extra=16,
        rate=lambda options: GZIP_RATES[options_in_force(options)["level"]],
    ),
    "shuffle": Kind(),
    "fletcher32": Kind(extra=4),
    "lzf": Kind(),
    "szip": Kind(
        {
            "block": Parameter(2, 32, default=16, even=True),
            "coding": Parameter(words=("nearest-neighbour", "entropy"), default="nearest-neighbour"),
        },
        extra=8,
    ),
    # The type in the file has this many bits; a value that does not fit is clipped.
    "nbit": Kind({"bits": Parameter(1, 64)}, treats=INTEGERS, first=True, lossy=_always, extra=8),
    # Integers: bits of a chunk's range, 0 for as many as it needs (lossless). Floats: decimal digits kept.
    "scaleoffset": Kind(
        {"bits": Parameter(0, 64, default=0, treats=INTEGERS), "digits": Parameter(0, 15, treats=FLOATS)},
        first=True,
        lossy=lambda options: "digits" in options or options.get("bits", 0) > 0,
        bound=lambda options: 0.5 * 10.0 ** -options["digits"] if "digits" in options else None,
        extra=32,
    ),
    # Of hdf5plugin, lossless
    "blosc": Kind(
        {
            "codec": _codec("lz4", "blosclz", "lz4hc", "snappy", "zlib", "zstd"),
            "level": _level(1, 9, 5),
            "shuffle": BLOSC_SHUFFLE,
        },
        extra=16,
    ),
    # Blosc2 fills blocks up at the edges of a chunk.
    "blosc2": Kind(
        {
            "codec": _codec("blosclz", "lz4", "lz4hc", "zlib", "zstd"),
            "level": _level(1, 9, 5),
            "shuffle": Parameter(words=(*BLOSC_SHUFFLE.words, "delta"), default="byte"),
        },
        share=0.5,
        extra=1024,
    ),
    "zstd": Kind({"level": _level(-131072, 22, 3)}, share=0.004, extra=64),
    "lz4": Kind(share=0.004, extra=32),
    "bitshuffle": Kind(
        {"codec": _codec("lz4", "none", "zstd"), "level": _level(1, 22, 3)}, share=0.01, extra=64
    ),  # fmt: skip
    "bzip2": Kind({"block": _level(1, 9, 9)}, share=0.011, extra=640),
    "fcidecomp": Kind(treats=SMALL_INTEGERS, first=True, rank=3, extra=16),
    "htj2k": Kind(treats=SMALL_INTEGERS, first=True, longer=(0, 2), share=0.5, extra=512),
    # Of hdf5plugin, lossy
    "zfp": Kind(
        {
            "accuracy": POSITIVE,
            "precision": Parameter(1, 64),
            "rate": Parameter(1, 32),
            "reversible": Parameter(1, 1),
        },
        modes=("accuracy", "precision", "rate", "reversible"),
        treats=FLOATS,
        first=True,
        longer=(1, 4),
        lossy=lambda options: "reversible" not in options,
        bound=lambda options: options.get("accuracy"),
        share=0.2,
        extra=64,
        block=4,
    ),
    "sz3": Kind(
        {"absolute": POSITIVE},
        treats=FLOATS,
        first=True,
        lossy=_always,
        bound=lambda options: options["absolute"],
        share=2.5,
        extra=1024,
    ),
    "sperr": Kind(
        {"absolute": POSITIVE, "rate": Parameter(1, 32), "psnr": POSITIVE},
        modes=("absolute", "rate", "psnr"),
        treats=FLOATS,
        first=True,
        longer=(2, 3),
        least=9,
        lossy=_always,
        bound=lambda options: options.get("absolute"),
        share=0.5,
        extra=256,
    ),
}


def options_in_force(chosen: Options) -> dict[str, Any]:
    """Return a filter as specified, with the defaults of the parameters that were not given."""
    parameters = FILTERS[chosen["name"]].parameters.items()
    return {**{name: p.default for name, p in parameters if p.default is not None}, **chosen}


def refusal(filters: Sequence[Options], dtype: str, chunk: Sequence[int]) -> str | None:
    """Return why filters, in this order, cannot treat chunks of elements of type `dtype`;
    None where they can.
    """
    for position, chosen in enumerate(filters):
        wrong = _mistake(chosen, dtype, chunk)
        if wrong is None and position and FILTERS[chosen["name"]].first:
            wrong = "treats numbers, so it must be the first filter"
        if wrong:
            return f"{chosen['name']} {wrong}"
    return None


def chunk_refusal(filters: Sequence[Options], chunk: Sequence[int]) -> str | None:
    """Return why filters that treat the elements cannot treat chunks of this shape, or None."""
    for chosen in filters:
        if wrong := _chunk_mistake(chosen, chunk):
            return f"{chosen['name']} {wrong}"
    return None


def _mistake(chosen: Options, dtype: str, chunk: Sequence[int]) -> str | None:
    kind = FILTERS[chosen["name"]]
    if dtype not in kind.treats:
        return f"cannot treat {dtype}; it treats {', '.join(sorted(kind.treats))}"
    for name, parameter in kind.parameters.items():
        fits = dtype in parameter.treats
        if name in chosen and not fits:
            return f"has no {name} for {dtype}; that is for {', '.join(sorted(parameter.treats))}"
        if fits and name not in chosen and parameter.default is None and not kind.modes:
            return f"needs {name}"
    if "bits" in chosen:
        whole = 8 * _itemsize(dtype)
        # HDF5 takes a type of which more than half is unused for damaged: H5Pset_relax_file_integrity_checks.
        least = whole // 2 if chosen["name"] == "nbit" and whole > 8 else 0
        if not least <= chosen["bits"] <= whole:
            return f"of {dtype} can have {least} to {whole} bits, not {chosen['bits']}"
    return _chunk_mistake(chosen, chunk)


def _chunk_mistake(chosen: Options, chunk: Sequence[int]) -> str | None:
    kind = FILTERS[chosen["name"]]
    longer = sum(extent > 1 for extent in chunk)
    if len(chunk) > kind.rank:
        return f"cannot treat chunks of more than {kind.rank} axes"
    if not kind.longer[0] <= longer <= kind.longer[1]:
        least, most = kind.longer
        return f"cannot treat chunks of {list(chunk)}: {least} to {most} axes have to be longer than 1"
    if any(1 < extent < kind.least for extent in chunk):
        return f"cannot treat chunks of {list(chunk)}: what is longer than 1 has to have {kind.least} or more"
    if chosen["name"] == "szip" and math.prod(chunk) < (block := options_in_force(chosen)["block"]):
        return f"cannot treat chunks of {list(chunk)}: they are smaller than its block, {block}"
    return None


def _itemsize(dtype: str) -> int:
    """Return the bytes of one element of a type by its name."""
    return int(dtype.lstrip("uintfloa")) // 8


def lossy(filters: Sequence[Options]) -> bool:
    """Return whether values may differ after these filters."""
    return any(FILTERS[chosen["name"]].lossy(chosen) for chosen in filters)


def promised_error(filters: Sequence[Options]) -> float | None:
    """Return the largest absolute error that lossy filters promise;
    None without a promise of each of them.
    """
    bounds = [FILTERS[c["name"]].bound(c) for c in filters if FILTERS[c["name"]].lossy(c)]
    return sum(bound for bound in bounds if bound is not None) if bounds and None not in bounds else None


def largest_chunk_bytes(filters: Sequence[Options], chunk: Sequence[int], itemsize: int) -> int:
    """Return an upper bound of one stored chunk: nothing that filters may add to it is left out."""
    size = math.prod(chunk) * itemsize
    for chosen in filters:
        kind = FILTERS[chosen["name"]]
        full = math.prod(-(-extent // kind.block) * kind.block if extent > 1 else 1 for extent in chunk)
        size = math.ceil(size * full / math.prod(chunk) * (1 + kind.share)) + kind.extra
    return size


def encoding_seconds(filters: Sequence[Options], size: int) -> float:
    """Return about how long filters take to encode so many bytes."""
    return sum(size / FILTERS[chosen["name"]].rate(chosen) for chosen in filters)


def text(chosen: Options) -> str:
    """Return a filter in short: "gzip 4", "blosc zstd level 5", "zfp accuracy 0.5"."""
    kind = FILTERS.get(chosen["name"], Kind())
    # The first parameter needs no name, unless another one might stand in its place.
    plain = None if kind.modes or chosen["name"] == "scaleoffset" else next(iter(kind.parameters), None)
    given = {key: value for key, value in chosen.items() if key != "name"}
    words = [str(value) if key == plain else f"{key} {value}" for key, value in given.items()]
    return " ".join([chosen["name"], *words])
