"""Probe a site for advice: how fast its storage reads and writes; prints what it finds as JSON.

A process of its own, since it joins the site's cgroup, and since it may run on a node of a cluster.
Usage: python -m hyperslab.probe_site --help
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from hyperslab.advising.probe import storage
from hyperslab.measuring import limits, locks, read_ahead
from hyperslab.sites import mounts, roots


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, type=Path, help="of the site's test files")
    parser.add_argument("--cgroup", help="that throttles whoever measures there")
    parser.add_argument("--read-ahead-bytes", type=int, help="what the site sets while a cell is timed")
    parser.add_argument("--zarr", action="store_true", help="probe zarr-python, too")
    options = parser.parse_args()
    try:
        if not roots.identity_of(str(options.root)):
            roots.prepare(str(options.root), roots.Root())
        # As a cell is timed: nobody else on this node or file system, with the site's read-ahead.
        with locks.alone(str(options.root)), read_ahead.kept(str(options.root), options.read_ahead_bytes):
            found = storage(
                options.root, options.zarr, options.read_ahead_bytes,
                lambda: limits.join_cgroup(options.cgroup, mounts.block_devices(options.root)),
            )  # fmt: skip
    except OSError as error:
        sys.exit(f"hyperslab.probe_site: {options.root}: {error.strerror or error}")
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
