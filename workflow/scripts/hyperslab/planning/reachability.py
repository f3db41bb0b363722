"""Which sites a run can reach, and why it leaves others out."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from hyperslab.planning.invocation import Invocation

SINFO_SECONDS = 20


def partitions() -> set[str] | None:
    """Names of the partitions of the cluster at hand; None where no Slurm answers."""
    if shutil.which("sinfo") is None:
        return None
    try:
        done = subprocess.run(
            ["sinfo", "--noheader", "--format=%R"], capture_output=True, text=True, timeout=SINFO_SECONDS
        )
    except subprocess.TimeoutExpired:
        return None
    return set(done.stdout.split()) if done.returncode == 0 else None


def node_count(partition: str | None) -> int:
    """Nodes of a partition (of the default one, without a name) that are not down; at least one."""
    asked = [f"--partition={partition}"] if partition else []
    try:
        done = subprocess.run(
            ["sinfo", "--noheader", "--responding", "--format=%D %P", *asked],
            capture_output=True, text=True, timeout=SINFO_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return 1
    rows = [line.split() for line in done.stdout.splitlines()]
    counts = [int(count) for count, name in rows if partition or name.endswith("*")]
    return max(1, sum(counts))


def left_out(
    sites: Mapping[str, Mapping[str, Any]], invocation: Invocation, measuring: bool, batched: str, local: bool
) -> dict[str, str]:
    """Why a run cannot measure a site, by name; sites that it can reach are not in it.

    `batched` names the site whose batch this run measures from inside, "" outside of any; `local` says that
    this machine counts although jobs go to a cluster, which makes it a login node.
    """
    if not measuring:
        return dict.fromkeys(sites, "measure=false")
    if batched:
        return {name: "measured elsewhere" for name in sites if name != batched}
    if not invocation.main and not invocation.in_job:
        return {}
    if invocation.local:
        return {
            name: "needs a cluster: snakemake --profile slurm"
            for name, site in sites.items()
            if site["executor"] != "local"
        }
    reasons = {}
    known = partitions() if any(site["executor"] == "slurm" for site in sites.values()) else set()
    for name, site in sites.items():
        if site["executor"] == "local":
            if not local:
                reasons[name] = "this is the login node; --config local=true measures on it"
        elif known is None:
            # Inside a job it has answered before: the tables there are made of what the run outside reaches.
            if invocation.main:
                reasons[name] = "no Slurm answers here (sinfo)"
        elif site["partition"] and site["partition"] not in known:
            there = ", ".join(sorted(known))
            reasons[name] = f"this cluster has no partition {site['partition']!r}, only {there}"
    return reasons
