"""Which layout is recommended for a user's file, of those that it can get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.rewriting import RewriteError

GONE = "it is not one of the study any more"


def picked(
    recommendation: Mapping[str, Any], site: str | None, file: str | Path, layouts: Mapping[str, Any]
) -> tuple[str, str | None]:
    """Return the layout recommended for a site, or for all of them where they agree, and what to say of it.

    Where the user's file cannot get that one (`layouts` has the reason), it is the next in the ranking within
    the size that it can get. Raises RewriteError.
    """
    sites: Sequence[Mapping[str, Any]] = recommendation["sites"]
    found = {entry["site"]: entry for entry in sites if site in (None, entry["site"])}
    if not found:
        known = ", ".join(entry["site"] for entry in sites) or "none"
        raise RewriteError(
            f"{file}: has nothing on site {site}; it has {known}" if site else f"{file}: is empty"
        )
    for name, entry in found.items():
        if entry["pick"] is None:
            raise RewriteError(f"{file}: recommends nothing at {name}: {entry['reason']}")
    chosen = {name: _best(entry, layouts, file) for name, entry in found.items()}
    if len(set(chosen.values())) > 1:
        said = ", ".join(f"{layout} at {name}" for name, layout in chosen.items())
        raise RewriteError(f"{file}: recommends {said}; choose with --config site=NAME")
    best, first = next(iter(chosen.values())), next(iter(found.values()))["pick"]
    if best == first:
        return best, None
    why = layouts.get(first, GONE)
    said = f"{first} is recommended, which the file cannot get ({why}): {best} is the best of the others"
    return best, said


def _best(entry: Mapping[str, Any], layouts: Mapping[str, Any], file: str | Path) -> str:
    """Return the pick of a site, or the first after it that can be had."""
    ranked = [one["layout"] for one in entry.get("ranking", []) if one["fits"]]
    for name in (entry["pick"], *ranked):
        if isinstance(layouts.get(name), dict):
            return str(name)
    raise RewriteError(f"{file}: recommends {entry['pick']}, but {layouts.get(entry['pick'], GONE)}")
