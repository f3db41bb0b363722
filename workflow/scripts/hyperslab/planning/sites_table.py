"""What the sites are, as far as this machine can see, in two tables: nothing is measured, made or written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.measuring import limits, machine, probe_directories, read_ahead
from hyperslab.planning.invocation import Invocation
from hyperslab.planning.reachability import left_out
from hyperslab.sites import mounts, roots, striping
from hyperslab.text import ABSENT, gigabytes, size, striping_text, throttle_text

# So many folders of a root are named.
MOST_NAMED = 5

Site = Mapping[str, Any]
Facts = Mapping[str, Any]


def tables(sites: Mapping[str, Site]) -> str:
    """Return both tables: what is measured how, and where the file systems lie."""
    reasons = left_out(sites, Invocation(executor="slurm"), measuring=True, batched="", local=True)
    overview = [["site", "platform", "type", "free", "block", "read-ahead", "can be measured", "remarks"]]
    places = [["site", "root", "source", "mount options"]]
    for name, site in sites.items():
        seen = site["executor"] == "local" or not site["node_local"]
        existing = mounts.existing(Path(site["root"])) if seen else None
        facts = machine.describe_file_system(str(existing)) if existing else {}
        overview.append([
            name, _platform(site), facts.get("type", ABSENT), gigabytes(facts.get("free_bytes")),
            size(facts.get("block_bytes")), size(facts.get("read_ahead_bytes")),
            _reach(site, existing, reasons.get(name)), "; ".join(_remarks(site, existing, facts)) or ABSENT,
        ])  # fmt: skip
        places.append([name, site["root"], facts.get("source", ABSENT), facts.get("options", ABSENT)])
    return f"{_columns(overview)}\n\n{_columns(places)}"


def _platform(site: Site) -> str:
    return (
        f"{site['platform']} ({site['executor']})" if site["executor"] != "local" else str(site["platform"])
    )


def _reach(site: Site, existing: Path | None, reason: str | None) -> str:
    """Return whether cells can be measured there from here, or why not."""
    if reason:
        return f"no: {reason}"
    if existing is None:
        return "on its nodes, with --profile slurm"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"no: {existing} cannot be written"
    try:
        if site["cgroup"] and site["executor"] == "local":
            limits.limits_of(site["cgroup"], mounts.block_devices(existing))
        if site["read_ahead_bytes"] is not None and site["executor"] == "local":
            setting = mounts.read_ahead_setting(existing)
            if wrong := read_ahead.mistake(str(existing), setting):
                return f"no: {wrong}"
        if site["stripe"]:
            striping.check(str(existing))
    except (OSError, striping.StripingError) as error:
        return f"no: {error}"
    return "yes" if site["executor"] == "local" else "with --profile slurm"


def _remarks(site: Site, existing: Path | None, facts: Facts) -> list[str]:
    """Return what a reader of results should know of this file system."""
    found = []
    if existing is None:
        found.append("only its nodes see it")
    elif not os.path.exists(site["root"]):
        found.append("the root is not made yet")
    elif names := _folders(site["root"]):
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        held = ", ".join(names[:MOST_NAMED]) + more
        found.append(f"folders in it: {held}")
    if site["cap_bytes"]:
        found.append(f"at most {gigabytes(site['cap_bytes'])} are used")
    if facts.get("memory_resident"):
        found.append("in memory: cold is library-cold")
    if facts.get("fuse"):
        found.append("FUSE")
    if facts.get("network"):
        found.append("network: caches of servers are not controlled")
    if facts and not facts["device_counted"]:
        found.append("no device bytes")
    if facts.get("striping"):
        found.append(f"striped: {striping_text(facts['striping'])}")
    if site["stripe"]:
        found.append(f"to be striped: {striping_text(site['stripe'])}")
    if site["read_ahead_bytes"] is not None:
        found.append(f"read-ahead set to {size(site['read_ahead_bytes'])} for each cell")
    if site["store"]:
        found.append(_store(site["store"]))
    if site["cgroup"] and existing is not None:
        found.append(_throttle(site["cgroup"], existing))
    return found


def _folders(root: str) -> list[str]:
    """Return the names of the folders in a root that runs have used; those of a study begin with its name.

    Of any root also those of probes, which a probe that was killed has left.
    """
    used = roots.is_prepared(root)
    # One that another user may look through may still not be listed.
    with suppress(OSError), os.scandir(root) as entries:
        names = [entry.name for entry in entries if entry.is_dir()]
        return sorted(
            name
            for name in names
            if name.startswith(probe_directories.PREFIX) or (used and not name.startswith("."))
        )
    return []


def _store(store: Mapping[str, Any]) -> str:
    """Return what a site's object store is; its credentials are nowhere to be shown."""
    where = store["endpoint"] or f"{store['start']}, started by each cell"
    held = [f"{store['latency_ms']:g} ms"] if store["latency_ms"] else []
    held += [f"{size(store['bandwidth'])}/s"] if store["bandwidth"] else []
    return f"object store: {', '.join([where, 'bucket ' + store['bucket'], *held])}"


def _throttle(cgroup: str, existing: Path) -> str:
    try:
        return f"throttled: {throttle_text(limits.limits_of(cgroup, mounts.block_devices(existing)))}"
    except OSError:
        return f"throttled by {cgroup}"


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as text, each column as wide as its widest entry."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
