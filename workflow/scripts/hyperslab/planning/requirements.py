"""What layouts need beyond their file system: environments of other releases, roots for split metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hyperslab.layouts import chunks as arithmetic
from hyperslab.layouts import hdf5_index
from hyperslab.layouts.hdf5_releases import DIRECTORY
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError

# Header of a dataset, its links, and one node of a version-1 B-tree of its chunks.
OBJECT_BYTES = 4096


def made(release: str) -> str:
    """The file that says that the environment of a release is complete."""
    return str(DIRECTORY / f"hdf5-{release}" / "made-from.lock")


def environments(layouts: Iterable[Mapping[str, Any]]) -> list[str]:
    """The environments in which these layouts are written and read; none for the workflow's own."""
    releases = {layout["release"] for layout in layouts if "release" in layout}
    return sorted(made(release) for release in releases)


def room_bytes(study: LoadedStudy, layout: Mapping[str, Any]) -> int:
    """An upper bound of what headers of many datasets, alignment, blocks and pages add to the array."""
    objects: int = max(
        (case["shape"][0] for case in study.cases.values() if case["kind"] == "objects"), default=0
    )
    pieces = objects
    if layout["chunks"]:
        chunks = arithmetic.chunk_count(study.dataset.shape, layout["chunks"])
        pieces += chunks + hdf5_index.btree_nodes(chunks)
    # Each piece may leave up to an alignment free before it, and of a dataset its header and its index, too.
    aligned: int = layout["settings"].get("alignment", {}).get("bytes", 1) - 1
    # A block of metadata and one of small raw data, or a page of each type of space, may stay half empty.
    blocks: int = 2 * layout["settings"].get("meta_block_bytes", 0)
    pages: int = 8 * layout["settings"].get("paging", {}).get("page_bytes", 0)
    return objects * OBJECT_BYTES + (3 * pieces + 16) * aligned + blocks + pages


def roots_by_file_system(sites: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Name -> root of every file system that has a site."""
    return {site["file_system"]: site["root"] for site in sites.values()}


def metadata_sites(study: LoadedStudy, sites: Mapping[str, Mapping[str, Any]], file: Path) -> list[str]:
    """Sites on whose file systems a split driver's metadata lie; ConfigurationError for an unknown one."""
    known = roots_by_file_system(sites)
    wanted: dict[str, None] = {}
    for name, layout in study.layouts.items():
        place = layout["settings"].get("driver", {}).get("metadata_on")
        if place is not None and place not in known:
            message = f"no file system {place!r} with a site; {file} has {', '.join(known)}"
            raise ConfigurationError(study.file, f"layouts.{name}.settings.driver.metadata_on", message)
        wanted.update(dict.fromkeys([place] if place else []))
    return [next(name for name, site in sites.items() if site["file_system"] == place) for place in wanted]
