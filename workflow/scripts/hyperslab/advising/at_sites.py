"""The sites of an advice: which they are, whether they can be reached and written, and how fast they are."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.advising.probe import Storage
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.nearest import choices

# A probe asks a node for so long, minutes.
PROBE_MINUTES = 10


class OutOfReach(Exception):
    """A site that cannot be probed from here; the text is one line with the fix."""


def named(asked: Sequence[str], sites: Mapping[str, Mapping[str, Any]], file: Path) -> list[str]:
    """Return the sites at which it is measured, the first of `file` if none is asked for.

    Raises ConfigurationError and OutOfReach.
    """
    names = list(asked) or [next(iter(sites))]
    for name in names:
        if name not in sites:
            raise ConfigurationError(file, "", f"no site {name!r}; there are {choices(name, sites)}")
        if sites[name]["executor"] != "local" and shutil.which("srun") is None:
            raise OutOfReach(
                f"site {name} is reached through {sites[name]['executor']}, and there is no srun here; "
                "start it where jobs are submitted, or name a site of this machine with SITE="
            )
    return names


def probed(site: Mapping[str, Any], zarr: bool) -> Storage:
    """Probe a site in a process of its own, on a node where the site is a cluster's; raises OutOfReach."""
    command = [sys.executable, "-m", "hyperslab.probe_site", "--root", str(site["root"])]
    command += ["--cgroup", site["cgroup"]] if site["cgroup"] else []
    command += (
        ["--read-ahead-bytes", str(site["read_ahead_bytes"])] if site["read_ahead_bytes"] is not None else []
    )
    command += ["--zarr"] if zarr else []
    done = subprocess.run(
        [*_on_a_node(site), *command], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}, check=False,
    )  # fmt: skip
    if done.returncode:
        raise OutOfReach(f"site {site['name']} could not be probed: {' '.join(done.stderr.split())[-300:]}")
    return Storage(**json.loads(done.stdout))


def _on_a_node(site: Mapping[str, Any]) -> list[str]:
    """Return what runs a command on a node of the site; nothing on this machine."""
    if site["executor"] == "local":
        return []
    options = {key: site[key] for key in ("partition", "account", "constraint", "qos") if site[key]}
    return [
        "srun", "--quiet", "--nodes=1", "--ntasks=1", f"--time={min(PROBE_MINUTES, site['minutes'])}",
        f"--mem={site['memory_mb']}M", *(f"--{key}={value}" for key, value in options.items()),
        *(["--exclusive"] if site["exclusive"] else []), *shlex.split(site["extra"]),
    ]  # fmt: skip


def writable(directory: Path) -> bool:
    """Return whether test files can be written at a place, or at what there is of it."""
    existing = next(parent for parent in (directory, *directory.parents) if parent.exists())
    # A superuser may write everywhere but on a file system that is mounted read-only.
    return os.access(existing, os.W_OK) and not os.statvfs(existing).f_flag & os.ST_RDONLY
