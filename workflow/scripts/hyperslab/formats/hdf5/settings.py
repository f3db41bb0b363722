"""Every setting of HDF5 that a study may give: how it is put in force, and how it is read back.

Bounds and forms are those of `hyperslab.layouts.hdf5_schema`. What h5py lacks goes through `library`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import h5py
from h5py import h5d, h5f, h5fd, h5p

from hyperslab.formats import Unavailable
from hyperslab.formats.hdf5 import library
from hyperslab.measuring import other_file_systems
from hyperslab.measuring.artifact import make_directory

# Older releases do not know the newer names.
LIBVER = {
    name: getattr(h5f, constant)
    for name, constant in (
        ("earliest", "LIBVER_EARLIEST"),
        ("v108", "LIBVER_V18"),
        ("v110", "LIBVER_V110"),
        ("v112", "LIBVER_V112"),
        ("v114", "LIBVER_V114"),
        ("latest", "LIBVER_LATEST"),
    )
    if hasattr(h5f, constant)
}
ALLOC_TIMES = {"early": h5d.ALLOC_TIME_EARLY, "late": h5d.ALLOC_TIME_LATE, "incremental": h5d.ALLOC_TIME_INCR}
FILL_TIMES = {"ifset": h5d.FILL_TIME_IFSET, "alloc": h5d.FILL_TIME_ALLOC, "never": h5d.FILL_TIME_NEVER}
STRATEGIES = {
    h5f.FSPACE_STRATEGY_FSM_AGGR: "free-space managers and aggregators",
    h5f.FSPACE_STRATEGY_PAGE: "pages",
    h5f.FSPACE_STRATEGY_AGGR: "aggregators",
    h5f.FSPACE_STRATEGY_NONE: "none",
}
# H5Pset_fapl_direct's own suggestions.
DIRECT_ALIGNMENT, DIRECT_BLOCK, DIRECT_COPY_BUFFER = 4096, 4096, 16 * 2**20
CORE_INCREMENT = 64 * 2**10
# Settings beyond BASIC that change no request of a read.
HARMLESS = frozenset({"alloc_time", "fill_time", "garbage_collect_every"})
BASIC = frozenset({"chunk_cache_bytes", "chunk_cache_slots", "chunk_cache_w0", "sieve_bytes", "libver"})


@dataclass(frozen=True)
class Lists:
    """The property lists of one file and its dataset."""

    file_creation: h5p.PropFCID
    file_access: h5p.PropFAID
    creation: h5p.PropDCID
    access: h5p.PropDAID
    transfer: h5p.PropDXID


@dataclass(frozen=True)
class Knob:
    """One setting: `put` it into property lists for the test file at a path, `get` what is in force."""

    put: Callable[[Lists, Any, str], None]
    get: Callable[[Lists, str], Any]


def _put_cache(position: int) -> Callable[[Lists, Any, str], None]:
    """Return the slots, bytes or w0 of the chunk cache: 1, 2 or 3 of H5Pset_cache's arguments."""

    def put(lists: Lists, value: Any, _: str) -> None:
        arguments = list(lists.file_access.get_cache())
        arguments[position] = value
        lists.file_access.set_cache(*arguments)

    return put


def _put_libver(lists: Lists, value: str, _: str) -> None:
    if value not in LIBVER:
        raise Unavailable(f"this release of HDF5 does not know libver {value}")
    lists.file_access.set_libver_bounds(LIBVER[value], h5f.LIBVER_LATEST)


def _get_libver(lists: Lists, _: str) -> list[str]:
    names = {value: name for name, value in LIBVER.items()}
    return [names.get(bound, str(bound)) for bound in lists.file_access.get_libver_bounds()]


def _put_metadata_cache(lists: Lists, value: Mapping[str, int], _: str) -> None:
    config = lists.file_access.get_mdc_config()
    config.set_initial_size = True
    config.initial_size = value["initial_bytes"]
    config.min_size, config.max_size = value["min_bytes"], value["max_bytes"]
    lists.file_access.set_mdc_config(config)


def _get_metadata_cache(lists: Lists, _: str) -> dict[str, int]:
    config = lists.file_access.get_mdc_config()
    return {
        "initial_bytes": config.initial_size,
        "min_bytes": config.min_size,
        "max_bytes": config.max_size,
    }


def _get_alignment(lists: Lists, _: str) -> dict[str, int]:
    threshold, size = lists.file_access.get_alignment()
    return {"threshold_bytes": threshold, "bytes": size}


def _put_paging(lists: Lists, value: Mapping[str, int], _: str) -> None:
    lists.file_creation.set_file_space_strategy(h5f.FSPACE_STRATEGY_PAGE, False, 1)
    lists.file_creation.set_file_space_page_size(value["page_bytes"])
    if "buffer_bytes" in value:
        shares = (value.get(f"min_{kind}_percent", 0) for kind in ("metadata", "raw"))
        lists.file_access.set_page_buffer_size(value["buffer_bytes"], *shares)


def _get_paging(lists: Lists, _: str) -> dict[str, Any]:
    strategy, _, _ = lists.file_creation.get_file_space_strategy()
    size, metadata, raw = lists.file_access.get_page_buffer_size()
    return {
        "strategy": STRATEGIES.get(strategy, str(strategy)),
        "page_bytes": lists.file_creation.get_file_space_page_size(),
        "buffer_bytes": size,
        "min_metadata_percent": metadata,
        "min_raw_percent": raw,
    }


def _core(lists: Lists, value: Mapping[str, Any], _: str) -> None:
    lists.file_access.set_fapl_core(value.get("increment_bytes", CORE_INCREMENT), True)


def _direct(lists: Lists, value: Mapping[str, Any], _: str) -> None:
    if not hasattr(lists.file_access, "set_fapl_direct"):
        raise Unavailable("this HDF5 was built without the direct driver")
    block = value.get("block_bytes", DIRECT_BLOCK)
    buffer = value.get("copy_buffer_bytes", DIRECT_COPY_BUFFER)
    lists.file_access.set_fapl_direct(DIRECT_ALIGNMENT, block, buffer)


def _split(lists: Lists, value: Mapping[str, Any], path: str) -> None:
    try:
        make_directory(other_file_systems.file_on(path, value["metadata_on"]).parent)
        template = other_file_systems.template(value["metadata_on"])
    except KeyError:
        raise Unavailable(f"no file system {value['metadata_on']!r} is known here") from None
    member = h5p.create(h5p.FILE_ACCESS)
    # A template's %s stands for the whole name of the file: raw data keep it, metadata lie elsewhere.
    lists.file_access.set_fapl_split(os.fsencode(template), member, b"%s", member)


DRIVERS: dict[str, Callable[[Lists, Mapping[str, Any], str], None]] = {
    "sec2": lambda lists, _, __: lists.file_access.set_fapl_sec2(),
    "stdio": lambda lists, _, __: lists.file_access.set_fapl_stdio(),
    "core": _core,
    "direct": _direct,
    "split": _split,
}


def _put_driver(lists: Lists, value: Mapping[str, Any], path: str) -> None:
    DRIVERS[value["name"]](lists, value, path)


def _get_driver(lists: Lists, _: str) -> str:
    names = {h5fd.SEC2: "sec2", h5fd.STDIO: "stdio", h5fd.CORE: "core", h5fd.MULTI: "split"}
    driver = lists.file_access.get_driver()
    if driver == h5fd.CORE:
        increment, _ = lists.file_access.get_fapl_core()
        return f"core, {increment} bytes at a time"
    return names.get(driver, "direct" if driver == h5fd.DIRECT else f"number {driver}")


def _not_a_property(*_: Any) -> str:
    return "cannot be read back: a call, not a property; an objects case counts the calls"


def _name_of(table: Mapping[str, int], value: int) -> str:
    return next((name for name, constant in table.items() if constant == value), "default")


KNOBS: dict[str, Knob] = {
    "chunk_cache_bytes": Knob(_put_cache(2), lambda lists, _: lists.access.get_chunk_cache()[1]),
    "chunk_cache_slots": Knob(_put_cache(1), lambda lists, _: lists.access.get_chunk_cache()[0]),
    "chunk_cache_w0": Knob(_put_cache(3), lambda lists, _: lists.access.get_chunk_cache()[2]),
    "sieve_bytes": Knob(
        lambda lists, value, _: lists.file_access.set_sieve_buf_size(value),
        lambda lists, _: lists.file_access.get_sieve_buf_size(),
    ),
    "meta_block_bytes": Knob(
        lambda lists, value, _: lists.file_access.set_meta_block_size(value),
        lambda lists, _: lists.file_access.get_meta_block_size(),
    ),
    "libver": Knob(_put_libver, _get_libver),
    "metadata_cache": Knob(_put_metadata_cache, _get_metadata_cache),
    "conversion_buffer_bytes": Knob(
        lambda lists, value, _: library.set_buffer(lists.transfer, value),
        lambda lists, _: library.get_buffer(lists.transfer),
    ),
    "alloc_time": Knob(
        lambda lists, value, _: lists.creation.set_alloc_time(ALLOC_TIMES[value]),
        lambda lists, _: _name_of(ALLOC_TIMES, lists.creation.get_alloc_time()),
    ),
    "fill_time": Knob(
        lambda lists, value, _: lists.creation.set_fill_time(FILL_TIMES[value]),
        lambda lists, _: _name_of(FILL_TIMES, lists.creation.get_fill_time()),
    ),
    "alignment": Knob(
        lambda lists, value, _: lists.file_access.set_alignment(value["threshold_bytes"], value["bytes"]),
        _get_alignment,
    ),
    "driver": Knob(_put_driver, _get_driver),
    "paging": Knob(_put_paging, _get_paging),
    # Applied between objects; there is nothing to put into a property list.
    "garbage_collect_every": Knob(lambda lists, value, _: None, _not_a_property),
}


def property_lists(settings: Mapping[str, Any], path: str) -> Lists:
    """Return the property lists with `settings` (of a specification) in force for the test file `path`.

    Raises Unavailable for what this build or release of HDF5 lacks.
    """
    kinds = (h5p.FILE_CREATE, h5p.FILE_ACCESS, h5p.DATASET_CREATE, h5p.DATASET_ACCESS, h5p.DATASET_XFER)
    lists = Lists(*(h5p.create(kind) for kind in kinds))
    lists.file_access.set_fclose_degree(h5f.CLOSE_STRONG)
    for name, value in settings.items():
        if value != "default":
            KNOBS[name].put(lists, value, path)
    return lists


def in_file(file: h5py.File, dataset: h5py.Dataset, transfer: h5p.PropDXID) -> Lists:
    """Return the property lists of an open file and dataset;
    `transfer` is the one that its reads are given.
    """
    ids = file.id, dataset.id
    return Lists(
        ids[0].get_create_plist(), ids[0].get_access_plist(), ids[1].get_create_plist(),
        ids[1].get_access_plist(), transfer,
    )  # fmt: skip


def effective(lists: Lists, path: str) -> dict[str, Any]:
    """Return every setting as the property lists of an open file say it;
    in words where that is not possible.
    """
    found: dict[str, Any] = {}
    for name, knob in KNOBS.items():
        try:
            found[name] = knob.get(lists, path)
        except (RuntimeError, ValueError, AttributeError) as error:
            found[name] = f"cannot be read back: {' '.join(str(error).split())}"
    return found


def resolved(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` with this release's own values where they say "default";
    libver as its lower bound.
    """
    if "default" not in settings.values():
        return dict(settings)
    access = h5p.create(h5p.FILE_ACCESS)
    _, slots, size, w0 = access.get_cache()
    names = {value: name for name, value in LIBVER.items()}
    own = {
        "chunk_cache_slots": slots,
        "chunk_cache_bytes": size,
        "chunk_cache_w0": w0,
        "sieve_bytes": access.get_sieve_buf_size(),
        "libver": names[access.get_libver_bounds()[0]],
    }
    return {name: own[name] if value == "default" else value for name, value in settings.items()}


def only_basic(settings: Mapping[str, Any]) -> bool:
    """Return whether the requests of a read are those that arithmetic knows."""
    return not settings.keys() - BASIC - HARMLESS


def whole_size(path: str, settings: Mapping[str, Any]) -> int:
    """Return the bytes of the test file with, where split, its metadata file."""
    driver = settings.get("driver") or {}
    size = os.stat(path).st_size
    if driver.get("name") == "split":
        size += other_file_systems.file_on(path, driver["metadata_on"]).stat().st_size
    return size
