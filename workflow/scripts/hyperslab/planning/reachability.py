"""Which sites a run can reach, and why it leaves others out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.planning import slurm
from hyperslab.planning.invocation import Invocation
from hyperslab.validation.errors import ConfigurationError


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
    known = slurm.partitions() if any(site["executor"] == "slurm" for site in sites.values()) else {}
    for name, site in sites.items():
        if site["executor"] == "local":
            if not local:
                reasons[name] = "this is the login node; --config local=true measures on it"
        elif known is None:
            # Inside a job it has answered before: the tables there are made of what the run outside reaches.
            if invocation.main:
                reasons[name] = "no Slurm answers here (sinfo)"
        elif missing := [one for one in _partitions(site) if one not in known]:
            there = ", ".join(sorted(known))
            reasons[name] = f"this cluster has no partition {missing[0]!r}, only {there}"
    return reasons


def _partitions(site: Mapping[str, Any]) -> list[str]:
    """Return the partitions that a site names; Slurm takes a job to any of several."""
    return site["partition"].split(",") if site["partition"] else []


def check_minutes(names: Sequence[str], sites: Mapping[str, Mapping[str, Any]], file: Path) -> None:
    """Raise ConfigurationError where jobs of a site ask for more time than any partition that it names gives.

    A quality of service may lift that limit.
    """
    for name in names:
        site = sites[name]
        asked = _partitions(site) if not site["qos"] else []
        known = slurm.partitions() or {} if asked else {}
        most = max((known.get(one, math.inf) for one in asked), default=math.inf)
        if site["minutes"] > most:
            named = f"partition{'s' if len(asked) > 1 else ''} {', '.join(asked)}"
            message = f"{site['minutes']} min are more than jobs of {named} may take, {most:g} min"
            raise ConfigurationError(file, f"platforms.{site['platform']}.minutes", message)
