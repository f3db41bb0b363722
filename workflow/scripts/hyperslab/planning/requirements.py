"""What layouts need beyond their file system: environments of other releases, roots for split metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hyperslab.layouts import layout_of
from hyperslab.layouts.environments import of_cell
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.nearest import choices


def environments(cells: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """Return the environments in which layouts are written, and measured in cases; of each the two resolved.

    None for the workflow's own.
    """
    found = set()
    for layout, case in cells:
        own = layout_of(layout).environment()
        found |= {own, of_cell(case, own)}
    return sorted(made for made in found if made)


def roots_by_file_system(sites: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return name -> root of every file system that has a site."""
    return {site["file_system"]: site["root"] for site in sites.values()}


def other_roots(study: LoadedStudy, sites: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return name -> root of the file systems on which layouts of a study put parts of test files.

    Nothing lies on any other, whose server may be away: whoever looks there waits for it.
    """
    named = {place for layout in study.layouts.values() for place in layout_of(layout).other_file_systems()}
    return {name: root for name, root in roots_by_file_system(sites).items() if name in named}


def other_sites(study: LoadedStudy, sites: Mapping[str, Mapping[str, Any]], file: Path) -> list[str]:
    """Return the sites on whose file systems parts of test files lie; raises ConfigurationError."""
    known = roots_by_file_system(sites)
    wanted: dict[str, None] = {}
    for name, layout in study.layouts.items():
        for place in layout_of(layout).other_file_systems():
            if place not in known:
                message = f"no file system {place!r} with a site; {file} has {choices(place, known)}"
                raise ConfigurationError(study.file, f"layouts.{name}.settings.driver.metadata_on", message)
            wanted[place] = None
    return [next(name for name, site in sites.items() if site["file_system"] == place) for place in wanted]
