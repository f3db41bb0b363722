"""Checks of where results were measured: set-ups that differ, caches, and locks that were not held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Check
from hyperslab.results.recommendation import at_one, several_places

# What of an object store times depend on.
OF_STORES = ("endpoint", "latency_ms", "bandwidth")
# What all results of a site should have in common, as its context calls it -> in words.
OF_ONE_KIND = {"versions": "versions", "machine": "machines or kernels", "file_system": "file systems"}


def mixtures(data: Data) -> Check:
    """Return whether results of different set-ups stand side by side, at a site or between sites."""
    name, found, mixed = "Mixtures", list[str](), several_places(data.context)
    for site in data.sites:
        entries = [entry for entry in data.context if entry["site"] == site]
        known = {words: [entry.get(key) or {} for entry in entries] for key, words in OF_ONE_KIND.items()}
        # A line without a limit is another one, too. Where the places tell stores apart, they say it below.
        stores = [entry.get("store") or {} for entry in entries]
        if len({place.store for place in mixed.get(site, ())} - {""}) < 2:
            known["object stores"] = [{key: store.get(key, "none") for key in OF_STORES} for store in stores]
        found += [
            f"{site}, {words}: {part} is {' or '.join(values)}"
            for words, several in known.items()
            for part, values in _differing(several).items()
        ]
    for site, places in mixed.items():
        those = " and ".join(map(str, places))
        found.append(f"{site}: results of {those} are compared, in claims, too: {at_one(site)}")
    between = _differing([entry.get("versions") or {} for entry in data.context])
    if not found:
        found += [f"between sites: {part} is {' or '.join(values)}" for part, values in between.items()]
    if not found:
        return Check(name, "None: one machine, file system and set of versions at each site.", "good")
    return Check(name, f"Results of different set-ups stand side by side. {'; '.join(found)}.", "bad")


def _differing(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return key -> its values, where entries differ in it."""
    values: dict[str, list[str]] = {}
    for entry in entries:
        for key, value in entry.items():
            known = values.setdefault(str(key).replace("_", " "), [])
            text = ("no", "yes")[value] if isinstance(value, bool) else str(value)
            if text not in known:
                known.append(text)
    return {key: known for key, known in values.items() if len(known) > 1}


def not_controlled(data: Data) -> Check:
    """Return which caches beyond the page cache of the node may have held what was read."""
    name, parts = "Caches not controlled", []
    for site in data.sites:
        known = [entry.get("file_system") or {} for entry in data.context if entry["site"] == site]
        beyond = sorted({str(entry["server_cache"]) for entry in known if entry.get("server_cache")})
        if any(entry.get("memory_resident") for entry in known):
            parts.append(f"{site} lies in memory, so nothing is evicted, and its cold is library-cold.")
        elif beyond:
            names = any(entry.get("names_and_inodes") == "cached" for entry in known)
            parts.append(
                f"{site}: caches beyond the node's page cache (of {_beyond(known)}) are "
                f"{' or '.join(beyond)}; cold means that the node's page cache held none of the file"
                f"{', while names and inodes were cached' if names else ''}."
            )
    return Check(name, " ".join(parts) or "Nothing is recorded about caches beyond the node.", "unknown")


def _beyond(known: Sequence[Mapping[str, Any]]) -> str:
    """Return who else may hold the data of such a file system in memory."""
    places = {
        "network": "servers and of the file system's own client",
        "fuse": "the FUSE program and what lies below it",
    }
    found = [place for key, place in places.items() if any(entry.get(key) for entry in known)]
    return " or ".join(found) or "a host or server"


def reclaim(data: Data) -> Check:
    """Return where the kernel reclaims cached pages by itself."""
    name = "Reclaim"
    sites = dict.fromkeys(
        str(e["site"]) for e in data.context if (e.get("machine") or {}).get("reclaims_by_itself")
    )
    if not sites:
        return Check(name, "No kernel reclaims cached pages by itself.", "good")
    text = (
        f"The kernel reclaims cached pages by itself (DAMON) at {fmt.listing(sites)}: a warm file can lose "
        "pages between selections."
    )
    return Check(name, text, "unknown")


def locks(data: Data) -> Check:
    """Return which locks were not held."""
    name = "Locks"
    lacking = {
        f"{e['site']} ({kind})"
        for e in data.context
        for kind, held in (e.get("locks") or {}).items()
        if not held
    }
    if not lacking:
        return Check(name, "Every cell held the lock of its node and of its file system.", "good")
    return Check(
        name,
        f"Not held, so another study may have been timed meanwhile: {fmt.listing(sorted(lacking))}.",
        "bad",
    )
