"""Probe a site for advice: how fast its storage reads and writes; prints what it finds as JSON.

A process of its own, since it joins the site's cgroup, and since it may run on a node of a cluster. A root
that nobody has used yet is left as it was. Usage: python -m hyperslab.probe_site --help
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from hyperslab.advising.probe import Probe, storage, storage_of_file
from hyperslab.measuring import limits, locks, probe_directories, read_ahead
from hyperslab.sites import mounts, roots
from hyperslab.sites.configuration import load_sites
from hyperslab.validation.errors import ConfigurationError


@contextmanager
def prepared(root: Path) -> Iterator[None]:
    """Have a directory for a while: one that was not there is gone afterwards, with what was made for it."""
    made = [parent for parent in (root, *root.parents) if not parent.exists()]
    root.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        # A run or another advice may have begun to use it.
        with suppress(OSError):
            if not (root / roots.MARKER).exists():
                (root / locks.ROOT_LOCK).unlink(missing_ok=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()


def probed(options: argparse.Namespace) -> Probe:
    """Return what a probe of the site finds; raises OSError and ValueError."""
    place = options.file or options.root

    def hold_back() -> dict[str, object] | None:
        return limits.join_cgroup(options.cgroup, mounts.block_devices(place))

    if options.file:
        # Nothing can be written there, so that nobody measures there either, but on this node somebody may.
        scratch = Path(tempfile.gettempdir())
        with locks.on_node():
            return storage_of_file(options.file, scratch, options.read_ahead_bytes, hold_back)
    root, ahead = str(options.root), options.read_ahead_bytes
    # As a cell is timed: nobody else on this node or file system, with the site's read-ahead. The node's lock
    # comes first: no other probe takes the root away meanwhile.
    with locks.on_node(), prepared(options.root):
        probe_directories.sweep(options.root)
        with locks.in_root(root), read_ahead.kept(root, ahead):
            return storage(options.root, options.zarr, ahead, hold_back)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--root", type=Path, help="of the site's test files")
    place.add_argument(
        "--sites", type=Path, help="the file in which --site has its root, as this node finds it"
    )
    parser.add_argument("--site", help="name of the site there")
    parser.add_argument("--file", type=Path, help="read this instead, where nothing can be written")
    parser.add_argument("--cgroup", help="that throttles whoever measures there")
    parser.add_argument("--read-ahead-bytes", type=int, help="what the site sets while a cell is timed")
    parser.add_argument("--zarr", action="store_true", help="probe zarr-python, too")
    options = parser.parse_args()
    try:
        if options.sites:
            options.root = Path(load_sites(options.sites, inside=options.site)[options.site]["root"])
        print(json.dumps(asdict(probed(options))))
    except OSError as error:
        sys.exit(f"hyperslab.probe_site: {options.file or options.root}: {error.strerror or error}")
    except (ConfigurationError, ValueError) as error:
        sys.exit(f"hyperslab.probe_site: {error}")
    except KeyboardInterrupt:
        sys.exit("hyperslab.probe_site: interrupted")


if __name__ == "__main__":
    # It ends as by Ctrl-C, with nothing left in the root (scancel, a time limit).
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
