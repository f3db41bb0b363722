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

import yaml

from hyperslab.advising.probe import Probe
from hyperslab.sites.mounts import existing
from hyperslab.text import listing
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.nearest import choices

# A probe asks a node for so long, minutes.
PROBE_MINUTES = 10
# How jobs run, and sites are measured, on this machine.
LOCAL = "local"
# What the probing process says first of what went wrong.
PREFIX = "hyperslab.probe_site: "


class OutOfReach(Exception):
    """A site that cannot be probed from here; the text is one line with the fix."""


def executor_of(profile: str) -> str | None:
    """Return how a profile of Snakemake has jobs run; None where it does not lie here, or has no name."""
    files = sorted(Path(profile).glob("config*.yaml")) if profile else []
    if not files:
        return None
    try:
        said = yaml.safe_load(files[0].read_text(encoding="utf-8"))
    except yaml.YAMLError:
        # Snakemake says what is wrong with it.
        return None
    return str((said or {}).get("executor") or LOCAL)


def named(
    asked: Sequence[str], sites: Mapping[str, Mapping[str, Any]], file: Path, executor: str | None = None
) -> list[str]:
    """Return the sites at which it is measured, the first of `file` if none is asked for.

    `executor` is how jobs will be run, where that is known. Raises ConfigurationError, and OutOfReach also
    for an object store, and where none of the sites can be measured so.
    """
    names = list(asked) or [next(iter(sites))]
    for name in names:
        if name not in sites:
            raise ConfigurationError(file, "", f"no site {name!r}; there are {choices(name, sites)}")
        if sites[name]["store"] is not None:
            raise OutOfReach(
                f"site {name} is an object store, in which what is advised cannot lie; name a site "
                "with a file system alone with SITE="
            )
        if sites[name]["executor"] != LOCAL and shutil.which("srun") is None:
            raise OutOfReach(
                f"site {name} is reached through {sites[name]['executor']}, and there is no srun here; "
                "start it where jobs are submitted, or name a site of this machine with SITE="
            )
    if executor and not any((sites[name]["executor"] == LOCAL) == (executor == LOCAL) for name in names):
        why = f"is of this machine, and {executor} runs on a cluster; leave PROFILE out, or name a site"
        if executor == LOCAL:
            why = "needs a cluster; say PROFILE=slurm (snakemake --profile slurm), or name a site"
        raise OutOfReach(f"{listing(names)}: {why} that can be reached so with SITE=")
    return names


def described(site: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a site says how it is probed, as JSON has it."""
    return {key: site[key] for key in ("name", "root", "executor", "cgroup", "read_ahead_bytes")}


def probed(site: Mapping[str, Any], zarr: bool, file: Path | None = None, sites: Path | None = None) -> Probe:
    """Probe a site in a process of its own, on a node where the site is a cluster's; raises OutOfReach.

    Where nothing can be written, `file` is read instead. The root is as its node finds it in the file
    `sites`, where that is given: variables of it may be known only there.
    """
    command = [sys.executable, "-m", "hyperslab.probe_site"]
    command += ["--sites", str(sites), "--site", site["name"]] if sites else ["--root", str(site["root"])]
    command += ["--file", str(file)] if file else []
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
        said = " ".join(done.stderr.removeprefix(PREFIX).split())[-300:]
        raise OutOfReach(f"site {site['name']} could not be probed: {said}")
    try:
        # What a prologue of the node says comes before it.
        return Probe.of(json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError, KeyError):
        said = " ".join(done.stdout.split())[-300:]
        raise OutOfReach(f"site {site['name']} could not be probed: its node says {said!r}") from None


def _on_a_node(site: Mapping[str, Any]) -> list[str]:
    """Return what runs a command on a node of the site; nothing on this machine."""
    if site["executor"] == LOCAL:
        return []
    options = {key: site[key] for key in ("partition", "account", "constraint", "qos") if site[key]}
    return [
        "srun", "--quiet", "--nodes=1", "--ntasks=1", f"--time={min(PROBE_MINUTES, site['minutes'])}",
        f"--mem={site['memory_mb']}M", *(f"--{key}={value}" for key, value in options.items()),
        *([f"--cpus-per-task={site['cpus']}"] if site["cpus"] else []),
        *(["--exclusive"] if site["exclusive"] else []), *shlex.split(site["extra"]),
    ]  # fmt: skip


def writable(directory: Path) -> bool:
    """Return whether test files can be written at a place, or at what there is of it."""
    there = existing(directory)
    # A superuser may write everywhere but on a file system that is mounted read-only.
    return os.access(there, os.W_OK) and not os.statvfs(there).f_flag & os.ST_RDONLY


def one_device(file: Path, directory: Path) -> bool:
    """Return whether a file lies on the device of a directory, or of what there is of that."""
    return file.stat().st_dev == existing(directory).stat().st_dev
