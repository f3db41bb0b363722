"""Which sites a run can reach, and why it leaves others out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.planning import slurm
from hyperslab.planning.invocation import Invocation


def left_out(
    sites: Mapping[str, Mapping[str, Any]], invocation: Invocation, measuring: bool, batched: str, local: bool
) -> dict[str, str]:
    """Return why a run cannot measure a site, by name; sites that it can reach are not in it.

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
    known = slurm.partitions() if any(site["executor"] == "slurm" for site in sites.values()) else set()
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
